// Goal: options that Granite does not have are refused by name, also of its
// mixtures, and the configs of published models are read as they are meant.
// Method: golden weights with changed configs; configs of published models.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/registry.h"
#include "tests/testing/golden_options.h"

namespace steadystate::granitemoehybrid_test {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnsupported = absl::StatusCode::kUnimplemented;

TEST(GraniteMoeHybridTest, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"num_local_experts", -1, kInvalid},
      {"num_local_experts", 4097, kInvalid},
      {"normalization_function", "layernorm", kUnsupported},
      {"hidden_act", "gelu", kUnsupported},
      {"position_embedding_type", "alibi", kUnsupported},
      {"mamba_d_head", 8, kInvalid},
      {"mamba_d_head", "wide", kInvalid},
      {"mamba_n_heads", 3, kInvalid},
      {"mamba_n_groups", 3, kInvalid},
      {"mamba_expand", 0, kInvalid},
      {"mamba_d_conv", 0, kInvalid},
      {"mamba_conv_bias", 1, kInvalid},
      {"time_step_limit", 1, kInvalid},
      {"num_key_value_heads", 3, kInvalid},
      {"embedding_multiplier", 0, kInvalid},
      {"residual_multiplier", "0.22", kInvalid},
      {"attention_multiplier", -1, kInvalid},
      {"logits_scaling", 0, kInvalid},
      {"shared_intermediate_size", 0, kInvalid},
      {"layer_types", "mamba", kInvalid},
  };
  ExpectRefusals("granitemoehybrid", refusals);
}

TEST(GraniteMoeHybridTest, BadMixturesAreRefusedByName) {
  const Refusal refusals[] = {
      {"num_experts_per_tok", 0, kInvalid},
      {"num_experts_per_tok", 7, kInvalid},
      {"num_local_experts", 1, kInvalid},
      {"intermediate_size", 0, kInvalid},
      {"hidden_act", "gelu", kUnsupported},
  };
  ExpectRefusals("granitemoehybrid-experts", refusals);
}

// Granite-4.0-H-1B.
TEST(GraniteMoeHybridTest, ReadsWhatIsPublished) {
  const ModelConfig model = ReadConfigText(
      R"({"model_type": "granitemoehybrid", "hidden_size": 1536,
          "num_hidden_layers": 3, "num_local_experts": 0,
          "num_attention_heads": 12, "num_key_value_heads": 4,
          "intermediate_size": 4096, "shared_intermediate_size": 2048,
          "attention_multiplier": 0.0078125, "embedding_multiplier": 12,
          "residual_multiplier": 0.22, "logits_scaling": 6,
          "position_embedding_type": "nope", "rms_norm_eps": 1e-05,
          "layer_types": ["mamba", "attention", "mamba"]})");
  EXPECT_THAT(model.warnings, testing::IsEmpty());
  EXPECT_EQ(model.intermediate_size, 2048u);
  EXPECT_EQ(model.embedding_multiplier, 12.0F);
  EXPECT_EQ(model.residual_multiplier, 0.22F);
  EXPECT_EQ(model.logit_divisor, 6.0F);
  EXPECT_EQ(model.layers[0].tokens, TokenMixer::kFamily);
  ASSERT_EQ(model.layers[1].tokens, TokenMixer::kSoftmax);
  const SoftmaxAttentionOptions& attention = model.layers[1].softmax;
  EXPECT_EQ(attention.scale, 1.0 / 128);
  EXPECT_EQ(attention.head_dim, 128u);
  EXPECT_EQ(attention.rotary, 0u);
}

TEST(GraniteMoeHybridTest, WithoutAWordOfThemAllAreAsTheLibraryHasThem) {
  const ModelConfig model = ReadConfigText(
      R"({"model_type": "granitemoehybrid", "num_local_experts": 0,
               "position_embedding_type": "rope"})");
  ASSERT_EQ(model.layers.size(), 32u);
  EXPECT_EQ(model.layers[31].tokens, TokenMixer::kFamily);
  EXPECT_EQ(model.layers[31].softmax.num_kv_heads, 32u);
  EXPECT_EQ(model.layers[31].softmax.rotary, 128u);
  EXPECT_EQ(model.layers[31].softmax.scale, 1.0);
  EXPECT_EQ(model.intermediate_size, 1024u);
  EXPECT_EQ(model.residual_multiplier, 1.0F);
}

}  // namespace
}  // namespace steadystate::granitemoehybrid_test
