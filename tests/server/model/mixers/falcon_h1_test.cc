// Goal: options that Falcon-H1 does not have are refused by name, and the
// configs of published models are read as they are meant. Method: golden
// weights with changed configs; configs of published models.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/registry.h"
#include "tests/testing/golden_options.h"

namespace steadystate::falcon_h1_test {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnsupported = absl::StatusCode::kUnimplemented;

TEST(FalconH1Test, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"mlp_bias", true, kUnsupported},
      {"hidden_act", "gelu", kUnsupported},
      {"attention_bias", 1, kInvalid},
      {"num_key_value_heads", 3, kInvalid},
      {"mamba_d_head", 8, kInvalid},
      {"mamba_d_head", "wide", kInvalid},
      {"mamba_d_ssm", 0, kInvalid},
      {"mamba_n_heads", 5, kInvalid},
      {"mamba_n_groups", 3, kInvalid},
      {"mamba_d_conv", 0, kInvalid},
      {"mamba_conv_bias", "yes", kInvalid},
      {"mamba_proj_bias", 0, kInvalid},
      {"projectors_bias", 0, kInvalid},
      {"mamba_rms_norm", 1, kInvalid},
      {"mamba_norm_before_gate", 1, kInvalid},
      {"time_step_limit", {1}, kInvalid},
      {"key_multiplier", 0, kInvalid},
      {"lm_head_multiplier", "1", kInvalid},
      {"embedding_multiplier", 0, kInvalid},
      {"ssm_in_multiplier", 1e7, kInvalid},
      {"ssm_multipliers", {1, 1, 1, 1}, kInvalid},
      {"ssm_multipliers", {1, 1, 1, 1, 1, 1}, kInvalid},
      {"mlp_multipliers", 1, kInvalid},
      {"mlp_multipliers", {1}, kInvalid},
  };
  ExpectRefusals("falcon_h1", refusals);
}

// Falcon-H1-0.5B, of two of its layers.
TEST(FalconH1Test, ReadsWhatIsPublished) {
  const ModelConfig model = ReadConfigText(
      R"({"model_type": "falcon_h1", "hidden_size": 1024,
          "num_hidden_layers": 2, "num_attention_heads": 8,
          "num_key_value_heads": 2, "head_dim": 64,
          "intermediate_size": 2048, "vocab_size": 32784,
          "mamba_d_ssm": 1536, "mamba_n_heads": 24, "mamba_d_head": 64,
          "mamba_d_state": 128, "mamba_use_mlp": true,
          "mlp_expansion_factor": 8, "num_logits_to_keep": 1,
          "attention_in_multiplier": 1.0, "attention_out_multiplier": 0.9375,
          "embedding_multiplier": 5.65, "key_multiplier": 0.39,
          "lm_head_multiplier": 0.0195, "mlp_multipliers": [0.8839, 0.5859],
          "ssm_in_multiplier": 1.25, "ssm_out_multiplier": 0.2357,
          "ssm_multipliers": [0.3536, 0.25, 0.3536, 0.5, 0.3536],
          "rope_theta": 1e11, "rms_norm_eps": 1e-05})");
  EXPECT_THAT(model.warnings, testing::IsEmpty());
  EXPECT_EQ(model.embedding_multiplier, 5.65F);
  EXPECT_EQ(model.logit_multiplier, 0.0195F);
  EXPECT_EQ(model.mlp_scale.gate, 0.8839F);
  EXPECT_EQ(model.mlp_scale.down, 0.5859F);
  ASSERT_EQ(model.layers.size(), 2u);
  for (const LayerPlan& plan : model.layers) {
    EXPECT_EQ(plan.tokens, TokenMixer::kBoth);
    EXPECT_TRUE(plan.has_softmax());
    EXPECT_EQ(plan.family_scale.in, 1.25F);
    EXPECT_EQ(plan.family_scale.out, 0.2357F);
    EXPECT_EQ(plan.softmax_scale.in, 1.0F);
    EXPECT_EQ(plan.softmax_scale.out, 0.9375F);
    EXPECT_EQ(plan.softmax.key_multiplier, 0.39F);
    EXPECT_EQ(plan.softmax.head_dim, 64u);
    EXPECT_EQ(plan.softmax.rotary, 64u);
    EXPECT_EQ(plan.softmax.rope_theta, 1e11);
  }
}

TEST(FalconH1Test, WithoutAWordOfThemNothingIsMultiplied) {
  const ModelConfig model = ReadConfigText(R"({"model_type": "falcon_h1"})");
  ASSERT_EQ(model.layers.size(), 32u);
  EXPECT_EQ(model.layers[31].softmax.num_kv_heads, 8u);
  EXPECT_EQ(model.layers[31].softmax.key_multiplier, 1.0F);
  EXPECT_EQ(model.layers[31].family_scale.out, 1.0F);
  EXPECT_EQ(model.intermediate_size, 14336u);
  EXPECT_EQ(model.logit_multiplier, 1.0F);
  EXPECT_EQ(model.mlp_scale.down, 1.0F);
}

}  // namespace
}  // namespace steadystate::falcon_h1_test
