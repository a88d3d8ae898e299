// Goal: options that Gated DeltaNet does not have are refused by name. Method:
// golden weights with changed configs.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/mixers/mixers.h"
#include "tests/testing/golden_options.h"

namespace steadystate {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

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

}  // namespace
}  // namespace steadystate
