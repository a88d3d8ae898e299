// Goal: options that RecurrentGemma does not have are refused by name, and the
// config of the published model is read as it is meant. Method: golden weights
// with changed configs; a config of the published model.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/registry.h"
#include "tests/testing/golden_options.h"

namespace steadystate::recurrent_gemma_test {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnsupported = absl::StatusCode::kUnimplemented;

TEST(RecurrentGemmaTest, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"block_types", {"recurrent", "mamba"}, kUnsupported},
      {"block_types", nlohmann::json::array(), kInvalid},
      {"hidden_activation", "gelu", kUnsupported},
      {"embeddings_scale_by_sqrt_dim", false, kUnsupported},
      {"lru_width", 30, kInvalid},
      {"attention_window_size", 0, kInvalid},
      {"conv1d_width", 0, kInvalid},
      {"logits_soft_cap", 0, kInvalid},
      {"intermediate_size", 1, kInvalid},
      {"num_key_value_heads", 3, kInvalid},
  };
  ExpectRefusals("recurrent_gemma", refusals);
}

// RecurrentGemma-2B.
TEST(RecurrentGemmaTest, ReadsWhatIsPublished) {
  const ModelConfig model = ReadConfigText(
      R"({"model_type": "recurrent_gemma", "attention_window_size": 2048,
          "block_types": ["recurrent", "recurrent", "attention"],
          "embeddings_scale_by_sqrt_dim": true, "head_dim": 256,
          "hidden_size": 2560, "intermediate_size": 15360, "lru_width": 2560,
          "num_attention_heads": 10, "num_hidden_layers": 26,
          "num_key_value_heads": 1, "vocab_size": 256000})");
  EXPECT_THAT(model.warnings, testing::IsEmpty());
  ASSERT_EQ(model.layers.size(), 26u);
  for (size_t i = 0; i < 26; ++i) {
    EXPECT_EQ(model.layers[i].has_softmax(), i % 3 == 2) << i;
  }
  EXPECT_EQ(model.intermediate_size, 7680u);
  EXPECT_EQ(model.mlp_activation, Activation::kGeluTanh);
  EXPECT_EQ(model.logit_cap, 30.0F);
  // The root of 2560 is 50.596.
  EXPECT_EQ(model.embedding_multiplier, 50.5F);
  EXPECT_EQ(model.tied_head, TiedHead::kYes);
  const SoftmaxAttentionOptions& attention = model.layers[2].softmax;
  EXPECT_EQ(attention.window, 2048u);
  EXPECT_EQ(attention.rotary, 128u);
  EXPECT_TRUE(attention.out_bias);
  EXPECT_FALSE(attention.qkv_bias);
}

// Another name of it in the library.
TEST(RecurrentGemmaTest, AWindowMayBeCalledSliding) {
  const ModelConfig model =
      ReadConfigText(R"({"model_type": "recurrent_gemma", "hidden_size": 40,
                         "sliding_window": 64})");
  EXPECT_EQ(model.layers[2].softmax.window, 64u);
  EXPECT_TRUE(model.warnings.empty());
}

}  // namespace
}  // namespace steadystate::recurrent_gemma_test
