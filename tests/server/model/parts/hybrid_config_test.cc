// Goal: what hybrids say of their layers and their attention is read in each of
// the ways that it is written, and what is wrong is named. Method: configs with
// one thing each.
#include "server/model/parts/hybrid_config.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::hybrid_config_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;
constexpr AttentionDefaults kDefaults = {
    .num_heads = 4, .num_kv_heads = 2, .rope_theta = 500, .rotary_factor = 0.5};

class HybridConfigTest : public testing::Test {
 protected:
  HybridConfigTest() {
    model_.hidden_size = 48;
    model_.layers.resize(2);
  }

  absl::StatusOr<SoftmaxAttentionOptions> Attention(
      const std::string& text, const AttentionDefaults& defaults = kDefaults) {
    return ReadAttention(*Config::Parse(text, "config.json"), defaults, model_);
  }

  absl::StatusOr<bool> Types(const std::string& text) {
    constexpr Choice<TokenMixer> kKinds[] = {
        {"conv", TokenMixer::kFamily},
        {"full_attention", TokenMixer::kSoftmax}};
    return ReadLayerTypes(*Config::Parse(text, "config.json"),
                          std::span<const Choice<TokenMixer>>(kKinds), model_);
  }

  ModelConfig model_;
};

TEST_F(HybridConfigTest, LayersHaveTheirKindByName) {
  for (const char* key : {"layer_types", "layers_block_type"}) {
    const auto named =
        Types(absl::StrCat(R"({")", key, R"(": ["full_attention", "conv"]})"));
    ASSERT_TRUE(named.ok()) << named.status();
    EXPECT_TRUE(*named);
    EXPECT_EQ(model_.layers[0].tokens, TokenMixer::kSoftmax);
    EXPECT_EQ(model_.layers[1].tokens, TokenMixer::kFamily);
  }
  EXPECT_FALSE(*Types("{}"));
}

TEST_F(HybridConfigTest, LayersMayBeListedByTheirIndices) {
  const auto read = [&](const std::string& text) {
    return ReadLayerIndices(*Config::Parse(text, "config.json"), "indices",
                            TokenMixer::kSoftmax, model_);
  };
  EXPECT_FALSE(*read("{}"));
  EXPECT_FALSE(*read(R"({"indices": null})"));
  const auto listed = read(R"({"indices": [1]})");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_TRUE(*listed);
  EXPECT_EQ(model_.layers[0].tokens, TokenMixer::kFamily);
  EXPECT_EQ(model_.layers[1].tokens, TokenMixer::kSoftmax);
  const auto beyond = read(R"({"indices": [2]})");
  EXPECT_EQ(beyond.status().code(), kInvalid);
  EXPECT_THAT(beyond.status().message(), HasSubstr("indices"));
}

TEST_F(HybridConfigTest, AKindThatIsNotKnownIsNamedWithThoseThatAre) {
  const auto named = Types(R"({"layer_types": ["conv", "moe"]})");
  EXPECT_EQ(named.status().code(), kUnimplemented);
  EXPECT_THAT(named.status().message(), HasSubstr("\"full_attention\""));
  EXPECT_EQ(Types(R"({"layer_types": ["conv"]})").status().code(), kInvalid);
  EXPECT_EQ(Types(R"({"layer_types": "conv"})").status().code(), kInvalid);
}

TEST_F(HybridConfigTest, AnAttentionOfDefaultsIsTheFamilys) {
  const auto options = Attention("{}");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->num_heads, 4u);
  EXPECT_EQ(options->num_kv_heads, 2u);
  EXPECT_EQ(options->head_dim, 12u);
  EXPECT_EQ(options->rotary, 6u);
  EXPECT_EQ(options->rope_theta, 500);
}

TEST_F(HybridConfigTest, AStatedWidthNeedNotDivideTheModels) {
  const auto options = Attention(R"({"num_attention_heads": 5,
      "num_key_value_heads": 1, "head_dim": 16})");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->head_dim, 16u);
  EXPECT_EQ(options->rotary, 8u);
  EXPECT_EQ(Attention(R"({"num_attention_heads": 5, "num_key_value_heads": 1})")
                .status()
                .code(),
            kInvalid);
  EXPECT_EQ(Attention(R"({"num_key_value_heads": 3})").status().code(),
            kInvalid);
}

TEST_F(HybridConfigTest, AShareThatTheLibraryFixesIsThatWhateverIsWritten) {
  AttentionDefaults fixed = kDefaults;
  fixed.fixed_share = true;
  for (const char* text :
       {R"({"partial_rotary_factor": 1})",
        R"({"rope_parameters": {"partial_rotary_factor": 0.25}})"}) {
    const auto options = Attention(text, fixed);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->rotary, 6u) << text;
  }
  EXPECT_TRUE(Attention(R"({"partial_rotary_factor": 0.5})", fixed).ok());
  EXPECT_THAT(model_.warnings,
              ElementsAre(HasSubstr("partial_rotary_factor 1 is not heeded"),
                          HasSubstr("partial_rotary_factor 0.25 is not")));
}

TEST_F(HybridConfigTest, OfTwoObjectsOfRotaryTransformersTakesTheOldOne) {
  const auto both = Attention(R"({"rope_scaling": {"rope_theta": 7},
                                  "rope_parameters": {"rope_theta": 9}})");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->rope_theta, 7);
}

TEST_F(HybridConfigTest, TheNewSpellingOfRotaryWinsOverTheOld) {
  const auto old_one =
      Attention(R"({"rope_theta": 7, "partial_rotary_factor": 1})");
  EXPECT_EQ(old_one->rope_theta, 7);
  EXPECT_EQ(old_one->rotary, 12u);
  const auto both = Attention(R"({"rope_theta": 7, "partial_rotary_factor": 1,
      "rope_parameters": {"rope_theta": 9, "rope_type": "default",
                          "mrope_section": [1, 2, 3]}})");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->rope_theta, 9);
  EXPECT_EQ(both->rotary, 12u);
  EXPECT_THAT(model_.warnings, IsEmpty());
}

TEST_F(HybridConfigTest, OtherKindsOfRotaryAreRefused) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto yarn =
        Attention(absl::StrCat(R"({")", key, R"(": {"rope_type": "yarn"}})"));
    EXPECT_EQ(yarn.status().code(), kUnimplemented);
    EXPECT_THAT(yarn.status().message(),
                HasSubstr(absl::StrCat(key, ".rope_type")));
  }
  // 3 of 12 elements are no pairs.
  EXPECT_EQ(Attention(R"({"partial_rotary_factor": 0.25})").status().code(),
            kInvalid);
}

TEST_F(HybridConfigTest, AKeyOfRotaryThatIsNotKnownIsAWarning) {
  ASSERT_TRUE(Attention(R"({"rope_parameters": {"factor": 8}})").ok());
  EXPECT_THAT(model_.warnings,
              ElementsAre(HasSubstr("rope_parameters.factor")));
}

}  // namespace
}  // namespace steadystate::hybrid_config_test
