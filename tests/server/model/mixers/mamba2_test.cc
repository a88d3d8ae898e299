// Goal: Mamba-2's config is read as either library writes it, with infinity in
// every spelling, and bad values are refused by name. Method: golden weights
// with changed configs.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/mixers/mixers.h"
#include "server/model/registry.h"
#include "tests/testing/golden_options.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::mamba2_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<int32_t> kTokens = {1, 2, 3, 5, 8, 13};

std::vector<float> LogitsWith(const json& changes = json::object()) {
  return GoldenLogitsWith("mamba2-groups", changes);
}

TEST(Mamba2Test, DefaultsAreThoseOfTheLibraryThatWroteTheFile) {
  const auto read = [](absl::string_view text) {
    return ReadModelConfig(*Config::Parse(text, "config.json"));
  };
  const auto of_transformers = read(R"({"model_type": "mamba2"})");
  ASSERT_TRUE(of_transformers.ok()) << of_transformers.status();
  EXPECT_EQ(of_transformers->hidden_size, 4096u);
  EXPECT_EQ(of_transformers->layers.size(), 64u);
  EXPECT_EQ(of_transformers->vocab_size, 32768u);
  EXPECT_FLOAT_EQ(of_transformers->norm.eps, 1e-5f);
  const auto of_fla = read(R"({"model_type": "mamba2", "rmsnorm": true})");
  ASSERT_TRUE(of_fla.ok()) << of_fla.status();
  EXPECT_EQ(of_fla->hidden_size, 2048u);
  EXPECT_EQ(of_fla->layers.size(), 48u);
  EXPECT_EQ(of_fla->vocab_size, 32000u);
}

TEST(Mamba2Test, NoLimitIsTheSameAsAnInfiniteOne) {
  const auto logits = LogitsWith({{"time_step_limit", nullptr}});
  EXPECT_EQ(LogitsWith(), logits);
  EXPECT_EQ(LogitsWith({{"time_step_limit", {0, "Infinity"}}}), logits);
  EXPECT_NE(LogitsWith({{"time_step_limit", {0, 0.1}}}), logits);
}

TEST(Mamba2Test, KeysThatTransformersIgnoresChangeNothing) {
  EXPECT_EQ(LogitsWith({{"norm_before_gate", true},
                        {"chunk_size", 8},
                        {"rescale_prenorm_residual", true},
                        {"residual_in_fp32", false},
                        {"rms_norm", false},
                        {"time_step_floor", 1},
                        {"time_step_max", 1},
                        {"time_step_min", 1},
                        {"time_step_rank", 256}}),
            LogitsWith());
}

TEST(Mamba2Test, ThoseThatChangeTheResultDo) {
  EXPECT_NE(LogitsWith({{"norm_scope", "full"}}), LogitsWith());
  EXPECT_EQ(LogitsWith({{"norm_scope", "group"}}), LogitsWith());
}

TEST(Mamba2Test, TheNormIsThatOfTheVersionWhichWroteTheFile) {
  const auto with = [](const json& version) {
    return LogitsWith({{"transformers_version", version}});
  };
  const auto groups = LogitsWith({{"norm_scope", "group"}});
  const auto full = LogitsWith({{"norm_scope", "full"}});
  EXPECT_EQ(with(nullptr), groups);
  EXPECT_EQ(with("4.44.0"), full);
  EXPECT_EQ(with("5.22.2"), full);
  EXPECT_EQ(with("5.23.0"), groups);
  EXPECT_EQ(
      LogitsWith({{"transformers_version", "4.57.6"}, {"norm_scope", "group"}}),
      groups);
}

TEST(Mamba2Test, KeysThatFlaHasSinceItNormsGroupsTellItsVersion) {
  const auto with = [](const json& changes) {
    json keys = {{"transformers_version", "4.57.6"}};
    keys.update(changes);
    return GoldenLogitsWith("mamba2-fla-norm-before-gate", keys);
  };
  EXPECT_EQ(with({{"rmsnorm", true}}),
            GoldenLogitsWith("mamba2-fla-norm-before-gate"));
  EXPECT_EQ(with({{"rms_norm", true}}), with({{"norm_scope", "full"}}));
}

TEST(Mamba2Test, OverWhatTheNormIsTakenIsSaidOnce) {
  const auto readings = [](const char* golden, const json& changes) {
    const auto model = LoadGoldenWith(golden, changes);
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->description().readings;
  };
  EXPECT_THAT(
      readings("mamba2-groups", {{"transformers_version", "4.57.6"}}),
      ElementsAre(HasSubstr("is over all channels, as in transformers")));
  EXPECT_THAT(readings("mamba2-groups", json::object()),
              ElementsAre(HasSubstr("is over each group, as in mamba_ssm")));
  EXPECT_THAT(readings("mamba2-groups", {{"norm_scope", "full"}}), IsEmpty());
  EXPECT_THAT(readings("mamba2", {{"transformers_version", "4.57.6"}}),
              IsEmpty());
}

TEST(Mamba2Test, FlasKeysOfInitialisationAreKnown) {
  const auto model = LoadGoldenWith("mamba2-fla", {{"A_init_range", {1, 16}},
                                                   {"conv_init", 0.5},
                                                   {"dt_init_floor", 1e-4},
                                                   {"dt_max", 0.1},
                                                   {"dt_min", 0.001},
                                                   {"fuse_norm", true},
                                                   {"num_heads", 4}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->description().warnings, IsEmpty());
}

TEST(Mamba2Test, EmbeddingsMayHaveTheNameOfMambaSsm) {
  const std::string folder = STEADYSTATE_SOURCE_DIR "/tests/golden/mamba2";
  // A blank after the shorter name keeps the header's length.
  const std::string renamed = absl::StrReplaceAll(
      ReadWholeFile(folder + "/model.safetensors"),
      {{"\"backbone.embeddings.weight\"", "\"backbone.embedding.weight\" "}});
  ASSERT_TRUE(absl::StrContains(renamed, "backbone.embedding.weight"));
  const TempDirectory directory;
  directory.Write("config.json", ReadWholeFile(folder + "/config.json"));
  directory.Write("model.safetensors", renamed);
  const auto model =
      Model::Load({.path = directory.path(), .weight_dtype = DType::kF32});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->description().warnings, IsEmpty());
}

TEST(Mamba2Test, BadValuesAreRefusedByName) {
  const std::vector<std::pair<std::string, json>> bad = {
      {"head_dim", 0},
      {"head_dim", 5},
      {"num_heads", 3},
      {"n_groups", 0},
      {"n_groups", 3},
      {"n_groups", 8},
      {"state_size", 0},
      {"expand", 0},
      {"conv_kernel", 1000},
      {"use_bias", "yes"},
      {"use_conv_bias", 1},
      {"hidden_act", "relu"},
      {"time_step_limit", 1},
      {"time_step_limit", {0}},
      {"time_step_limit", {1, 0.5}},
      {"time_step_limit", {-1, 1}},
      {"time_step_limit", {0, "NaN"}},
      {"time_step_limit", {0, {{"__float__", "many"}}}},
      {"norm_scope", "layer"},
      {"attn", {{"layers", {0}}}},
  };
  for (const auto& [key, value] : bad) {
    const auto model = LoadGoldenWith("mamba2-groups", {{key, value}});
    EXPECT_THAT(model.status().message(), HasSubstr(absl::StrCat(key, " is")))
        << value;
  }
  for (const char* key : {"rmsnorm", "D_has_hdim", "norm_before_gate"}) {
    const auto model = LoadGoldenWith("mamba2-fla", {{key, 7}});
    EXPECT_THAT(model.status().message(),
                HasSubstr(absl::StrCat(key, " is 7")));
  }
}

}  // namespace
}  // namespace steadystate::mamba2_test
