// Goal: heads are as wide as the version of the library made them that wrote
// the checkpoint, and bad widths are refused by name. Method: shapes alone.
#include "server/model/parts/head_shape.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/part_harness.h"

namespace steadystate {
namespace {

using testing::HasSubstr;

// In double 100 times 0.29 is 28.999999999999996, and 100 times 0.57 is
// 56.99999999999999.
constexpr size_t kD = 100;

// The shape of a layer with these tensors.
absl::StatusOr<HeadShape> ReadWith(size_t heads, size_t keys, size_t values,
                                   const nlohmann::json& expand_k = 0.29) {
  const auto zeros = [](std::vector<size_t> shape) {
    return TensorContents{.shape = shape,
                          .values = std::vector<float>(shape[0] * shape[1])};
  };
  const PartHarness harness(
      {.config = {{"model_type", "none"},
                  {"num_heads", heads},
                  {"expand_k", expand_k},
                  {"expand_v", 0.57}},
       .tensors = {{"attn.q_proj.weight", zeros({keys, kD})},
                   {"attn.o_proj.weight", zeros({kD, values})}}},
      kD);
  return ReadHeadShape(harness.builder(), {});
}

TEST(HeadShapeTest, WidthsAreRoundedWhereTheTensorsAre) {
  const auto shape = ReadWith(1, 29, 57);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->K, 29u);
  EXPECT_EQ(shape->V, 57u);
}

TEST(HeadShapeTest, WidthsAreCutOffWhereTheTensorsAre) {
  const auto shape = ReadWith(2, 28, 56);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->K, 14u);
  EXPECT_EQ(shape->V, 28u);
}

TEST(HeadShapeTest, EachWidthHasATensorOfItsOwn) {
  const auto shape = ReadWith(1, 28, 57);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->K, 28u);
  EXPECT_EQ(shape->V, 57u);
}

TEST(HeadShapeTest, WhatIsNearNoWholeNumberIsCutOff) {
  const auto shape = ReadWith(1, 30, 57, 0.296);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->K, 29u);
}

TEST(HeadShapeTest, WidthsThatHeadsDoNotDivideAreRefused) {
  const auto shape = ReadWith(2, 29, 56);
  EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(shape.status().message(), HasSubstr("expand_k is 0.29"));
  EXPECT_THAT(shape.status().message(), HasSubstr("multiple of num_heads, 2"));
}

}  // namespace
}  // namespace steadystate
