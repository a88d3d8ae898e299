// Goal: the fading between any two tokens of a chunk is the product of the
// decays between them. Method: against products in double.

#include "kernels/chunk/fading.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/chunk/chunk_inputs.h"
#include "tests/kernels/numbers.h"

namespace steadystate {
namespace {

class FadingTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(FadingTest);

// factors[t] is the decay of token t.
void ExpectProducts(const Fading& fading, const std::vector<double>& factors) {
  const size_t L = factors.size();
  for (size_t i = 0; i < L; ++i) {
    const float* row =
        fading.between + static_cast<ptrdiff_t>(i) * fading.between_stride;
    double product = 1;
    for (size_t j = i + 1; j-- > 0; product *= factors[j]) {
      ASSERT_NEAR(static_cast<double>(row[j]), product, 4e-6 * product)
          << "from " << j << " to " << i << " of " << L;
      if (i + 1 == L) {
        ASSERT_EQ(fading.to_end[j], row[j]);
      }
    }
    ASSERT_NEAR(static_cast<double>(fading.from_start[i]), product,
                4e-6 * product);
    if (i + 1 == L) {
      const double all = static_cast<double>(fading.from_start[i]) +
                         static_cast<double>(fading.all_low);
      ASSERT_NEAR(all, product, 4e-15 * product + 1e-45);
    }
  }
}

TEST_P(FadingTest, IsTheProductOfTheDecays) {
  const uint64_t seed = 93;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const Temper temper : {Temper::kMild, Temper::kOnes, Temper::kZeros}) {
    for (size_t L = 1; L <= kChunkTokens; ++L) {
      const TokenRows alpha = Decays(L, 1, temper, numbers);
      std::vector<float> table(kFadingFloats);
      std::vector<double> factors;
      for (size_t t = 0; t < L; ++t) {
        factors.push_back(static_cast<double>(alpha[t][0]));
      }
      ExpectProducts(ChunkFading(L, alpha.From(0), {}, table.data()), factors);
    }
  }
}

TEST(PowersTest, MakeTheFadingOfAConstant) {
  for (const double factor : {0.0, 0.5, 1 - 1e-9, 1.0}) {
    SCOPED_TRACE(factor);
    std::vector<float> powers(kPowerFloats);
    FillPowers(factor, powers.data());
    for (size_t L = 1; L <= kChunkTokens; ++L) {
      ExpectProducts(FadingOfPowers(L, powers.data()),
                     std::vector<double>(L, factor));
    }
  }
}

}  // namespace
}  // namespace steadystate
