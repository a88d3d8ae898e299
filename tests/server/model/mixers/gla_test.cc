// Goal: simple GLA reads its keys as gla does, but convolves by default, and
// refuses bad values by name. Method: golden weights with changed configs.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/mixers/mixers.h"
#include "tests/testing/golden_options.h"

namespace steadystate::gla_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::vector<float> LogitsWith(const json& changes = json::object()) {
  return GoldenLogitsWith("simple_gla", changes);
}

TEST(SimpleGlaTest, DefaultsMayBeStated) {
  EXPECT_EQ(LogitsWith({{"use_short_conv", true},
                        {"conv_size", 4},
                        {"expand_k", 0.5},
                        {"expand_v", 1},
                        {"use_output_gate", true},
                        {"num_kv_heads", nullptr},
                        {"feature_map", nullptr},
                        {"clamp_min", nullptr},
                        {"gate_logit_normalizer", 16},
                        {"hidden_act", "silu"}}),
            LogitsWith());
}

TEST(SimpleGlaTest, OptionsChangeTheResult) {
  const auto logits = LogitsWith();
  EXPECT_NE(LogitsWith({{"feature_map", "relu"}}), logits);
  EXPECT_NE(LogitsWith({{"clamp_min", -0.001}}), logits);
}

TEST(SimpleGlaTest, WithoutAConvolutionItsTapsAreLeftOver) {
  const auto model = LoadGoldenWith("simple_gla", {{"use_short_conv", false}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->description().warnings,
              testing::Contains(HasSubstr("layers.0.attn.q_conv1d.weight")));
}

TEST(SimpleGlaTest, BadValuesAreRefusedByName) {
  const std::vector<std::pair<std::string, json>> bad = {
      {"num_heads", 5},     {"num_kv_heads", 3},   {"expand_v", 100},
      {"conv_size", 0},     {"clamp_min", 0.5},    {"gate_logit_normalizer", 8},
      {"feature_map", "x"}, {"use_short_conv", 1},
  };
  for (const auto& [key, value] : bad) {
    const auto model = LoadGoldenWith("simple_gla", {{key, value}});
    EXPECT_FALSE(model.ok());
    EXPECT_THAT(model.status().message(), HasSubstr(key)) << value;
  }
}

}  // namespace
}  // namespace steadystate::gla_test
