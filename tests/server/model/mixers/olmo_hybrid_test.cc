// Goal: options that Olmo Hybrid does not have are refused by name, layers are
// of the kinds that the config says or is silent about, and a file that names
// no theta turns nothing. Method: golden weights with changed configs; configs
// of published models; golden weights with convolutions cut as transformers 5
// cuts them when it saves.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/registry.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/direct_session.h"
#include "tests/testing/golden_checkpoint.h"
#include "tests/testing/golden_options.h"

namespace steadystate::olmo_hybrid_test {
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
  // Of two objects rope_scaling rules.
  EXPECT_EQ(rotary(R"(, "rope_scaling": {"rope_theta": 500000})"), 128);
  EXPECT_EQ(rotary(R"(, "rope_scaling": {"rope_type": "default"},
                        "rope_parameters": {"rope_theta": 500000})"),
            0);
}

// The three, one after the other, cut in as many equal parts.
void CutInThirds(std::vector<TensorContents*> tensors) {
  std::vector<float> all;
  for (const TensorContents* tensor : tensors) {
    all.insert(all.end(), tensor->values.begin(), tensor->values.end());
  }
  const size_t third = all.size() / 3;
  for (size_t i = 0; i < 3; ++i) {
    TensorContents& tensor = *tensors[i];
    tensor.values.assign(&all[i * third], &all[i * third] + third);
    tensor.shape[0] = third / (tensor.shape[1] * tensor.shape[2]);
  }
}

TEST(OlmoHybridTest, AScalarInPlaceOfTapsIsRefused) {
  CheckpointContents contents = ReadGolden("olmo_hybrid");
  const std::string name = "model.layers.0.linear_attn.q_conv1d.weight";
  contents.tensors.at(name).shape = {};
  contents.tensors.at(name).values = {1};
  const auto model = LoadContents(contents);
  EXPECT_EQ(model.status().code(), kInvalid);
  EXPECT_THAT(model.status().message(), testing::HasSubstr(name));
}

TEST(OlmoHybridTest, ConvolutionsMayBeCutInThirds) {
  CheckpointContents contents = ReadGolden("olmo_hybrid");
  for (int layer = 0; layer < 3; ++layer) {
    const auto taps = [&](const char* of) {
      return &contents.tensors.at(absl::StrCat(
          "model.layers.", layer, ".linear_attn.", of, "_conv1d.weight"));
    };
    ASSERT_NE(taps("q")->shape[0], taps("v")->shape[0]);
    CutInThirds({taps("q"), taps("k"), taps("v")});
    ASSERT_EQ(taps("q")->shape[0], taps("v")->shape[0]);
  }
  const auto model = LoadContents(contents);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(
      DirectSession(**model).Feed(std::vector<int32_t>{1, 2, 3, 5, 8, 13}),
      GoldenLogitsWith("olmo_hybrid"));
}

}  // namespace
}  // namespace steadystate::olmo_hybrid_test
