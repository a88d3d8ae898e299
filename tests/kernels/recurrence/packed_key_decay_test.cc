// Goal: advancing a packed state in one pass has the bits of unpacking it, the
// plain step and packing it. Method: several tokens both ways, every width of a
// tail, on every target.

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "kernels/recurrence/decay_steps.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/state/packed_matrix.h"

namespace steadystate::packed_key_decay_test {
namespace {

using Type = PackedMatrix::Type;

class PackedKeyDecayTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(PackedKeyDecayTest);

void ExpectFusedIsUnfused(Type type, size_t K, size_t V, Numbers& numbers) {
  SCOPED_TRACE(testing::Message() << "K " << K << " V " << V);
  PackedMatrix fused(type, K, V);
  PackedMatrix plain(type, K, V);
  for (uint64_t t = 0; t < 6; ++t) {
    Floats decay = numbers.Uniform(K, 0.0f, 1.0f);
    const Floats low = numbers.Uniform(K, -3e-8f, 3e-8f);
    if (t == 4) decay[0] = 0;
    if (t == 5) decay[0] = 1;
    const Floats q = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats k = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats v = numbers.Uniform(V, -1.0f, 1.0f);
    std::vector<float> o(V), expected(V);
    std::vector<float> state = plain.Unpack();
    // Sums of two floats, floats, one for all.
    const Decays decays = {decay.data(), t % 3 == 1 ? nullptr : low.data(),
                           t % 3 == 2 ? size_t{0} : size_t{1}};
    HeadToken token = {.K = K,
                       .V = V,
                       .scale = 0.125f,
                       .q = q.data(),
                       .k = k.data(),
                       .v = v.data(),
                       .o = expected.data()};
    KeyDecayStep(token, decays, state.data());
    token.o = o.data();
    plain.Pack(state.data(), t);
    const RoundingNoise noise = fused.NoiseAt(t);
    if (type == Type::kBf16) {
      KeyDecayStepBf16({.K = K,
                        .V = V,
                        .scale = 0.125f,
                        .q = q.data(),
                        .k = k.data(),
                        .v = v.data(),
                        .o = o.data()},
                       decays, noise, fused.bf16.data());
    } else {
      KeyDecayStepInt16({.K = K,
                         .V = V,
                         .scale = 0.125f,
                         .q = q.data(),
                         .k = k.data(),
                         .v = v.data(),
                         .o = o.data()},
                        decays, noise, fused.int16.data(),
                        fused.exponents.data());
    }
    ASSERT_EQ(o, expected) << t;
    ASSERT_EQ(fused.bf16, plain.bf16) << t;
    ASSERT_EQ(fused.int16, plain.int16) << t;
    ASSERT_EQ(fused.exponents, plain.exponents) << t;
  }
}

TEST_P(PackedKeyDecayTest, Bf16HasTheBitsOfThreePasses) {
  Numbers numbers(81);
  for (size_t n = 1; n <= 70; ++n) {
    ExpectFusedIsUnfused(Type::kBf16, 3, n, numbers);
    ExpectFusedIsUnfused(Type::kBf16, n, 5, numbers);
  }
  for (const size_t V : {64u, 128u, 256u, 512u, 2100u}) {
    ExpectFusedIsUnfused(Type::kBf16, 17, V, numbers);
  }
}

TEST_P(PackedKeyDecayTest, Int16HasTheBitsOfThreePasses) {
  Numbers numbers(82);
  for (const size_t V : {32u, 64u, 96u, 128u, 256u, 512u, 2080u}) {
    ExpectFusedIsUnfused(Type::kInt16, 17, V, numbers);
    ExpectFusedIsUnfused(Type::kInt16, 1, V, numbers);
  }
  // Rows that are no whole fours.
  for (size_t K = 2; K < 10; ++K) {
    ExpectFusedIsUnfused(Type::kInt16, K, 64, numbers);
    ExpectFusedIsUnfused(Type::kInt16, K, 96, numbers);
  }
}

// Rows of all sizes side by side: one's unit is no other's.
TEST_P(PackedKeyDecayTest, Int16HasUnitsOfTheirOwn) {
  constexpr size_t kRows = 14;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> k = {1.0f,       0.0f,  1e-31f, 5e-30f,  2e-29f,
                                kNaN,       1e30f, -3e38f, 3.4e38f, 1e-20f,
                                -kInfinity, 1.0f,  2e-30f, 7.0f};
  const std::vector<float> decay(kRows, 0.5f);
  const std::vector<float> q(kRows, 0.0f);
  Numbers numbers(83);
  for (const size_t V : {32u, 64u, 96u, 256u}) {
    SCOPED_TRACE(V);
    PackedMatrix fused(Type::kInt16, kRows, V);
    PackedMatrix plain(Type::kInt16, kRows, V);
    Floats v = numbers.Uniform(V, -1.0f, 1.0f);
    v[V / 2] = 1.0f;
    std::vector<float> o(V);
    for (uint64_t t = 0; t < 2; ++t) {
      std::vector<float> state = plain.Unpack();
      KeyDecayStep({.K = kRows,
                    .V = V,
                    .q = q.data(),
                    .k = k.data(),
                    .v = v.data(),
                    .o = o.data()},
                   {decay.data()}, state.data());
      plain.Pack(state.data(), t);
      KeyDecayStepInt16({.K = kRows,
                         .V = V,
                         .q = q.data(),
                         .k = k.data(),
                         .v = v.data(),
                         .o = o.data()},
                        {decay.data()}, fused.NoiseAt(t), fused.int16.data(),
                        fused.exponents.data());
      ASSERT_EQ(fused.exponents, plain.exponents);
    }
    const std::vector<float> actual = fused.Unpack();
    const std::vector<float> expected = plain.Unpack();
    for (size_t n = 0; n < actual.size(); ++n) {
      EXPECT_EQ(std::isfinite(actual[n]), std::isfinite(expected[n])) << n;
      if (!std::isfinite(expected[n])) continue;
      EXPECT_EQ(actual[n], expected[n]) << n;
    }
  }
}

}  // namespace
}  // namespace steadystate::packed_key_decay_test
