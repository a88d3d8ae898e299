#ifndef STEADYSTATE_TESTS_KERNELS_RECURRENCE_GOLDEN_TOKENS_H_
#define STEADYSTATE_TESTS_KERNELS_RECURRENCE_GOLDEN_TOKENS_H_

#include <cmath>

#include "gtest/gtest.h"

namespace steadystate {

// Three tokens of one head, K = V = 2, and gates for them, for which the
// outputs of many mechanisms were computed by hand.
inline constexpr float kGoldenQ[][2] = {
    {0.5f, -1.0f}, {1.5f, 0.25f}, {-0.75f, 2.0f}};
inline constexpr float kGoldenK[][2] = {
    {1.0f, 0.5f}, {-0.5f, 1.25f}, {0.25f, -2.0f}};
inline constexpr float kGoldenV[][2] = {
    {1.0f, 2.0f}, {-1.0f, 0.5f}, {3.0f, -0.25f}};
inline constexpr float kGoldenKeyLogDecay[][2] = {
    {-0.1f, -0.5f}, {-0.2f, -0.05f}, {-1.0f, -0.3f}};
inline constexpr float kGoldenLogDecay[] = {-0.1f, -0.2f, -0.3f};
inline constexpr float kGoldenBeta[] = {0.5f, 0.9f, 0.25f};

// The golden numbers have six decimals.
inline void ExpectGolden(const float (&o)[2], const double (&golden)[2]) {
  EXPECT_NEAR(static_cast<double>(o[0]), golden[0], 3e-6);
  EXPECT_NEAR(static_cast<double>(o[1]), golden[1], 3e-6);
}

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_KERNELS_RECURRENCE_GOLDEN_TOKENS_H_
