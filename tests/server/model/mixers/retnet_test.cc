// Goal: RetNet's config is read as flash-linear-attention writes it, models of
// other authors that share its name are told apart, and bad values are refused
// by name. Method: golden weights with changed configs.
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/mixers/mixers.h"
#include "server/model/registry.h"
#include "tests/testing/golden_options.h"

namespace steadystate::retnet_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::vector<float> LogitsWith(const json& changes = json::object()) {
  return GoldenLogitsWith("retnet-groups", changes);
}

TEST(RetnetTest, DefaultsAreThoseOfTheLibrary) {
  const auto model = ReadModelConfig(
      *Config::Parse(R"({"model_type": "retnet"})", "config.json"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->hidden_size, 2048u);
  EXPECT_EQ(model->layers.size(), 24u);
  EXPECT_EQ(model->intermediate_size, 2816u);  // with a hidden_ratio of 2
  const auto null = ReadModelConfig(*Config::Parse(
      R"({"model_type": "retnet", "hidden_ratio": null})", "config.json"));
  ASSERT_TRUE(null.ok()) << null.status();
  EXPECT_EQ(null->intermediate_size, 5632u);  // with one of 4
}

TEST(RetnetTest, KeysThatTheLibraryIgnoresChangeNothing) {
  EXPECT_EQ(LogitsWith({{"use_short_conv", true},
                        {"conv_size", 3},
                        {"attn_mode", "parallel"},
                        {"fuse_norm", false}}),
            LogitsWith());
}

// By transformers' names, in which "gelu" is not fla's.
TEST(RetnetTest, FeatureMapsGoByTransformersNames) {
  const auto plain = LogitsWith();
  const auto gelu = LogitsWith({{"feature_map", "gelu"}});
  const auto approximate = LogitsWith({{"feature_map", "gelu_new"}});
  EXPECT_NE(gelu, plain);
  EXPECT_NE(gelu, approximate);
  EXPECT_EQ(LogitsWith({{"feature_map", "gelu_pytorch_tanh"}}), approximate);
  EXPECT_EQ(LogitsWith({{"feature_map", "linear"}}), plain);
  EXPECT_EQ(LogitsWith({{"feature_map", "silu"}}),
            LogitsWith({{"feature_map", "swish"}}));
}

TEST(RetnetTest, OtherAuthorsModelsAreToldApart) {
  for (const char* key :
       {"decoder_embed_dim", "decoder_retention_heads", "qk_dim", "v_dim",
        "ffn_proj_size", "num_rettention_heads"}) {
    const auto model = LoadGoldenWith("retnet-groups", {{key, 512}});
    EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(model.status().message(),
                HasSubstr(absl::StrCat(key, " is 512: this is another ")));
  }
}

TEST(RetnetTest, BadValuesAreRefusedByName) {
  const std::vector<std::pair<std::string, json>> bad = {
      {"num_heads", 0},           {"num_heads", 3},
      {"num_kv_heads", 3},        {"expand_k", 0},
      {"expand_k", 0.125},  // keys of one channel cannot be rotated
      {"expand_v", -2},           {"feature_map", "elu"},
      {"use_output_gate", "yes"}, {"elementwise_affine", 1},
      {"hidden_act", "powlu"},
  };
  for (const auto& [key, value] : bad) {
    const auto model = LoadGoldenWith("retnet-groups", {{key, value}});
    EXPECT_FALSE(model.ok());
    EXPECT_THAT(model.status().message(), HasSubstr(key)) << value;
  }
}

}  // namespace
}  // namespace steadystate::retnet_test
