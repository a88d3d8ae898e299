// Goal: tensors are handed out by name and shape, and errors say what was
// wanted and what was there.
#include "server/checkpoint/weight_store.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::weight_store_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class WeightStoreTest : public testing::Test {
 protected:
  WeightStoreTest() {
    directory_.Write("config.json", "{}");
    directory_.Write(
        "model.safetensors",
        SafetensorsBytes(
            R"({"l.a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
            R"("l.h":{"dtype":"F16","shape":[2],"data_offsets":[8,12]},)"
            R"("l.b":{"dtype":"BF16","shape":[2],"data_offsets":[12,16]},)"
            R"("l.i":{"dtype":"I32","shape":[1],"data_offsets":[16,20]},)"
            R"("l.rotary.inv_freq":{"dtype":"F32","shape":[1],)"
            R"("data_offsets":[20,24]}})",
            std::string("\0\0\x80\x3f\0\0\0\xC0\0\x3C\x01\x00\x80\x3F\x40\xC0"
                        "12345678",
                        24)));
    checkpoint_.emplace(*Checkpoint::Open(directory_.path()));
    store_.emplace(*checkpoint_);
    scope_.emplace(*store_, "l.");
  }

  TempDirectory directory_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<WeightStore> store_;
  std::optional<WeightScope> scope_;
};

TEST_F(WeightStoreTest, TensorsOfEveryDtypeBecomeFloats) {
  EXPECT_THAT(*scope_->TakeFloats("a", {2, 1}), ElementsAre(1.0f, -2.0f));
  EXPECT_THAT(*scope_->TakeFloats("b", {2}), ElementsAre(1.0f, -3.0f));
  EXPECT_THAT(*scope_->TakeFloats("h", {2}), ElementsAre(1.0f, 0x1p-24f));
  EXPECT_EQ(store_->parameters(), 6u);
}

TEST_F(WeightStoreTest, ATensorTakenTwiceCountsOnce) {
  ASSERT_TRUE(scope_->Take("a", {2, 1}).ok());
  ASSERT_TRUE(scope_->Take("a", {2, 1}).ok());
  EXPECT_EQ(store_->parameters(), 2u);
}

TEST_F(WeightStoreTest, ItIsToldWhatHasBeenTakenOfHowMuch) {
  std::vector<std::pair<uint64_t, uint64_t>> told;
  WeightStore store(*checkpoint_, [&told](uint64_t taken, uint64_t all) {
    told.emplace_back(taken, all);
  });
  const WeightScope scope(store, "l.");
  ASSERT_TRUE(scope.Take("a", {2, 1}).ok());
  ASSERT_TRUE(scope.Take("a", {2, 1}).ok());
  EXPECT_FALSE(scope.Take("b", {3}).ok());
  ASSERT_TRUE(scope.Take("h", {2}).ok());
  ASSERT_TRUE(scope.Take("b", {2}).ok());
  EXPECT_THAT(told, ElementsAre(testing::Pair(0, 8), testing::Pair(2, 8),
                                testing::Pair(4, 8)));
}

TEST_F(WeightStoreTest, TensorsAreEqualIfTheyHoldTheSame) {
  EXPECT_TRUE(scope_->Equal("a", "a"));
  EXPECT_FALSE(scope_->Equal("h", "b"));
  EXPECT_FALSE(scope_->Equal("a", "i"));
  EXPECT_FALSE(scope_->Equal("a", "none"));
  EXPECT_FALSE(scope_->Equal("none", "none"));
}

TEST_F(WeightStoreTest, WhatNobodyTookIsListed) {
  ASSERT_TRUE(scope_->Take("a", {2, 1}).ok());
  EXPECT_THAT(store_->Unused(), ElementsAre("l.b", "l.h", "l.i"));
  constexpr absl::string_view kForeign[] = {"l.b", "l.ha", "i"};
  EXPECT_THAT(store_->Unused(kForeign), ElementsAre("l.h", "l.i"));
}

TEST_F(WeightStoreTest, ErrorsNameTheTensor) {
  const auto missing = scope_->Take("x", {3, 4});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(missing.status().message(),
              AllOf(HasSubstr("'l.x'"), HasSubstr("[3, 4]")));
  EXPECT_THAT(
      scope_->Take("a", {1, 2}).status().message(),
      AllOf(HasSubstr("'l.a'"), HasSubstr("[2, 1]"), HasSubstr("[1, 2]")));
  EXPECT_THAT(scope_->Take("i", {1}).status().message(),
              AllOf(HasSubstr("'l.i'"), HasSubstr("I32")));
}

TEST_F(WeightStoreTest, EitherNameWillDo) {
  EXPECT_TRUE(scope_->TakeFloatsOfEither("b", "x", {2}).ok());
  EXPECT_TRUE(scope_->TakeFloatsOfEither("x", "b", {2}).ok());
  EXPECT_THAT(scope_->TakeFloatsOfEither("x", "y", {2}).status().message(),
              AllOf(HasSubstr("'l.x'"), HasSubstr("'l.y'")));
}

TEST_F(WeightStoreTest, ShapesCanBeAsked) {
  EXPECT_TRUE(scope_->Has("a"));
  EXPECT_FALSE(scope_->Has("x"));
  EXPECT_THAT(*scope_->ShapeOf("a"), ElementsAre(2, 1));
  EXPECT_FALSE(scope_->ShapeOf("x").has_value());
  EXPECT_TRUE(WeightScope(*store_, "").Child("l.").Has("a"));
  EXPECT_TRUE(scope_->HasAny());
  EXPECT_TRUE(scope_->Child("rotary.").HasAny());
  EXPECT_FALSE(scope_->Child("z.").HasAny());
  EXPECT_FALSE(scope_->Child("a.").HasAny());
}

TEST_F(WeightStoreTest, AnOpenDimensionIsReadFromTheTensor) {
  constexpr size_t kOpen = WeightScope::kOpen;
  EXPECT_EQ(*scope_->OpenSize("a", {kOpen, 1}), 2u);
  EXPECT_EQ(*scope_->OpenSize("a", {2, kOpen}), 1u);
}

TEST_F(WeightStoreTest, ATensorWithoutAnOpenDimensionIsNamed) {
  constexpr size_t kOpen = WeightScope::kOpen;
  EXPECT_THAT(scope_->OpenSize("a", {kOpen, 3}).status().message(),
              AllOf(HasSubstr(directory_.path()), HasSubstr("'l.a'"),
                    HasSubstr("[2, 1]"), HasSubstr("[any, 3]")));
  EXPECT_THAT(scope_->OpenSize("a", {kOpen}).status().message(),
              AllOf(HasSubstr("'l.a'"), HasSubstr("[any]")));
  EXPECT_THAT(scope_->OpenSize("c", {kOpen, 1}).status().message(),
              AllOf(HasSubstr("'l.c'"), HasSubstr("is missing")));
}

}  // namespace
}  // namespace steadystate::weight_store_test
