// Goal: HGRN-2 finds its heads by the library's rule and refuses bad values by
// name. Method: golden weights with changed configs.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/mixers/mixers.h"
#include "tests/testing/golden_options.h"

namespace steadystate::hgrn_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Two layers of 64 channels, expand_ratio 16.
std::vector<float> LogitsWith(const json& changes = json::object()) {
  return GoldenLogitsWith("hgrn2", changes);
}

TEST(Hgrn2Test, NumHeadsCountsOnlyWithoutAnExpandRatio) {
  const auto logits = LogitsWith();
  EXPECT_EQ(LogitsWith({{"num_heads", 2}}), logits);
  EXPECT_EQ(LogitsWith({{"num_heads", 4}, {"expand_ratio", nullptr}}), logits);
  EXPECT_NE(LogitsWith({{"num_heads", 2}, {"expand_ratio", nullptr}}), logits);
}

TEST(Hgrn2Test, LowerBoundsAreLeftOverWhereTheyAreNotUsed) {
  const auto model = LoadGoldenWith("hgrn2", {{"use_lower_bound", false}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->description().warnings,
              testing::ElementsAre(HasSubstr("model.lower_bounds")));
}

TEST(Hgrn2Test, BadValuesAreRefusedByName) {
  const std::vector<std::pair<std::string, json>> bad = {
      {"expand_ratio", 0},
      {"expand_ratio", 48},
      {"expand_ratio", 128},
      {"expand_ratio", "wide"},
      {"expand_ratio", nullptr},  // and no num_heads either
      {"num_heads", 0},
      {"use_short_conv", "no"},
      {"conv_size", 0},
      {"use_lower_bound", 1},
      {"elementwise_affine", "no"},
  };
  for (const auto& [key, value] : bad) {
    const std::string named = value.is_null() ? "num_heads" : std::string(key);
    const auto model = LoadGoldenWith("hgrn2", {{key, value}});
    EXPECT_FALSE(model.ok());
    EXPECT_THAT(model.status().message(),
                HasSubstr(absl::StrCat(named, " is ")))
        << value;
  }
}

TEST(Hgrn2Test, BoundsAreNeededUnlessSwitchedOff) {
  const auto model =
      LoadGoldenWith("hgrn2-no-bounds", {{"use_lower_bound", nullptr}});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(model.status().message(), HasSubstr("model.lower_bounds"));
}

}  // namespace
}  // namespace steadystate::hgrn_test
