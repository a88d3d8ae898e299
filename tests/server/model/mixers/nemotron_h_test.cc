// Goal: options that Nemotron-H does not have are refused by name, also of its
// mixtures, and layers are as many and of the kinds that the config says.
// Method: golden weights with changed configs; configs of published models.
#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/registry.h"
#include "tests/testing/golden_options.h"

namespace steadystate::nemotron_h_test {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnsupported = absl::StatusCode::kUnimplemented;

TEST(NemotronHTest, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"hybrid_override_pattern", "MXM*-", kUnsupported},
      {"hybrid_override_pattern", "", kInvalid},
      {"hybrid_override_pattern", std::string(1025, 'M'), kInvalid},
      {"hybrid_override_pattern", nullptr, kInvalid},
      {"mlp_hidden_act", "silu", kUnsupported},
      {"mamba_hidden_act", "relu", kUnsupported},
      {"sliding_window", 16, kUnsupported},
      {"attention_bias", true, kUnsupported},
      {"n_groups", 3, kInvalid},
      {"mamba_num_heads", 0, kInvalid},
      {"ssm_state_size", 0, kInvalid},
      {"conv_kernel", 0, kInvalid},
      {"use_bias", 1, kInvalid},
      {"mlp_bias", "no", kInvalid},
      {"time_step_limit", 1, kInvalid},
      {"num_key_value_heads", 3, kInvalid},
      {"layers_block_type", {"mamba", "experts"}, kUnsupported},
      {"layer_types", "mamba", kInvalid},
  };
  ExpectRefusals("nemotron_h", refusals);
}

TEST(NemotronHTest, BadMixturesAreRefusedByName) {
  const Refusal refusals[] = {
      {"num_experts_per_tok", 13, kInvalid},
      {"n_group", 5, kInvalid},
      {"n_group", 0, kInvalid},
      {"topk_group", 5, kInvalid},
      {"topk_group", 0, kInvalid},
      {"norm_topk_prob", "yes", kInvalid},
      {"routed_scaling_factor", 0, kInvalid},
      {"moe_latent_size", "half", kInvalid},
      {"moe_latent_size", 0, kInvalid},
      {"moe_intermediate_size", 0, kInvalid},
  };
  ExpectRefusals("nemotron_h-expert-groups", refusals);
}

size_t Count(const ModelConfig& model, TokenMixer kind) {
  return static_cast<size_t>(
      std::ranges::count(model.layers, kind, &LayerPlan::tokens));
}

// Nemotron-3-Nano-4B, whose num_hidden_layers is nothing.
TEST(NemotronHTest, LayersAreThoseOfThePattern) {
  const ModelConfig model = ReadConfigText(
      R"({"model_type": "nemotron_h", "num_hidden_layers": 7,
          "hybrid_override_pattern":
              "M-M-M-MM-M-M*-M-M*-M-M-M*-M-M-MM*-MMM-M-M-"})");
  EXPECT_THAT(model.warnings, testing::IsEmpty());
  ASSERT_EQ(model.layers.size(), 42u);
  EXPECT_EQ(Count(model, TokenMixer::kFamily), 21u);
  EXPECT_EQ(Count(model, TokenMixer::kSoftmax), 4u);
  EXPECT_EQ(Count(model, TokenMixer::kNone), 17u);
  EXPECT_EQ(model.layers[12].tokens, TokenMixer::kSoftmax);
  const SoftmaxAttentionOptions& attention = model.layers[12].softmax;
  EXPECT_EQ(attention.head_dim, 128u);
  EXPECT_EQ(attention.rotary, 0u);
}

TEST(NemotronHTest, NamesOfLayersComeBeforeLetters) {
  const ModelConfig model = ReadConfigText(
      R"({"model_type": "nemotron_h", "hybrid_override_pattern": "MM",
          "layers_block_type": ["mlp", "attention", "linear_attention"]})");
  ASSERT_EQ(model.layers.size(), 3u);
  EXPECT_EQ(model.layers[0].tokens, TokenMixer::kNone);
  EXPECT_EQ(model.layers[1].tokens, TokenMixer::kSoftmax);
  EXPECT_EQ(model.layers[2].tokens, TokenMixer::kFamily);
}

}  // namespace
}  // namespace steadystate::nemotron_h_test
