// Goal: options that Kimi Linear does not have are refused by name; layers are
// of the kinds that the config says; latents are kept once for all heads.
// Method: golden weights with changed configs, and configs by themselves.
#include <cstddef>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/checkpoint/config.h"
#include "server/model/family.h"
#include "server/model/model.h"
#include "server/model/registry.h"
#include "tests/testing/golden_options.h"

namespace steadystate::kimi_linear_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

absl::StatusOr<ModelConfig> Read(const std::string& keys) {
  const auto config =
      Config::Parse(R"({"model_type": "kimi_linear")" + keys + "}", "test");
  if (!config.ok()) return config.status();
  return ReadModelConfig(*config);
}

std::vector<TokenMixer> Mixers(const ModelConfig& model) {
  std::vector<TokenMixer> mixers;
  for (const LayerPlan& plan : model.layers) mixers.push_back(plan.tokens);
  return mixers;
}

std::vector<ChannelMixer> Channels(const ModelConfig& model) {
  std::vector<ChannelMixer> mixers;
  for (const LayerPlan& plan : model.layers) mixers.push_back(plan.channels);
  return mixers;
}

TEST(KimiLinearTest, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"kv_lora_rank", 0, kInvalid},
      {"q_lora_rank", -1, kInvalid},
      {"qk_nope_head_dim", "wide", kInvalid},
      {"qk_rope_head_dim", 0, kInvalid},
      {"v_head_dim", 0, kInvalid},
      {"num_attention_heads", 0, kInvalid},
      {"num_key_value_heads", 2, kInvalid},
      {"attention_bias", 1, kInvalid},
      {"first_k_dense_replace", -1, kInvalid},
      {"mlp_layer_types", {"dense"}, kInvalid},
      {"mlp_layer_types", {"dense", "sparse", "thin"}, kUnimplemented},
      {"layer_types", {"full_attention", "conv", "conv"}, kUnimplemented},
      {"model_max_length", 0, kInvalid},
      {"hidden_act", "situ", kUnimplemented},
      {"mla_use_nope", false, kUnimplemented},
      {"mla_use_output_gate", true, kUnimplemented},
      {"routed_expert_hidden_size", 16, kUnimplemented},
  };
  ExpectRefusals("kimi_linear", refusals);
}

TEST(KimiLinearTest, BadMixturesAreRefusedByName) {
  const Refusal refusals[] = {
      {"num_experts", 0, kInvalid},
      {"num_experts_per_token", 7, kInvalid},
      {"num_expert_group", 4, kInvalid},
      {"topk_group", 2, kInvalid},
      {"moe_renormalize", 1, kInvalid},
      {"moe_intermediate_size", 0, kInvalid},
      {"num_shared_experts", 0, kInvalid},
      {"moe_router_activation_func", "softmax", kUnimplemented},
      {"moe_layer_freq", 2, kUnimplemented},
  };
  ExpectRefusals("kimi_linear", refusals);
}

TEST(KimiLinearTest, LayersAreCountedFromOne) {
  const auto model = Read(R"(, "num_hidden_layers": 4, "linear_attn_config": {
      "kda_layers": [1, 2, 4], "full_attn_layers": [3]})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->warnings, IsEmpty());
  EXPECT_THAT(Mixers(*model),
              ElementsAre(TokenMixer::kFamily, TokenMixer::kFamily,
                          TokenMixer::kLatent, TokenMixer::kFamily));
  EXPECT_THAT(Channels(*model),
              ElementsAre(ChannelMixer::kGatedMlp, ChannelMixer::kFamily,
                          ChannelMixer::kFamily, ChannelMixer::kFamily));
  EXPECT_TRUE(model->layers[2].has_softmax());
  EXPECT_EQ(model->layers[2].latent.latent, 512u);
  EXPECT_EQ(model->max_position_embeddings, 1048576u);
}

TEST(KimiLinearTest, NamesOfLayersComeBeforeNumbers) {
  const auto model = Read(R"(, "num_hidden_layers": 2,
      "layer_types": ["full_attention", "linear_attention"],
      "mlp_layer_types": ["sparse", "dense"],
      "linear_attn_config": {"kda_layers": [1, 2], "full_attn_layers": []})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(Mixers(*model),
              ElementsAre(TokenMixer::kLatent, TokenMixer::kFamily));
  EXPECT_THAT(Channels(*model),
              ElementsAre(ChannelMixer::kFamily, ChannelMixer::kGatedMlp));
}

TEST(KimiLinearTest, EachLayerIsListedOnce) {
  const std::string layers = R"(, "num_hidden_layers": 2,
      "linear_attn_config": {"full_attn_layers": [2], "kda_layers": )";
  for (const std::string list : {"[2]", "[3]", "[1, 2]", "[]"}) {
    const auto model = Read(layers + list + "}");
    ASSERT_EQ(model.status().code(), kInvalid) << list;
    EXPECT_THAT(model.status().message(), HasSubstr("_layers")) << list;
  }
}

TEST(KimiLinearTest, WhatTheLinearLayersLackIsRefused) {
  const auto model = Read(R"(, "linear_attn_config": {
      "gate_lower_bound": -5})");
  ASSERT_EQ(model.status().code(), kUnimplemented);
  EXPECT_THAT(model.status().message(), HasSubstr("gate_lower_bound"));
}

// 20 of c and 6 of r for all 6 heads, of the one layer that has them.
TEST(KimiLinearTest, ATokenIsKeptOnceForAllHeads) {
  const auto model =
      Model::Load({.path = STEADYSTATE_SOURCE_DIR "/tests/golden/kimi_linear",
                   .weight_dtype = DType::kF32});
  ASSERT_TRUE(model.ok()) << model.status();
  size_t caches = 0;
  for (const StateSlot& slot : (*model)->state_layout().slots()) {
    if (slot.growth != SlotGrowth::kPerToken) continue;
    ++caches;
    ASSERT_EQ(slot.shape.size(), 4u);
    EXPECT_EQ(slot.shape[1] * slot.shape[2] * slot.shape[3], 26u);
  }
  EXPECT_EQ(caches, 1u);
}

}  // namespace
}  // namespace steadystate::kimi_linear_test
