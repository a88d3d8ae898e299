// Goal: options that Ling 3.0 does not have are refused by name; layers are of
// the kinds that the config says; what bounds experts' factors counts. Method:
// golden weights with changed configs, and configs by themselves.
#include <cstddef>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/checkpoint/config.h"
#include "server/model/family.h"
#include "server/model/registry.h"
#include "tests/testing/golden_options.h"

namespace steadystate::bailing_hybrid_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

ModelConfig Read(const std::string& keys) {
  const auto config =
      Config::Parse(R"({"model_type": "bailing_hybrid")" + keys + "}", "test");
  EXPECT_TRUE(config.ok()) << config.status();
  const auto model = ReadModelConfig(*config);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.value_or(ModelConfig());
}

std::vector<TokenMixer> Mixers(const ModelConfig& model) {
  std::vector<TokenMixer> mixers;
  for (const LayerPlan& plan : model.layers) mixers.push_back(plan.tokens);
  return mixers;
}

TEST(BailingHybridTest, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"kv_lora_rank", 0, kInvalid},
      {"qk_rope_head_dim", 7, kInvalid},
      {"num_key_value_heads", 1, kInvalid},
      {"head_dim", 0, kInvalid},
      {"layer_group_size", 0, kInvalid},
      {"short_conv_kernel_size", 65, kInvalid},
      {"kda_safe_gate", 1, kInvalid},
      {"kda_lower_bound", 1, kInvalid},
      {"rope_theta", 0, kInvalid},
      {"rope_interleave", false, kUnimplemented},
      {"hidden_act", "relu", kUnimplemented},
      {"use_kda_lora", true, kUnimplemented},
      {"use_qkv_bias", true, kUnimplemented},
      {"gated_attention_proj_granularity_type", "element_wise", kUnimplemented},
  };
  ExpectRefusals("bailing_hybrid", refusals);
}

TEST(BailingHybridTest, BadMixturesAreRefusedByName) {
  const Refusal refusals[] = {
      {"num_experts", 0, kInvalid},
      {"n_group", 3, kInvalid},
      {"topk_group", 5, kInvalid},
      {"norm_topk_prob", 1, kInvalid},
      {"moe_shared_expert_intermediate_size", 0, kInvalid},
      {"expert_swiglu_limit_list", {-1}, kInvalid},
      {"share_expert_swiglu_limit_list", 7, kInvalid},
      {"score_function", "softmax", kUnimplemented},
  };
  ExpectRefusals("bailing_hybrid", refusals);
}

TEST(BailingHybridTest, TheLastLayerOfEveryGroupHasLatents) {
  const ModelConfig model =
      Read(R"(, "num_hidden_layers": 5, "layer_group_size": 2)");
  EXPECT_THAT(model.warnings, IsEmpty());
  EXPECT_THAT(
      Mixers(model),
      ElementsAre(TokenMixer::kFamily, TokenMixer::kLatent, TokenMixer::kFamily,
                  TokenMixer::kLatent, TokenMixer::kFamily));
  EXPECT_EQ(model.layers[1].channels, ChannelMixer::kGatedMlp);
  EXPECT_EQ(model.layers[2].channels, ChannelMixer::kFamily);
}

TEST(BailingHybridTest, AllOfTheSharedKeyTurns) {
  const ModelConfig model =
      Read(R"(, "partial_rotary_factor": 0.5, "rope_theta": 1e4)");
  const LatentAttentionOptions& attention = model.layers[5].latent;
  EXPECT_TRUE(attention.rotary);
  EXPECT_TRUE(attention.gated);
  EXPECT_EQ(attention.rope, 64u);
  EXPECT_EQ(attention.rope_theta, 1e4);
}

}  // namespace
}  // namespace steadystate::bailing_hybrid_test
