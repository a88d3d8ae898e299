// Goal: options that Qwen3.5 does not have are refused by name, and a model of
// several media is served as its language model. Method: golden weights with
// changed configs, and the golden case of such a model.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/model.h"
#include "tests/testing/golden_options.h"

namespace steadystate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

TEST(Qwen35Test, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"linear_num_key_heads", 0, kInvalid},
      {"linear_num_value_heads", 3, kInvalid},
      {"linear_key_head_dim", "wide", kInvalid},
      {"linear_conv_kernel_dim", 65, kInvalid},
      {"head_dim", -1, kInvalid},
      {"num_key_value_heads", 3, kInvalid},
      {"attention_bias", 1, kInvalid},
      {"attn_output_gate", false, kUnimplemented},
      {"output_gate_type", "sigmoid", kUnimplemented},
      {"mlp_only_layers", {1}, kUnimplemented},
      {"hidden_act", "relu", kUnimplemented},
  };
  ExpectRefusals("qwen3_5", refusals);
}

TEST(Qwen35Test, AModelOfSeveralMediaIsServedAsItsLanguageModel) {
  const auto model = Model::Load(
      {.path = STEADYSTATE_SOURCE_DIR "/tests/golden/qwen3_5-nested"});
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelDescription& description = (*model)->description();
  EXPECT_EQ(description.family, "qwen3_5");
  // Neither the other media's tensors nor their keys are worth a warning.
  EXPECT_THAT(description.warnings, IsEmpty());
  EXPECT_THAT(description.readings, ElementsAre(HasSubstr("several media")));
  // Tied by the outer object alone.
  EXPECT_TRUE(description.tied_head);
}

}  // namespace
}  // namespace steadystate
