// Goal: options that LFM2 and LFM3 do not have are refused by name, and MLP and
// layers are as their rules say. Method: golden weights with changed configs;
// configs of published models.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/registry.h"
#include "tests/testing/golden_checkpoint.h"
#include "tests/testing/golden_options.h"

namespace steadystate::lfm2_test {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnsupported = absl::StatusCode::kUnimplemented;

TEST(Lfm2Test, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"conv_L_cache", 0, kInvalid},
      {"conv_bias", "no", kInvalid},
      {"block_multiple_of", 0, kInvalid},
      {"block_ffn_dim_multiplier", -1, kInvalid},
      {"block_auto_adjust_ff_dim", 1, kInvalid},
      {"block_ff_dim", 1, kInvalid},
      {"num_key_value_heads", 3, kInvalid},
      {"tie_embedding", "yes", kInvalid},
      {"tie_embedding", false, kInvalid},  // the file has no head
      {"layer_types", "conv", kInvalid},
  };
  ExpectRefusals("lfm2", refusals);
}

TEST(Lfm2Test, BadMixturesAreRefusedByName) {
  const Refusal refusals[] = {
      {"num_experts", 0, kInvalid},
      {"num_experts_per_tok", 7, kInvalid},
      {"use_expert_bias", 1, kInvalid},
      {"norm_topk_prob", "yes", kInvalid},
      {"routed_scaling_factor", -1, kInvalid},
      {"num_dense_layers", -1, kInvalid},
      {"moe_intermediate_size", 0, kInvalid},
  };
  ExpectRefusals("lfm2_moe", refusals);
}

TEST(Lfm2Test, TheWidthOfTheMlpFollowsItsRule) {
  // The 350M, 1.2B and 2.6B.
  EXPECT_EQ(ReadConfigText(R"({"model_type": "lfm2", "block_ff_dim": 6656,
                     "block_ffn_dim_multiplier": 1.0})")
                .intermediate_size,
            4608u);
  EXPECT_EQ(ReadConfigText(R"({"model_type": "lfm2", "block_ff_dim": 12288,
                     "intermediate_size": 7})")
                .intermediate_size,
            8192u);
  EXPECT_EQ(ReadConfigText(R"({"model_type": "lfm2", "intermediate_size": 10752,
                     "block_auto_adjust_ff_dim": false})")
                .intermediate_size,
            10752u);
  // Null is no rounding, which the default is not.
  EXPECT_EQ(ReadConfigText(R"({"model_type": "lfm2", "intermediate_size": 100,
                     "block_ffn_dim_multiplier": null})")
                .intermediate_size,
            66u);
}

TEST(Lfm2Test, WithoutAWordOfLayersAllAreSoftmax) {
  const ModelConfig all = ReadConfigText(R"({"model_type": "lfm2"})");
  ASSERT_EQ(all.layers.size(), 32u);
  EXPECT_EQ(all.layers[0].tokens, TokenMixer::kSoftmax);
  const ModelConfig null =
      ReadConfigText(R"({"model_type": "lfm2", "full_attn_idxs": null})");
  EXPECT_EQ(null.layers[0].tokens, TokenMixer::kSoftmax);
  const ModelConfig some =
      ReadConfigText(R"({"model_type": "lfm2", "full_attn_idxs": [2, 5]})");
  EXPECT_EQ(some.layers[1].tokens, TokenMixer::kFamily);
  EXPECT_EQ(some.layers[2].tokens, TokenMixer::kSoftmax);
}

TEST(Lfm3Test, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"conv_L_cache", 0, kInvalid},
      {"sliding_window", 0, kInvalid},
      {"use_sandwich_norm", 1, kInvalid},
      {"use_attention_gate", "yes", kInvalid},
      {"attention_bias", 1, kInvalid},
      {"intermediate_size", 0, kInvalid},
      {"layer_types", {"conv", "full_attention"}, kInvalid},
      {"layer_types", {"conv", "mamba", "conv", "conv", "conv"}, kUnsupported},
      {"rope_parameters", {{"rope_theta", 1e4}}, kInvalid},
      {"rope_parameters",
       {{"sliding_attention", {{"rope_type", "yarn"}}},
        {"full_attention", nullptr}},
       kUnsupported},
      {"rope_parameters",
       {{"sliding_attention", {{"partial_rotary_factor", 0.5}}}},
       kUnsupported},
      {"rope_parameters",
       {{"sliding_attention", {{"factor", 3}}}},
       kUnsupported},
      {"rope_parameters",
       {{"sliding_attention", {{"type", "linear"}}}},
       kUnsupported},
  };
  for (const Refusal& refusal : refusals) {
    const auto model = LoadGoldenWith("lfm3", {{refusal.key, refusal.value}});
    EXPECT_EQ(model.status().code(), refusal.code) << model.status();
  }
}

// LFM3-1.7B, by the defaults of the library.
TEST(Lfm3Test, WithoutAWordLayersAreThoseOfTheLibrary) {
  const ModelConfig model = ReadConfigText(R"({"model_type": "lfm3"})");
  ASSERT_EQ(model.layers.size(), 24u);
  for (size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(model.layers[i].has_softmax(), i % 2 == 0 && i > 0) << i;
    EXPECT_EQ(model.layers[i].norms, NormPlace::kBoth);
  }
  const SoftmaxAttentionOptions& all = model.layers[2].softmax;
  EXPECT_EQ(all.window, std::nullopt);
  EXPECT_EQ(all.rotary, 128u);
  EXPECT_EQ(all.turning_pairs, 32u);
  EXPECT_EQ(all.rope_theta, 1e6);
  EXPECT_EQ(all.head_gate, "g_proj");
  const SoftmaxAttentionOptions& window = model.layers[4].softmax;
  EXPECT_EQ(window.window, 256u);
  EXPECT_EQ(window.turning_pairs, std::nullopt);
  EXPECT_EQ(window.rope_theta, 1e4);
  EXPECT_EQ(model.intermediate_size, 7680u);
}

}  // namespace
}  // namespace steadystate::lfm2_test
