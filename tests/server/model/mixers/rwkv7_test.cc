// Goal: options that RWKV-7 does not have, and another code's checkpoints of
// the same name, are refused by name. Method: golden weights with changed
// configs.
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/mixers/mixers.h"
#include "tests/testing/direct_session.h"
#include "tests/testing/golden_options.h"

namespace steadystate::rwkv7_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

TEST(Rwkv7Test, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"head_dim", 0, kInvalid},
      {"head_dim", 5, kInvalid},
      {"value_dim", 33, kInvalid},
      {"value_dim", {32, 64}, kInvalid},
      {"value_dim", {32, 32, 32}, kInvalid},
      {"value_dim", "wide", kInvalid},
      {"fuse_norm", 0, kInvalid},
      {"norm_first", 1, kInvalid},
      {"hidden_act", "tanh", kUnimplemented},
      {"head_size", 16, kUnimplemented},
  };
  ExpectRefusals("rwkv7", refusals);
}

TEST(Rwkv7Test, LayerZeroGivesTheValuesThatOthersMixIn) {
  const json attn = {{"layers", {0}}, {"num_heads", 2}};
  const auto model = LoadGoldenWith("rwkv7", {{"attn", attn}});
  EXPECT_EQ(model.status().code(), kUnimplemented) << model.status();
  EXPECT_THAT(model.status().message(), HasSubstr("layer 0"));
}

TEST(Rwkv7Test, HeadsFollowFromTheShapesWhereTheConfigIsSilent) {
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
  const auto plain = LoadGoldenWith("rwkv7", json::object());
  const auto silent =
      LoadGoldenWith("rwkv7", {{"head_dim", nullptr}, {"num_heads", 2}});
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(silent.ok()) << silent.status();
  EXPECT_EQ(DirectSession(**silent).Feed(tokens),
            DirectSession(**plain).Feed(tokens));
}

}  // namespace
}  // namespace steadystate::rwkv7_test
