#include "tests/bench/chunk_section.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/thread_pool.h"
#include "tests/bench/bandwidth.h"
#include "tests/bench/chunk_kernels.h"
#include "tests/bench/fma_loop.h"
#include "tests/bench/stopwatch.h"

namespace steadystate::bench {
namespace {

struct ChunkHead {
  size_t K;
  size_t V;
};
// mamba2-370m, gla-340m, gla-1.3b.
constexpr ChunkHead kChunkHeads[] = {{128, 64}, {128, 256}, {256, 512}};

// Flop per second of a team whose members all multiply and add.
double FmaRate(ThreadPool& pool, size_t rounds) {
  double flop = 0;
  const double seconds = TimeOnce([&] {
    pool.ParallelFor(pool.size(), [&](size_t i, size_t) {
      const double done = FmaLoop(rounds);
      if (i == 0) flop = done;
    });
  });
  return flop * static_cast<double>(pool.size()) / seconds;
}

nlohmann::json MeasureChunks(const ChunkKernel& kernel, const ChunkHead& head,
                             ThreadPool& pool, const RunOptions& run) {
  std::vector<ChunkInputs> inputs(pool.size(), ChunkInputs(head.K, head.V));
  const size_t chunks = run.Unless<size_t>(1, 50);
  const size_t rounds = run.Unless<size_t>(100, 1000000);
  const auto once = [&] {
    pool.ParallelFor(pool.size(), [&](size_t i, size_t) {
      for (size_t j = 0; j < chunks; ++j) kernel.run(inputs[i]);
    });
  };
  once();
  const double flop =
      kernel.flop(static_cast<double>(kernel.tokens),
                  static_cast<double>(head.K), static_cast<double>(head.V));
  Samples times, rates, limits;
  for (size_t i = 0; i < run.repetitions; ++i) {
    limits.Add(FmaRate(pool, rounds));
    const double seconds = TimeOnce(once) / static_cast<double>(chunks);
    times.Add(seconds);
    rates.Add(flop * static_cast<double>(pool.size()) / seconds);
  }
  nlohmann::json row = {{"kernel", kernel.name},
                        {"head", absl::StrCat(head.K, "x", head.V)},
                        {"threads", pool.size()},
                        {"tokens", kernel.tokens}};
  Put(row, "us", times.Times(1e6));
  row["ns_per_token"] =
      1e9 * times.Median() / static_cast<double>(kernel.tokens);
  Put(row, "gflop_per_second", rates.Times(1 / kGiga));
  row["limit_gflop_per_second"] = limits.Median() / kGiga;
  Put(row, "fraction", Ratios(rates, limits));
  return row;
}

}  // namespace

Section ChunkSection(const std::vector<size_t>& teams, const RunOptions& run) {
  Section section{"chunks",
                  "Chunk kernels, states in cache",
                  {{"kernel", "kernel"},
                   {"head", "head"},
                   {"threads", "threads"},
                   {"tokens", "tokens"},
                   {"us", "us/chunk", 1},
                   {"ns_per_token", "ns/token", 0},
                   {"gflop_per_second", "GFLOP/s", 1},
                   {"limit_gflop_per_second", "loop, GFLOP/s", 1},
                   {"fraction", "fraction", 2}},
                  {}};
  for (const size_t threads : teams) {
    ThreadPool pool(threads);
    for (const ChunkKernel& kernel : ChunkKernels()) {
      for (const ChunkHead& head : kChunkHeads) {
        section.rows.push_back(MeasureChunks(kernel, head, pool, run));
      }
    }
  }
  return section;
}

}  // namespace steadystate::bench
