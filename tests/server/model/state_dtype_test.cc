// Goal: states are kept in what was asked for, or the model is refused with the
// reason. Method: the golden checkpoints of families that bear it and of those
// that do not; an option of the general recurrence for each way to decay.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/model.h"
#include "server/model/registry.h"

namespace steadystate::state_dtype_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::StatusOr<std::shared_ptr<const Model>> Load(const std::string& golden,
                                                  StateDType states) {
  return Model::Load(
      {.path = std::string(STEADYSTATE_SOURCE_DIR "/tests/golden/") + golden,
       .weight_dtype = DType::kF32,
       .state_dtype = states});
}

size_t MatrixBytes(const Model& model) {
  size_t bytes = 0;
  for (const StateSlot& slot : model.state_layout().slots()) {
    if (slot.name == "S" || slot.name == "S.exponents" || slot.name == "C") {
      bytes += slot.bytes;
    }
  }
  return bytes;
}

TEST(StateDTypeTest, HalvesTheMatricesAndLeavesTheRest) {
  const auto exact = Load("gla-short-conv", StateDType::kF32);
  const auto bf16 = Load("gla-short-conv", StateDType::kBf16);
  const auto int16 = Load("gla-short-conv", StateDType::kInt16);
  ASSERT_TRUE(exact.ok() && bf16.ok() && int16.ok());
  EXPECT_EQ((*exact)->state_layout().dtype(), "f32");
  EXPECT_EQ((*bf16)->state_layout().dtype(), "bf16+f32");
  EXPECT_EQ((*int16)->state_layout().dtype(), "f32+int16");
  EXPECT_EQ(MatrixBytes(**bf16) * 2, MatrixBytes(**exact));
  EXPECT_GT(MatrixBytes(**int16), MatrixBytes(**bf16));
  EXPECT_LT(MatrixBytes(**int16), MatrixBytes(**exact));
}

TEST(StateDTypeTest, EveryFamilyThatFadesMayBeInInt16) {
  for (const Family& family : Families()) {
    const auto model = Load(std::string(family.model_type), StateDType::kInt16);
    // The plain case of the general recurrence has no decay; a convolution has
    // no matrix.
    const bool fades = family.model_type != "linear_attn" &&
                       family.model_type != "linear_recurrence" &&
                       family.model_type != "lfm2" &&
                       family.model_type != "lfm2_moe" &&
                       family.model_type != "lfm3";
    EXPECT_EQ(model.ok(), fades && family.layer.has_family())
        << family.model_type << " " << model.status();
  }
}

TEST(StateDTypeTest, TheGeneralRecurrenceMayWhereItFades) {
  for (const char* golden :
       {"linear_recurrence-scalar", "linear_recurrence-key",
        "linear_recurrence-value", "linear_recurrence-outer",
        "linear_recurrence-full", "linear_recurrence-key_complex"}) {
    EXPECT_TRUE(Load(golden, StateDType::kInt16).ok()) << golden;
  }
}

TEST(StateDTypeTest, OnlyFamiliesThatBearItMayBeInBf16) {
  for (const Family& family : Families()) {
    const auto model = Load(std::string(family.model_type), StateDType::kBf16);
    EXPECT_EQ(model.ok(), family.bf16_states) << family.model_type;
    if (model.ok()) continue;
    EXPECT_EQ(model.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(model.status().message(),
                AllOf(HasSubstr("bf16"), HasSubstr("f32")));
    const bool advised =
        absl::StrContains(model.status().message(), "int16, as small");
    EXPECT_EQ(advised,
              Load(std::string(family.model_type), StateDType::kInt16).ok())
        << model.status();
  }
}

TEST(StateDTypeTest, SumsThatDoNotFadeAreRefusedWithTheSlot) {
  for (const char* golden :
       {"linear_attn", "linear_attn-softmax", "linear_recurrence-katharopoulos",
        "linear_recurrence-lightning_fla"}) {
    const auto model = Load(golden, StateDType::kInt16);
    if (model.ok()) {
      EXPECT_EQ((*model)->state_layout().dtype().find("f64"), std::string::npos)
          << golden;
      continue;
    }
    EXPECT_EQ(model.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(model.status().message(),
                AllOf(HasSubstr("layer 0"), HasSubstr("'S'"),
                      HasSubstr("int16"), HasSubstr("f32")))
        << golden;
  }
}

TEST(StateDTypeTest, AModelWithoutMatricesHasNothingToReduce) {
  const auto model = Load("transformer", StateDType::kInt16);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(model.status().message(),
              AllOf(HasSubstr("transformer"), HasSubstr("int16")));
}

}  // namespace
}  // namespace steadystate::state_dtype_test
