// Goal: options that RWKV-6 does not have are refused by name. Method: golden
// weights with changed configs.
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/mixers/mixers.h"
#include "tests/testing/direct_session.h"
#include "tests/testing/golden_options.h"

namespace steadystate::rwkv6_test {
namespace {

using nlohmann::json;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

TEST(Rwkv6Test, BadValuesAreRefusedByName) {
  const Refusal refusals[] = {
      {"num_heads", 0, kInvalid},
      {"num_heads", 3, kInvalid},
      {"expand_k", 0, kInvalid},
      {"expand_v", 0.01, kInvalid},
      {"norm_first", 1, kInvalid},
      {"norm_bias", "no", kInvalid},
      {"hidden_ratio", 0, kInvalid},
      {"hidden_act", "tanh", kUnimplemented},
      {"intermediate_size", -32, kInvalid},
  };
  ExpectRefusals("rwkv6", refusals);
}

TEST(Rwkv6Test, RanksFollowFromTheShapes) {
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6};
  const auto plain = LoadGoldenWith("rwkv6", json::object());
  const auto silent = LoadGoldenWith("rwkv6", {{"proj_low_rank_dim", nullptr},
                                               {"gate_low_rank_dim", nullptr}});
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(silent.ok()) << silent.status();
  EXPECT_EQ(DirectSession(**silent).Feed(tokens),
            DirectSession(**plain).Feed(tokens));
}

}  // namespace
}  // namespace steadystate::rwkv6_test
