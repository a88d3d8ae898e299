#include "tests/bench/attention_section.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/attention/softmax_attention.h"
#include "kernels/thread_pool.h"
#include "tests/bench/bandwidth.h"
#include "tests/bench/huge_floats.h"
#include "tests/bench/samples.h"
#include "tests/bench/stopwatch.h"

namespace steadystate::bench {
namespace {

constexpr size_t kSessions = 8;
constexpr uint16_t kSomeBf16 = 0x3c00;  // 2^-7

struct CacheShape {
  const char* model;
  size_t kv_heads;
  size_t d;
  size_t group;   // queries that share a head
  size_t layers;  // whose rows of a token lie together
};
constexpr CacheShape kCacheShapes[] = {{"lfm2-1.2b", 8, 64, 4, 6},
                                       {"granite-4.0-h-350m", 4, 64, 3, 4},
                                       {"qwen3.5-0.8b", 2, 256, 4, 6}};

// The caches of some sessions in small pages, as growing states lie.
class Caches {
 public:
  Caches(const CacheShape& shape, size_t tokens, size_t threads)
      : shape_(shape),
        tokens_(tokens),
        elements_(kSessions,
                  std::vector<uint16_t>(tokens * stride(), kSomeBf16)),
        q_(queries() * shape.d, 0.5f),
        o_(kSessions, std::vector<float>(queries() * shape.d)),
        scratch_(threads, std::vector<float>(StepScratch(queries()))) {}

  // What one layer has of all sessions.
  size_t bytes() const {
    return kSessions * tokens_ * row() * sizeof(uint16_t);
  }

  // One layer's queries of every session, `heads` key heads a call.
  double Time(size_t heads, ThreadPool& pool) {
    return TimeOnce([&] {
      pool.ParallelFor(kSessions, [&](size_t session, size_t worker) {
        for (size_t g = 0; g < shape_.kv_heads; g += heads) {
          const uint16_t* const keys = elements_[session].data() + g * shape_.d;
          const size_t first = g * shape_.group * shape_.d;
          SoftmaxAttentionStep({.d = shape_.d,
                                .n = tokens_,
                                .stride = stride(),
                                .dtype = DType::kBf16,
                                .keys = keys,
                                .values = keys + shape_.kv_heads * shape_.d},
                               {.kv_heads = heads,
                                .group = shape_.group,
                                .scale = 0.1f,
                                .q = q_.data() + first,
                                .o = o_[session].data() + first},
                               scratch_[worker].data());
        }
      });
    });
  }

 private:
  size_t queries() const { return shape_.kv_heads * shape_.group; }
  size_t row() const { return 2 * shape_.kv_heads * shape_.d; }
  size_t stride() const { return shape_.layers * row(); }

  const CacheShape shape_;
  const size_t tokens_;
  std::vector<std::vector<uint16_t>> elements_;
  std::vector<float> q_;
  std::vector<std::vector<float>> o_;
  std::vector<std::vector<float>> scratch_;
};

nlohmann::json MeasureAttention(const CacheShape& shape, MemoryProbe& probe,
                                ThreadPool& pool, const RunOptions& run) {
  const size_t tokens = run.Unless<size_t>(20, 4000);
  Caches caches(shape, tokens, pool.size());
  caches.Time(shape.kv_heads, pool);
  Samples by_head, together, limits;
  for (size_t i = 0; i < 3 * run.repetitions; ++i) {
    limits.Add(probe.Read());
    by_head.Add(caches.Time(1, pool));
    together.Add(caches.Time(shape.kv_heads, pool));
  }
  const auto bytes = static_cast<double>(caches.bytes());
  nlohmann::json row = {{"model", shape.model},
                        {"heads", absl::StrCat(shape.kv_heads, "x", shape.d)},
                        {"queries", shape.group},
                        {"threads", pool.size()}};
  Put(row, "us", together.Times(1e6));
  Put(row, "by_head_gb_per_second", by_head.Into(bytes / kGiga));
  Put(row, "gb_per_second", together.Into(bytes / kGiga));
  row["limit_gb_per_second"] = limits.Median() / kGiga;
  Put(row, "fraction", Ratios(together.Into(bytes), limits));
  return row;
}

}  // namespace

Section AttentionSection(const std::vector<size_t>& teams,
                         const RunOptions& run) {
  Section section{"attention",
                  absl::StrCat("Softmax attention of a token, bf16 caches of ",
                               run.Unless<size_t>(20, 4000), " tokens of ",
                               kSessions, " sessions in DRAM"),
                  {{"model", "model"},
                   {"heads", "key heads"},
                   {"queries", "queries of each"},
                   {"threads", "threads"},
                   {"us", "us", 0},
                   {"by_head_gb_per_second", "head after head, GB/s", 1},
                   {"gb_per_second", "all heads, GB/s", 1},
                   {"limit_gb_per_second", "loop, GB/s", 1},
                   {"fraction", "fraction", 2}},
                  {}};
  const HugeFloats memory(run.Unless(size_t{1} << 18, size_t{1} << 26), 1.0f);
  for (const size_t threads : teams) {
    ThreadPool pool(threads);
    MemoryProbe probe(memory.data(), memory.size(), pool);
    for (const CacheShape& shape : kCacheShapes) {
      section.rows.push_back(MeasureAttention(shape, probe, pool, run));
    }
  }
  return section;
}

}  // namespace steadystate::bench
