// Goal: queries are answered from the keys and values before them, however many
// of them share a head, in a ring or not, with values of their own or without,
// token by token or together, whoever computes which. Method: random rows
// against the formula in double.
#include "server/model/parts/cached_attention.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/part_harness.h"

namespace steadystate::cached_attention_test {
namespace {

constexpr size_t kRows = 20, kWidth = 5;
constexpr uint64_t kSeed = 3;

std::vector<float> Random(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = number(random);
  return values;
}

// Queries, keys and values side by side, as a fused projection has them.
struct Inputs {
  explicit Inputs(const CachedAttentionOptions& options)
      : stride((options.heads + 2 * options.kv_heads) * kWidth),
        x(Random(kRows * stride, kSeed)) {}

  size_t stride;
  std::vector<float> x;
};

AttentionRows RowsOf(const CachedAttentionOptions& options, const Inputs& in,
                     std::vector<float>& out) {
  const float* const k = in.x.data() + options.heads * kWidth;
  return {
      .q = in.x.data(),
      .q_stride = in.stride,
      .k = k,
      .v = options.values_are_keys ? nullptr : k + options.kv_heads * kWidth,
      .kv_stride = in.stride,
      .o = out.data()};
}

// Column `c` of what head h of row t gets.
double Expected(const CachedAttentionOptions& options, const Inputs& in,
                size_t t, size_t h, size_t c) {
  const size_t kv_head = h / (options.heads / options.kv_heads);
  const size_t first = t + 1 - std::min(t + 1, options.window.value_or(kRows));
  const size_t value = options.values_are_keys ? 0 : options.kv_heads;
  double sum = 0;
  double weights = 0;
  for (size_t j = first; j <= t; ++j) {
    const float* const q = in.x.data() + t * in.stride + h * kWidth;
    const float* const k =
        in.x.data() + j * in.stride + (options.heads + kv_head) * kWidth;
    double dot = 0;
    for (size_t i = 0; i < kWidth; ++i) {
      dot += static_cast<double>(q[i]) * static_cast<double>(k[i]);
    }
    const double weight = std::exp(static_cast<double>(options.scale) * dot);
    weights += weight;
    sum += weight * static_cast<double>(k[value * kWidth + c]);
  }
  return sum / weights;
}

// What comes out of pieces of so many rows.
std::vector<float> Run(const CachedAttentionOptions& options, size_t piece,
                       size_t threads) {
  PartHarness harness({.config = {{"model_type", "none"}}, .tensors = {}});
  auto attention = CachedAttention::Make(harness.builder(), options);
  EXPECT_TRUE(attention.ok()) << attention.status();
  harness.Start(kRows, threads);
  const Inputs in(options);
  std::vector<float> out(kRows * options.heads * kWidth);
  for (size_t first = 0; first < kRows; first += piece) {
    Segment segment = harness.segment(first, std::min(piece, kRows - first));
    segment.first_row = first;
    attention->Run({&segment, 1}, RowsOf(options, in, out), harness.buffers());
  }
  return out;
}

void ExpectAttends(const CachedAttentionOptions& options) {
  const Inputs in(options);
  for (const size_t piece : {size_t{1}, size_t{3}, kRows}) {
    SCOPED_TRACE(piece);
    const std::vector<float> out = Run(options, piece, 1);
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t t = i / kWidth / options.heads;
      ASSERT_NEAR(
          static_cast<double>(out[i]),
          Expected(options, in, t, i / kWidth % options.heads, i % kWidth),
          2e-6)
          << "row " << t;
    }
    EXPECT_THAT(Run(options, piece, 3), testing::ContainerEq(out));
  }
}

TEST(CachedAttentionTest, EveryHeadHasKeysOfItsOwn) {
  ExpectAttends({.heads = 3, .kv_heads = 3, .d = kWidth, .scale = 0.5F});
}

TEST(CachedAttentionTest, FewQueriesShareAHead) {
  ExpectAttends({.heads = 6, .kv_heads = 2, .d = kWidth, .scale = 1.5F});
}

TEST(CachedAttentionTest, ManyQueriesShareAHead) {
  ExpectAttends({.heads = 22, .kv_heads = 2, .d = kWidth});
}

TEST(CachedAttentionTest, MoreQueriesShareAHeadThanAreTakenTogether) {
  ExpectAttends({.heads = 70, .kv_heads = 1, .d = kWidth});
}

TEST(CachedAttentionTest, ManyQueriesShareAHeadInARing) {
  ExpectAttends({.heads = 11, .kv_heads = 1, .d = kWidth, .window = 4});
}

TEST(CachedAttentionTest, ValuesMayBeKeys) {
  ExpectAttends({.heads = 7,
                 .kv_heads = 1,
                 .d = kWidth,
                 .scale = 2,
                 .values_are_keys = true});
}

TEST(CachedAttentionTest, ValuesMayBeKeysInARing) {
  ExpectAttends({.heads = 6,
                 .kv_heads = 3,
                 .d = kWidth,
                 .window = 7,
                 .values_are_keys = true});
}

}  // namespace
}  // namespace steadystate::cached_attention_test
