// Goal: a matrix product is its formula, at any size and stride, and an
// element's bits do not depend on the size of the whole. Method: against sums
// in double, and against single columns and rows, on every target.

#include "kernels/chunk/matrix_product.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/chunk/chunk_inputs.h"
#include "tests/kernels/numbers.h"

namespace steadystate::matrix_product_test {
namespace {

class MatrixProductTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(MatrixProductTest);

struct Case {
  size_t m, n, k;
  bool transposed = false;
  bool keeps = false;
  bool lower_a = false;
  bool lower_c = false;
};

// A case's matrices; C has columns to spare, which must stay as they are.
struct Matrices {
  Matrices(const Case& shape, Numbers& numbers)
      : of(shape),
        a(numbers.Uniform(of.m * of.k, -1, 1)),
        b(numbers.Uniform(of.k * of.n, -1, 1)),
        c(numbers.Uniform(of.m * (of.n + 2), -1, 1)),
        keep(numbers.Uniform(of.m, 0, 1)) {
    for (size_t i = 0; of.lower_a && i < of.m; ++i) {
      for (size_t x = i + 1; x < of.k; ++x) a[At(i, x)] = 0;
    }
  }
  size_t At(size_t i, size_t x) const {
    return of.transposed ? x * of.m + i : i * of.k + x;
  }
  MatrixProductArgs Args() {
    return {.m = of.m,
            .n = of.n,
            .k = of.k,
            .a = a.data(),
            .a_row = of.transposed ? 1 : of.k,
            .a_col = of.transposed ? of.m : 1,
            .b = b.data(),
            .b_row = of.n,
            .c = c.data(),
            .c_row = of.n + 2,
            .keep = of.keeps ? keep.data() : nullptr,
            .keep_step = 1,
            .lower_a = of.lower_a,
            .lower_c = of.lower_c};
  }
  double Exact(const Floats& before, size_t i, size_t j) const {
    double sum = 0;
    if (of.keeps) {
      sum = static_cast<double>(keep[i]) *
            static_cast<double>(before[i * (of.n + 2) + j]);
    }
    for (size_t x = 0; x < of.k; ++x) {
      sum += static_cast<double>(a[At(i, x)]) *
             static_cast<double>(b[x * of.n + j]);
    }
    return sum;
  }

  Case of;
  Floats a, b, c, keep;
};

void CompareWithSums(const Case& of, Numbers& numbers) {
  SCOPED_TRACE(testing::Message() << of.m << " x " << of.n << " x " << of.k);
  Matrices matrices(of, numbers);
  const Floats before(matrices.c);
  MatrixProduct(matrices.Args());
  for (size_t i = 0; i < of.m; ++i) {
    for (size_t j = 0; j < of.n + 2; ++j) {
      const float got = matrices.c[i * (of.n + 2) + j];
      if (j >= of.n) {
        ASSERT_EQ(got, before[i * (of.n + 2) + j]) << "outside of C";
      } else if (!of.lower_c || j <= i) {
        ASSERT_NEAR(static_cast<double>(got), matrices.Exact(before, i, j),
                    2e-7 * (1 + static_cast<double>(of.k)))
            << i << ", " << j;
      }
    }
  }
}

TEST_P(MatrixProductTest, MatchesSumsAtAnySize) {
  const uint64_t seed = 91;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (size_t n = 1; n <= 35; ++n) {
    CompareWithSums({.m = n, .n = 5, .k = 3}, numbers);
    CompareWithSums({.m = 3, .n = n, .k = 9, .keeps = true}, numbers);
    CompareWithSums({.m = 5, .n = 70, .k = n, .transposed = true}, numbers);
    CompareWithSums({.m = n, .n = 19, .k = n, .keeps = true, .lower_a = true},
                    numbers);
    CompareWithSums({.m = n, .n = n, .k = 7, .lower_c = true}, numbers);
  }
  CompareWithSums({.m = 32, .n = 131, .k = 65, .keeps = true}, numbers);
}

TEST_P(MatrixProductTest, AnElementDoesNotDependOnItsNeighbours) {
  const uint64_t seed = 92;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  Matrices matrices({.m = 11, .n = 83, .k = 23, .keeps = true}, numbers);
  Matrices alone(matrices);
  MatrixProduct(matrices.Args());
  for (size_t i = 0; i < 11; ++i) {
    for (size_t j = 0; j < 83; ++j) {
      MatrixProductArgs one = alone.Args();
      one.m = one.n = 1;
      one.a += i * one.a_row;
      one.b += j;
      one.c += i * one.c_row + j;
      one.keep += i;
      MatrixProduct(one);
      ASSERT_TRUE(SameBits(*one.c, matrices.c[i * one.c_row + j]))
          << i << ", " << j;
    }
  }
}

// A chunk adds little to a large state: if every term of it were rounded onto
// the state, the state would drift.
TEST_P(MatrixProductTest, WhatIsKeptIsRoundedOnce) {
  const uint64_t seed = 93;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  Matrices matrices({.m = 7, .n = 83, .k = 32, .keeps = true}, numbers);
  Floats low(7);
  for (size_t i = 0; i < 7; ++i) {
    matrices.keep[i] = 1 - 0x1p-12f * static_cast<float>(i);
    low[i] = numbers.Uniform(-3e-8f, 3e-8f);
  }
  for (float& c : matrices.c) c *= 1e5f;
  const Floats before(matrices.c);
  MatrixProductArgs args = matrices.Args();
  args.keep_low = low.data();
  MatrixProduct(args);
  const bool fused = GetParam() <= HWY_AVX2;
  for (size_t i = 0; i < 7; ++i) {
    for (size_t j = 0; j < 83; ++j) {
      const size_t at = i * args.c_row + j;
      const double exact =
          matrices.Exact(before, i, j) +
          static_cast<double>(low[i]) * static_cast<double>(before[at]);
      // The sum's own rounding is small beside the state's, if that is large.
      if (std::abs(before[at]) < 1e4f) continue;
      EXPECT_LE(UlpError(matrices.c[at], exact), fused ? 0.6 : 1.1)
          << i << ", " << j;
    }
  }
}

}  // namespace
}  // namespace steadystate::matrix_product_test
