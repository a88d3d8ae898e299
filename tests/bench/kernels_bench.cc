// What the kernels of one decode step cost. Numbers of one run compare with
// each other; between runs only their ratios mean something.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "hwy/highway.h"
#include "kernels/linear/linear.h"
#include "kernels/pointwise/activation.h"
#include "kernels/recurrence/bonus_decay.h"
#include "kernels/recurrence/complex_key_decay.h"
#include "kernels/recurrence/full_decay.h"
#include "kernels/recurrence/key_decay.h"
#include "kernels/recurrence/outer_decay.h"
#include "kernels/recurrence/rank_one_decay.h"
#include "kernels/thread_pool.h"

namespace steadystate {
namespace {

double Times(const benchmark::State& state, size_t n) {
  return static_cast<double>(state.iterations()) * static_cast<double>(n);
}

// Makes the kernels run on one SIMD target while it lives.
class PinnedTarget {
 public:
  explicit PinnedTarget(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
  }
  ~PinnedTarget() {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
  PinnedTarget(const PinnedTarget&) = delete;
  PinnedTarget& operator=(const PinnedTarget&) = delete;
};

// The inputs that the recurrences take of one token, for K = V.
struct Token {
  static constexpr size_t kWidth = 128;

  std::vector<float> decay = std::vector<float>(kWidth, 0.99f);
  std::vector<float> small = std::vector<float>(kWidth, 0.01f);
  std::vector<float> q = std::vector<float>(kWidth, 0.5f);
  std::vector<float> k = std::vector<float>(kWidth, 0.25f);
  std::vector<float> v = std::vector<float>(kWidth, 0.125f);
  std::vector<float> rate = std::vector<float>(kWidth * kWidth, 0.5f);
};

struct Recurrence {
  const char* name;
  size_t planes;  // of the state
  void (*step)(const Token& token, float* state, float* o);
};

constexpr size_t K = Token::kWidth;
constexpr size_t V = Token::kWidth;

constexpr Recurrence kRecurrences[] = {
    {"KeyDecay", 1,
     [](const Token& t, float* state, float* o) {
       KeyDecayStep(K, V, 1.0f, t.decay.data(), t.q.data(), t.k.data(),
                    t.v.data(), state, o);
     }},
    {"OuterDecay", 1,
     [](const Token& t, float* state, float* o) {
       OuterDecayStep(K, V, 1.0f, t.decay.data(), t.decay.data(), t.q.data(),
                      t.k.data(), t.v.data(), state, o);
     }},
    {"FullDecay", 1,
     [](const Token& t, float* state, float* o) {
       FullDecayStep(K, V, 1.0f, t.rate.data(), t.small.data(), t.q.data(),
                     t.k.data(), t.v.data(), state, o);
     }},
    {"ComplexKeyDecay", 2,
     [](const Token& t, float* state, float* o) {
       ComplexKeyDecayStep(K, V, 1.0f, t.decay.data(), t.small.data(),
                           t.q.data(), t.k.data(), t.v.data(), state, o);
     }},
    {"BonusDecay", 1,
     [](const Token& t, float* state, float* o) {
       BonusDecayStep(K, V, t.decay.data(), t.q.data(), t.q.data(), t.k.data(),
                      t.v.data(), state, o);
     }},
    {"RankOneDecay", 1,
     [](const Token& t, float* state, float* o) {
       RankOneDecayStep(K, V, 1.0f, t.decay.data(), t.small.data(),
                        t.small.data(), t.q.data(), t.k.data(), t.v.data(),
                        state, o);
     }},
};

// Advances `heads` heads by a token each, state after state, as a decode step
// over many sessions does: few heads stay in cache, many stream from memory.
void Recur(benchmark::State& state, int64_t target,
           const Recurrence& recurrence, size_t heads) {
  const PinnedTarget pinned(target);
  const Token token;
  const size_t elements = recurrence.planes * K * V;
  std::vector<float> states(heads * elements);
  std::vector<float> o(V);
  for (auto _ : state) {
    for (size_t h = 0; h < heads; ++h) {
      recurrence.step(token, states.data() + h * elements, o.data());
    }
    benchmark::DoNotOptimize(o.data());
  }
  // Read and written: each byte of the state counts twice.
  state.SetBytesProcessed(
      static_cast<int64_t>(Times(state, 2 * states.size() * sizeof(float))));
}

void Silu(benchmark::State& state, int64_t target) {
  const PinnedTarget pinned(target);
  std::vector<float> x(4096, 0.5f);
  std::vector<float> y(x.size());
  for (auto _ : state) {
    Activate(Activation::kSilu, x.size(), x.data(), y.data());
    benchmark::DoNotOptimize(y.data());
  }
  state.SetItemsProcessed(static_cast<int64_t>(Times(state, x.size())));
}

// A projection of `in` inputs to as many outputs, many times larger in sum
// than the caches, so that weights stream as they do in a model.
class Projections {
 public:
  static constexpr size_t kSize = 2048;
  static constexpr size_t kCount = 8;

  static std::unique_ptr<Projections> Create(DType dtype) {
    auto factory = LinearFactory::Create(dtype);
    if (!factory.ok()) return nullptr;
    auto result = std::make_unique<Projections>();
    const std::vector<float> weights(kSize * kSize, 0.01f);
    const WeightRows part = {{weights.data(), DType::kF32}, kSize};
    for (size_t i = 0; i < kCount; ++i) {
      auto linear = (*factory)->Make(kSize, {&part, 1});
      if (!linear.ok()) return nullptr;
      result->linears_.push_back(*std::move(linear));
    }
    return result;
  }

  const std::vector<std::unique_ptr<Linear>>& linears() const {
    return linears_;
  }

 private:
  std::vector<std::unique_ptr<Linear>> linears_;
};

void Project(benchmark::State& state, DType dtype, size_t rows) {
  const std::unique_ptr<Projections> projections = Projections::Create(dtype);
  if (projections == nullptr) {
    state.SkipWithError("not on this CPU");
    return;
  }
  constexpr size_t kSize = Projections::kSize;
  ThreadPool pool(1);
  LinearScratch scratch;
  const std::vector<float> x(rows * kSize, 0.5f);
  std::vector<float> y(rows * kSize);
  for (auto _ : state) {
    for (const std::unique_ptr<Linear>& linear : projections->linears()) {
      linear->Run(rows, x.data(), kSize, y.data(), kSize, pool, scratch);
    }
    benchmark::DoNotOptimize(y.data());
  }
  const double products = Times(state, Projections::kCount * kSize * kSize);
  state.SetBytesProcessed(
      static_cast<int64_t>(products * static_cast<double>(SizeOf(dtype))));
  state.counters["flop/s"] = benchmark::Counter(
      2.0 * static_cast<double>(rows) * products, benchmark::Counter::kIsRate);
}

// What a ParallelFor costs beside its tasks.
void EmptyTasks(benchmark::State& state) {
  ThreadPool pool(2);
  for (auto _ : state) {
    pool.ParallelFor(8, [](size_t i, size_t) { benchmark::DoNotOptimize(i); });
  }
}

void RegisterAll() {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const std::string name = hwy::TargetName(target);
    for (const Recurrence& recurrence : kRecurrences) {
      for (const size_t heads : {4u, 1024u}) {
        benchmark::RegisterBenchmark(
            (std::string(recurrence.name) +
             "/128x128/heads:" + std::to_string(heads) + "/" + name)
                .c_str(),
            Recur, target, recurrence, heads);
      }
    }
    benchmark::RegisterBenchmark(("Silu/4096/" + name).c_str(), Silu, target);
  }
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const size_t rows : {1u, 8u, 32u, 256u}) {
      benchmark::RegisterBenchmark(
          (std::string("Linear/2048x2048/") + Name(dtype) +
           "/rows:" + std::to_string(rows))
              .c_str(),
          Project, dtype, rows);
    }
  }
  benchmark::RegisterBenchmark("ThreadPool/8EmptyTasks", EmptyTasks);
}

}  // namespace
}  // namespace steadystate

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  steadystate::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
