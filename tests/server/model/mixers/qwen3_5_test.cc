// Goal: options that Qwen3.5 does not have are refused by name, and a model of
// several media is served as its language model. Method: golden weights with
// changed configs, and the golden case of such a model.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/model.h"
#include "tests/testing/golden_options.h"

namespace steadystate::qwen3_5_test {
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
  // Beside text_config, where files of several media have it.
  const Refusal outside[] = {
      {"quantization_config", {{"bits", 4}}, kUnimplemented}};
  ExpectRefusals("qwen3_5-nested", outside);
}

TEST(Qwen35Test, BadMixturesAreRefusedByName) {
  const Refusal refusals[] = {
      {"num_experts", 0, kInvalid},
      {"num_experts_per_tok", 0, kInvalid},
      {"num_experts_per_tok", 7, kInvalid},
      {"moe_intermediate_size", 0, kInvalid},
      {"shared_expert_intermediate_size", 0, kInvalid},
      {"mlp_only_layers", {1}, kUnimplemented},
      {"hidden_act", "relu", kUnimplemented},
  };
  ExpectRefusals("qwen3_5_moe", refusals);
}

TEST(Qwen35Test, BadNextModelsAreRefusedByName) {
  const Refusal refusals[] = {
      {"linear_num_value_heads", 3, kInvalid},
      {"linear_conv_kernel_dim", 0, kInvalid},
      {"num_experts_per_tok", 7, kInvalid},
      {"decoder_sparse_step", 0, kInvalid},
      {"mlp_only_layers", {2}, kInvalid},
      {"mlp_only_layers", "none", kInvalid},
      {"norm_topk_prob", 1, kInvalid},
      {"hidden_act", "relu", kUnimplemented},
  };
  ExpectRefusals("qwen3_next", refusals);
}

void ExpectServedAsALanguageModel(const std::string& family, bool tied) {
  const auto model =
      Model::Load({.path = absl::StrCat(STEADYSTATE_SOURCE_DIR "/tests/golden/",
                                        family, "-nested")});
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelDescription& description = (*model)->description();
  EXPECT_EQ(description.family, family);
  // Neither the other media's tensors nor their keys are worth a warning.
  EXPECT_THAT(description.warnings, IsEmpty());
  EXPECT_THAT(description.readings, ElementsAre(HasSubstr("several media")));
  EXPECT_EQ(description.tied_head, tied);
}

TEST(Qwen35Test, AModelOfSeveralMediaIsServedAsItsLanguageModel) {
  // Tied by the outer object alone.
  ExpectServedAsALanguageModel("qwen3_5", true);
  ExpectServedAsALanguageModel("qwen3_5_moe", false);
}

}  // namespace
}  // namespace steadystate::qwen3_5_test
