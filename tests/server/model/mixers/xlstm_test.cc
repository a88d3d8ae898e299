// Goal: xLSTM's config is read as transformers writes it, and bad values are
// refused by name. Method: golden weights with changed configs.
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

namespace steadystate::xlstm_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::vector<float> LogitsWith(const json& changes = json::object()) {
  return GoldenLogitsWith("xlstm", changes);
}

TEST(XlstmTest, DefaultsAreThoseOfTransformers) {
  const auto model = ReadModelConfig(
      *Config::Parse(R"({"model_type": "xlstm"})", "config.json"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->hidden_size, 4096u);
  EXPECT_EQ(model->layers.size(), 32u);
  EXPECT_EQ(model->vocab_size, 50304u);
  EXPECT_FLOAT_EQ(model->norm.eps, 1e-6f);
  EXPECT_EQ(model->logit_cap, 30.0f);
}

TEST(XlstmTest, WidthAndDepthHaveTwoNamesEach) {
  const auto logits = LogitsWith();
  EXPECT_EQ(LogitsWith({{"hidden_size", nullptr}}), logits);
  EXPECT_EQ(LogitsWith({{"embedding_dim", nullptr}}), logits);
  EXPECT_EQ(LogitsWith({{"num_hidden_layers", nullptr}}), logits);
  EXPECT_EQ(LogitsWith({{"num_blocks", nullptr}}), logits);
}

TEST(XlstmTest, TheNumberOfBlocksIsTheDepth) {
  const auto logits = LogitsWith();
  EXPECT_EQ(LogitsWith({{"num_hidden_layers", 32}}), logits);
  EXPECT_EQ(LogitsWith({{"num_hidden_layers", 1}}), logits);
  const auto model = LoadGoldenWith("xlstm", {{"num_blocks", 3}});
  EXPECT_THAT(model.status().message(), HasSubstr("backbone.blocks.2."));
}

TEST(XlstmTest, ALastNormThatIsStoredIsUsed) {
  EXPECT_EQ(LogitsWith({{"add_out_norm", false}}), LogitsWith());
}

TEST(XlstmTest, WithoutALastNormTheFileMustSaySo) {
  const auto model =
      LoadGoldenWith("xlstm-no-out-norm", {{"add_out_norm", true}});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(model.status().message(), HasSubstr("backbone.out_norm.weight"));
}

TEST(XlstmTest, HowALibraryComputesChangesNothing) {
  EXPECT_EQ(LogitsWith({{"autocast_kernel_dtype", "float32"},
                        {"chunk_size", 16},
                        {"chunkwise_kernel", "parallel--native_autograd"},
                        {"inference_state_dtype", "bfloat16"},
                        {"max_inference_chunksize", 2},
                        {"mode", "train"},
                        {"norm_reduction_force_float32", false},
                        {"return_last_states", false},
                        {"sequence_kernel", "other"},
                        {"step_kernel", "other"}}),
            LogitsWith());
}

TEST(XlstmTest, CapsAndEpsilonsChangeTheResult) {
  const auto logits = LogitsWith();
  for (const char* key :
       {"gate_soft_cap", "output_logit_soft_cap", "eps", "norm_eps"}) {
    EXPECT_NE(LogitsWith({{key, 0.5}}), logits) << key;
  }
}

TEST(XlstmTest, BadValuesAreRefusedByName) {
  const std::vector<std::pair<std::string, json>> bad = {
      {"embedding_dim", 64},     {"embedding_dim", 0},
      {"num_blocks", 0},         {"num_heads", 0},
      {"qk_dim_factor", 0},      {"qk_dim_factor", 0.1},
      {"v_dim_factor", -1},      {"eps", 2},
      {"ffn_proj_factor", 1000}, {"ffn_round_up_to_multiple_of", 0},
      {"gate_soft_cap", 0},      {"output_logit_soft_cap", -30},
      {"use_bias", "no"},        {"add_out_norm", "no"},
  };
  for (const auto& [key, value] : bad) {
    const auto model = LoadGoldenWith("xlstm", {{key, value}});
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(model.status().message(), HasSubstr(absl::StrCat(key, " is")))
        << value;
  }
}

TEST(XlstmTest, OtherLayoutsAreNotSupported) {
  const std::vector<std::pair<std::string, json>> unsupported = {
      {"weight_mode", "fused"},
      {"attn", {{"layers", {0}}}},
  };
  for (const auto& [key, value] : unsupported) {
    const auto model = LoadGoldenWith("xlstm", {{key, value}});
    EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(model.status().message(), HasSubstr(absl::StrCat(key, " is")));
  }
}

}  // namespace
}  // namespace steadystate::xlstm_test
