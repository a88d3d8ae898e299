// Goal: options that Olmo Hybrid does not have are refused by name, layers are
// of the kinds that the config says or is silent about, and a file that names
// no theta turns nothing. Method: golden weights with changed configs; configs
// of published models.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/registry.h"
#include "tests/testing/golden_options.h"

namespace steadystate {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnsupported = absl::StatusCode::kUnimplemented;

TEST(OlmoHybridTest, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"layer_types",
       {"linear_attention", "sliding_attention", "linear_attention",
        "full_attention"},
       kUnsupported},
      {"layer_types", {"linear_attention"}, kInvalid},
      {"linear_num_value_heads", 6, kInvalid},
      {"linear_num_key_heads", 0, kInvalid},
      {"linear_key_head_dim", 0, kInvalid},
      {"linear_value_head_dim", 65537, kInvalid},
      {"linear_conv_kernel_dim", 65, kInvalid},
      {"linear_allow_neg_eigval", 1, kInvalid},
      {"attention_bias", "no", kInvalid},
      {"num_key_value_heads", 3, kInvalid},
  };
  ExpectRefusals("olmo_hybrid", refusals);
}

std::vector<bool> Softmax(const ModelConfig& model) {
  std::vector<bool> softmax;
  for (const LayerPlan& plan : model.layers) {
    softmax.push_back(plan.tokens == TokenMixer::kSoftmax);
    EXPECT_EQ(plan.norms == NormPlace::kAfter, softmax.back());
  }
  return softmax;
}

TEST(OlmoHybridTest, EveryFourthLayerIsSoftmaxOrTheLast) {
  EXPECT_THAT(Softmax(ReadConfigText(R"({"model_type": "olmo_hybrid",
                               "num_hidden_layers": 8})")),
              testing::ElementsAre(false, false, false, true, false, false,
                                   false, true));
  EXPECT_THAT(Softmax(ReadConfigText(R"({"model_type": "olmo_hybrid",
                               "num_hidden_layers": 2})")),
              testing::ElementsAre(false, true));
}

TEST(OlmoHybridTest, HeadsTurnOnlyWhereTheFileNamesATheta) {
  const auto rotary = [](const std::string& more) {
    const ModelConfig model = ReadConfigText(
        R"({"model_type": "olmo_hybrid", "num_hidden_layers": 4)" + more + "}");
    return model.layers[3].softmax.rotary;
  };
  EXPECT_EQ(rotary(""), 0);
  EXPECT_EQ(rotary(R"(, "rope_parameters": null)"), 0);
  EXPECT_EQ(rotary(R"(, "rope_parameters": {"rope_type": "default"})"), 0);
  EXPECT_EQ(rotary(R"(, "rope_parameters": {"rope_theta": 500000})"), 128);
  EXPECT_EQ(rotary(R"(, "rope_theta": 500000)"), 128);
}

}  // namespace
}  // namespace steadystate
