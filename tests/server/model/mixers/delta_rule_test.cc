// Goal: options that DeltaNet does not have are refused by name; vanished keys
// divide by no zero. Method: golden weights with changed configs; weights of 0.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/mixers/mixers.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/direct_session.h"
#include "tests/testing/golden_options.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::delta_rule_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

TEST(DeltaNetTest, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"num_heads", 0, kInvalid},
      {"num_heads", 5, kInvalid},
      {"expand_k", 0.3, kInvalid},
      {"expand_v", "wide", kInvalid},
      {"qk_norm", "l1", kInvalid},
      {"qk_norm", 2, kInvalid},
      {"qk_activation", "gelu", kInvalid},
      {"use_beta", 1, kInvalid},
      {"use_gate", "swish", kInvalid},
      {"use_short_conv", 1, kInvalid},
      {"conv_size", 0, kInvalid},
      {"allow_neg_eigval", "yes", kInvalid},
      {"conv_bias", true, kUnimplemented},
  };
  ExpectRefusals("delta_net", refusals);
}

const std::vector<int32_t> kFewTokens = {3, 1, 0, 1, 2, 2, 3, 0};

// One layer of width 4 whose weights are all `fill`, but those of q and k,
// which are 0.
CheckpointContents WithoutKeys(float fill) {
  CheckpointContents contents;
  contents.config = {{"model_type", "delta_net"}, {"hidden_size", 4},
                     {"num_hidden_layers", 1},    {"num_heads", 1},
                     {"vocab_size", 4},           {"intermediate_size", 4},
                     {"use_short_conv", false},   {"qk_activation", "relu"},
                     {"qk_norm", "sum"}};
  const auto add = [&contents](const std::string& name,
                               const std::vector<size_t>& shape, float value) {
    const size_t count = shape.size() == 1 ? shape[0] : shape[0] * shape[1];
    contents.tensors[name] = {DType::kF32, shape,
                              std::vector<float>(count, value)};
  };
  const std::string layer = "model.layers.0.";
  for (const char* name : {"attn_norm", "mlp_norm", "attn.o_norm"}) {
    add(layer + name + ".weight", {4}, fill);
  }
  for (const char* name : {"attn.v_proj", "attn.o_proj", "mlp.gate_proj",
                           "mlp.up_proj", "mlp.down_proj"}) {
    add(layer + name + ".weight", {4, 4}, fill);
  }
  add(layer + "attn.b_proj.weight", {1, 4}, fill);
  add(layer + "attn.q_proj.weight", {4, 4}, 0);
  add(layer + "attn.k_proj.weight", {4, 4}, 0);
  add("model.embeddings.weight", {4, 4}, fill);
  add("model.norm.weight", {4}, fill);
  return contents;
}

TEST(DeltaNetTest, VanishedKeysLeaveLogitsFinite) {
  const TempDirectory directory;
  WriteCheckpoint(WithoutKeys(0.5f), directory.path());
  const auto model = Model::Load({.path = directory.path()});
  ASSERT_TRUE(model.ok()) << model.status();
  for (const float logit : DirectSession(**model).Feed(kFewTokens)) {
    EXPECT_TRUE(std::isfinite(logit));
  }
}

TEST(DeltaNetTest, ASumIsThatOfTheVersionWhichWroteTheFile) {
  const auto logits = [](const char* act, const json& version) {
    return GoldenLogitsWith("delta_net", {{"qk_norm", "sum"},
                                          {"qk_activation", act},
                                          {"transformers_version", version}});
  };
  EXPECT_EQ(logits("silu", "5.6.1"), logits("silu", nullptr));
  EXPECT_NE(logits("silu", "5.6.2"), logits("silu", nullptr));
  EXPECT_EQ(logits("silu", "5.6.2"), logits("silu", "5.23.0"));
  // Without negative numbers it is the same.
  EXPECT_EQ(logits("elu", "5.6.2"), logits("elu", nullptr));
}

TEST(DeltaNetTest, HowASumIsReadIsSaidOnceWhereItMatters) {
  const auto readings = [](const json& changes) {
    const auto model = LoadGoldenWith("delta_net", changes);
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->description().readings;
  };
  EXPECT_THAT(readings({{"qk_norm", "sum"}}),
              ElementsAre(HasSubstr("--transformers_version=5.6.2")));
  EXPECT_THAT(
      readings({{"qk_norm", "sum"}, {"transformers_version", "5.23.0"}}),
      ElementsAre(HasSubstr("sum of magnitudes")));
  EXPECT_THAT(readings({{"qk_norm", "sum"}, {"qk_activation", "relu"}}),
              IsEmpty());
  EXPECT_THAT(readings(json::object()), IsEmpty());
}

TEST(DeltaNetTest, DeadKeysChangeNothing) {
  const auto plain = LoadGoldenWith("delta_net", json::object());
  const auto with = LoadGoldenWith(
      "delta_net", {{"use_output_norm", false}, {"num_kv_heads", 2}});
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_TRUE((*with)->description().warnings.empty());
  EXPECT_EQ(DirectSession(**with).Feed(kFewTokens),
            DirectSession(**plain).Feed(kFewTokens));
}

// Goal: options that Gated DeltaNet does not have are refused by name. Method:
// golden weights with changed configs.

TEST(GatedDeltanetTest, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"num_heads", 0, kInvalid},
      {"num_heads", 1.5, kInvalid},
      {"num_v_heads", 3, kInvalid},
      {"head_dim", 0, kInvalid},
      {"expand_v", -1, kInvalid},
      {"expand_v", 0.01, kInvalid},
      {"expand_v", 1.3, kInvalid},
      {"use_gate", 1, kInvalid},
      {"output_gate_activation", "relu", kUnimplemented},
      {"output_gate_activation", "tanh", kUnimplemented},
      {"use_mamba_gate", false, kUnimplemented},
      {"use_short_conv", 1, kInvalid},
      {"conv_size", 0, kInvalid},
      {"allow_neg_eigval", "yes", kInvalid},
      {"conv_bias", true, kUnimplemented},
  };
  ExpectRefusals("gated_deltanet-value-heads", refusals);
}

// Goal: options that Kimi delta attention does not have are refused by name.
// Method: golden weights with changed configs.

TEST(KdaTest, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"num_heads", 0, kInvalid},
      {"num_heads", 1.5, kInvalid},
      {"num_v_heads", 3, kInvalid},
      {"head_dim", 0, kInvalid},
      {"expand_v", -1, kInvalid},
      {"expand_v", 0.01, kInvalid},
      {"expand_v", 1.3, kInvalid},
      {"lower_bound", 1, kInvalid},
      {"lower_bound", "-5", kInvalid},
      {"safe_gate", 2, kInvalid},
      {"attnres_block_size", 4, kUnimplemented},
      {"use_short_conv", 1, kInvalid},
      {"conv_size", 0, kInvalid},
      {"allow_neg_eigval", "yes", kInvalid},
      {"conv_bias", true, kUnimplemented},
  };
  ExpectRefusals("kda-value-heads", refusals);
}

TEST(KdaTest, GatesThatValueHeadsShareAreThoseOfEach) {
  // The golden case has one for each key head; here all tensors must agree.
  const auto model = LoadGoldenWith("kda-shared-gates", {{"num_v_heads", 2}});
  EXPECT_EQ(model.status().code(), kInvalid);
  EXPECT_THAT(model.status().message(), HasSubstr("v_proj"));
}

TEST(KdaTest, SafeGateNeedsALowerBound) {
  const auto model = LoadGoldenWith("kda", {{"safe_gate", true}});
  EXPECT_EQ(model.status().code(), kInvalid) << model.status();
  EXPECT_THAT(model.status().message(), HasSubstr("lower_bound"));
}

}  // namespace
}  // namespace steadystate::delta_rule_test
