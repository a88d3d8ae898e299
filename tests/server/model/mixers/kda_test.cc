// Goal: options that Kimi delta attention does not have are refused by name.
// Method: golden weights with changed configs.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/mixers/mixers.h"
#include "tests/testing/golden_options.h"

namespace steadystate {
namespace {

using testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

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
}  // namespace steadystate
