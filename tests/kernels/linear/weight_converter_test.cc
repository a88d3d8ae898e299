// Stacked parts of several types are read as one matrix.

#include "kernels/linear/weight_converter.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace steadystate::weight_converter_test {
namespace {

TEST(WeightRowsTest, GathersAcrossPartsAndTypes) {
  const float f32[] = {1, 2, 3, 4};                         // two rows of two
  const uint16_t bf16[] = {0x40A0, 0x40C0};                 // 5 6
  const uint16_t f16[] = {0x4700, 0x4800, 0x4880, 0x4900};  // 7 8, 9 10
  const WeightRows parts[] = {{{f32, DType::kF32}, 2},
                              {{bf16, DType::kBf16}, 1},
                              {{f16, DType::kF16}, 2}};
  ASSERT_EQ(CountRows(2, parts).value(), 5u);
  for (size_t first = 0; first < 5; ++first) {
    for (size_t count = 0; first + count <= 5; ++count) {
      std::vector<float> got(2 * count);
      GatherRows(2, parts, first, count, got.data());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i], static_cast<float>(2 * first + i + 1));
      }
    }
  }
}

TEST(WeightRowsTest, RefusesWhatCannotBeMultiplied) {
  const float value = 1;
  const WeightRows good = {{&value, DType::kF32}, 1};
  const auto code = [](size_t in, std::vector<WeightRows> parts) {
    return CountRows(in, parts).status().code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code(1, {good}), absl::StatusCode::kOk);
  EXPECT_EQ(code(0, {good}), kInvalid);
  EXPECT_EQ(code(1, {}), kInvalid);
  EXPECT_EQ(code(1, {good, {{&value, DType::kF32}, 0}}), kInvalid);
  EXPECT_EQ(code(1, {{{nullptr, DType::kF32}, 1}}), kInvalid);
  EXPECT_EQ(code(SIZE_MAX, {good}), kInvalid);
  const WeightRows huge = {{&value, DType::kF32}, SIZE_MAX};
  EXPECT_EQ(code(1, {huge}), kInvalid);
  EXPECT_EQ(code(1, {good, huge, huge}), kInvalid);
}

}  // namespace
}  // namespace steadystate::weight_converter_test
