// Goal: options that Bamba does not have are refused by name, and the config of
// the published model is read as it is meant. Method: golden weights with
// changed configs; a config of the published model.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/registry.h"
#include "tests/testing/golden_options.h"

namespace steadystate::bamba_test {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnsupported = absl::StatusCode::kUnimplemented;

TEST(BambaTest, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"attn_layer_indices", {3}, kInvalid},
      {"attn_layer_indices", "all", kInvalid},
      {"attn_rotary_emb", 8, kUnsupported},
      {"mlp_bias", true, kUnsupported},
      {"hidden_act", "gelu", kUnsupported},
      {"mamba_n_heads", 3, kInvalid},
      {"mamba_n_groups", 3, kInvalid},
      {"mamba_d_head", 8, kInvalid},
      {"mamba_expand", 0, kInvalid},
      {"mamba_d_conv", 0, kInvalid},
      {"time_step_limit", 1, kInvalid},
      {"num_key_value_heads", 3, kInvalid},
      {"rope_scaling", {{"rope_type", "yarn"}}, kUnsupported},
  };
  ExpectRefusals("bamba", refusals);
}

// Bamba-9B.
TEST(BambaTest, ReadsWhatIsPublished) {
  const ModelConfig model = ReadConfigText(
      R"({"model_type": "bamba", "attn_layer_indices": [9, 18, 27],
          "attn_rotary_emb": 64, "hidden_size": 4096,
          "intermediate_size": 14336, "num_hidden_layers": 32,
          "mamba_d_head": 64, "mamba_n_heads": 128, "rope_theta": 10000.0})");
  EXPECT_THAT(model.warnings, testing::IsEmpty());
  for (size_t i = 0; i < 32; ++i) {
    const bool softmax = i == 9 || i == 18 || i == 27;
    EXPECT_EQ(model.layers[i].has_softmax(), softmax) << i;
  }
  const SoftmaxAttentionOptions& attention = model.layers[9].softmax;
  EXPECT_EQ(attention.num_kv_heads, 8u);
  EXPECT_EQ(attention.head_dim, 128u);
  EXPECT_EQ(attention.rotary, 64u);
}

TEST(BambaTest, LayersMayHaveTheirKindByName) {
  const ModelConfig model = ReadConfigText(
      R"({"model_type": "bamba", "num_hidden_layers": 2,
          "layers_block_type": ["full_attention", "linear_attention"]})");
  EXPECT_TRUE(model.layers[0].has_softmax());
  EXPECT_FALSE(model.layers[1].has_softmax());
  EXPECT_FALSE(
      ReadConfigText(R"({"model_type": "bamba"})").layers[0].has_softmax());
}

}  // namespace
}  // namespace steadystate::bamba_test
