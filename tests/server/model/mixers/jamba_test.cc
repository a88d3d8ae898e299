// Goal: options that Jamba does not have are refused by name, and the config of
// the published model is read as it is meant. Method: golden weights with
// changed configs; a config of the published model.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/registry.h"
#include "tests/testing/golden_options.h"

namespace steadystate::jamba_test {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnsupported = absl::StatusCode::kUnimplemented;

TEST(JambaTest, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"attn_layer_period", 0, kInvalid},
      {"attn_layer_offset", 3, kInvalid},
      {"expert_layer_period", "x", kInvalid},
      {"expert_layer_offset", 2, kInvalid},
      {"num_experts", 0, kInvalid},
      {"num_experts_per_tok", 7, kInvalid},
      {"mamba_inner_layernorms", false, kUnsupported},
      {"sliding_window", 128, kUnsupported},
      {"hidden_act", "gelu", kUnsupported},
      {"mamba_dt_rank", "x", kInvalid},
      {"mamba_d_state", 0, kInvalid},
      {"mamba_d_conv", 0, kInvalid},
      {"mamba_expand", 0, kInvalid},
      {"mamba_conv_bias", 1, kInvalid},
      {"num_key_value_heads", 3, kInvalid},
  };
  ExpectRefusals("jamba", refusals);
}

// Jamba-v0.1, of whose 32 layers every eighth is softmax attention and every
// second has experts.
TEST(JambaTest, ReadsWhatIsPublished) {
  const ModelConfig model = ReadConfigText(
      R"({"model_type": "jamba", "attn_layer_offset": 4,
          "attn_layer_period": 8, "expert_layer_offset": 1,
          "expert_layer_period": 2, "num_experts": 16,
          "num_experts_per_tok": 2, "n_ctx": 262144})");
  EXPECT_THAT(model.warnings, testing::IsEmpty());
  ASSERT_EQ(model.layers.size(), 32u);
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(model.layers[i].has_softmax(), i % 8 == 4) << i;
    EXPECT_EQ(model.layers[i].channels == ChannelMixer::kFamily, i % 2 == 1);
  }
  EXPECT_EQ(model.layers[4].softmax.rotary, 0u);
  EXPECT_EQ(model.intermediate_size, 14336u);
}

TEST(JambaTest, OneExpertIsAnMlp) {
  const ModelConfig model =
      ReadConfigText(R"({"model_type": "jamba", "num_experts": 1})");
  EXPECT_EQ(model.layers[1].channels, ChannelMixer::kGatedMlp);
}

}  // namespace
}  // namespace steadystate::jamba_test
