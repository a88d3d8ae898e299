// Goal: the general recurrence takes what is defined and refuses the rest by
// key and value, keys within `decay` too. Method: golden weights with changed
// configs.
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/mixers/mixers.h"
#include "tests/testing/golden_options.h"

namespace steadystate::linear_recurrence_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// Two heads, K = 8, V = 16, no decay.
constexpr char kPlain[] = "linear_recurrence";

std::vector<float> LogitsWith(const json& changes = json::object()) {
  return GoldenLogitsWith(kPlain, changes);
}

TEST(LinearRecurrenceTest, DefaultsMayBeStated) {
  const json decay = {{"kind", "none"},
                      {"values", nullptr},
                      {"activation", "sigmoid"},
                      {"temperature", 1}};
  const json stated = {{"feature_map", "identity"},
                       {"q_scale", "rsqrt_k"},
                       {"rotary", "none"},
                       {"rope_theta", 10000},
                       {"conv_size", 0},
                       {"decay", decay},
                       {"input", "plain"},
                       {"normalizer", "none"},
                       {"normalizer_eps", 1e-6},
                       {"output_norm", "none"},
                       {"output_gate", "none"}};
  EXPECT_EQ(LogitsWith(stated), LogitsWith());
}

TEST(LinearRecurrenceTest, NoDecayIsOneOfOnes) {
  EXPECT_EQ(LogitsWith({{"decay", json::object()}}), LogitsWith());
  const json ones = {{"kind", "constant"}, {"values", {1, 1}}};
  EXPECT_EQ(LogitsWith({{"decay", ones}}), LogitsWith());
}

TEST(LinearRecurrenceTest, NamedConstantsAreTheirValues) {
  const json named = {{"kind", "constant"}, {"values", "retnet"}};
  const json listed = {{"kind", "constant"}, {"values", {0.96875, 0.984375}}};
  EXPECT_EQ(LogitsWith({{"decay", named}}), LogitsWith({{"decay", listed}}));
}

TEST(LinearRecurrenceTest, AScaleMayBeANumber) {
  EXPECT_EQ(LogitsWith({{"q_scale", 0.35355339059327373}}), LogitsWith());
  EXPECT_NE(LogitsWith({{"q_scale", 1}}), LogitsWith());
}

TEST(LinearRecurrenceTest, UnknownKeysOfDecayAreWarnings) {
  const json decay = {{"kind", "none"}, {"colour", "red"}};
  const auto model = LoadGoldenWith(kPlain, {{"decay", decay}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->description().warnings,
              ElementsAre(HasSubstr("'decay.colour'")));
}

TEST(LinearRecurrenceTest, BadValuesAreRefusedByName) {
  const std::vector<std::pair<std::string, json>> bad = {
      {"num_heads", nullptr},
      {"num_heads", 0},
      {"head_k_dim", nullptr},
      {"head_k_dim", 0.5},
      {"head_v_dim", nullptr},
      {"head_v_dim", -1},
      {"feature_map", "relu6"},
      {"feature_map", 1},
      {"q_scale", "rsqrt_v"},
      {"q_scale", json::array()},
      {"rotary", "full"},
      {"rope_theta", 0},
      {"conv_size", -1},
      {"conv_size", 1000},
      {"decay", "none"},
      {"input", "sum"},
      {"normalizer", "y"},
      {"normalizer_eps", -1},
      {"output_norm", "layer"},
      {"output_gate", "relu"},
      // What is defined for decays of keys alone.
      {"input", "complement"},
  };
  for (const auto& [key, value] : bad) {
    const auto model = LoadGoldenWith(kPlain, {{key, value}});
    EXPECT_FALSE(model.ok());
    EXPECT_THAT(model.status().message(), HasSubstr(absl::StrCat(key, " is ")))
        << value;
  }
}

TEST(LinearRecurrenceTest, NormalisersNeedADecayOfKeys) {
  for (const char* kind : {"value", "outer", "full", "key_complex"}) {
    const auto model = LoadGoldenWith(absl::StrCat("linear_recurrence-", kind),
                                      {{"normalizer", "z"}});
    EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(model.status().message(), HasSubstr("normalizer is \"z\""));
  }
}

TEST(LinearRecurrenceTest, KeysOfOddWidthAreNotRotated) {
  const auto model =
      LoadGoldenWith("linear_recurrence-full-odd", {{"rotary", "half"}});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(model.status().message(), HasSubstr("head_k_dim is 7"));
}

TEST(LinearRecurrenceTest, BadDecaysAreRefusedByName) {
  const auto decay = [](const char* kind, const char* key, const json& value) {
    return json{{"kind", kind}, {key, value}};
  };
  const std::vector<std::pair<std::string, json>> bad = {
      {"kind", {{"kind", "matrix"}}},
      {"kind", {{"kind", 3}}},
      {"values", {{"kind", "constant"}}},
      {"values", decay("constant", "values", "lightning")},
      {"values", decay("constant", "values", 0.5)},
      {"values", decay("constant", "values", json::array({0.5}))},
      {"values", decay("constant", "values", json::array({0.5, 0.5, 0.5}))},
      {"values", decay("constant", "values", json::array({0.5, 1.5}))},
      {"values", decay("constant", "values", json::array({0.5, "x"}))},
      {"values", decay("scalar", "values", "retnet")},
      {"activation", decay("scalar", "activation", "tanh")},
      {"activation", decay("key", "activation", "exp_softplus")},
      {"activation", decay("full", "activation", "exp_exp")},
      {"activation", decay("none", "activation", "exp_exp")},
      {"temperature", decay("scalar", "temperature", 0)},
      {"temperature", decay("scalar", "temperature", "hot")},
      {"temperature", decay("constant", "temperature", 16)},
  };
  for (const auto& [key, value] : bad) {
    json changes = {{"decay", value}};
    if (value.value("kind", json()) == "constant" && key != "values") {
      changes["decay"]["values"] = "retnet";
    }
    const auto model = LoadGoldenWith(kPlain, changes);
    EXPECT_FALSE(model.ok());
    EXPECT_THAT(model.status().message(),
                HasSubstr(absl::StrCat("decay.", key, " is ")))
        << changes;
  }
}

TEST(LinearRecurrenceTest, TensorsOfTheDecayAreNeeded) {
  const auto missing = [](const char* kind, const char* tensor) {
    const auto model = LoadGoldenWith(kPlain, {{"decay", {{"kind", kind}}}});
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        model.status().message(),
        HasSubstr(absl::StrCat("model.layers.0.attn.", tensor, ".weight")));
  };
  missing("scalar", "decay_proj");
  missing("key", "decay_k_proj");
  missing("value", "decay_v_proj");
  missing("outer", "decay_k_proj");
  missing("full", "decay_v_proj");
  missing("key_complex", "decay_k_proj");
}

}  // namespace
}  // namespace steadystate::linear_recurrence_test
