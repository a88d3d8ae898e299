// Goal: a feature map whose meaning changed between versions of the library is
// read as the version that wrote the checkpoint does, and the model says so.
// Method: golden weights with changed configs.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/mixers/mixers.h"
#include "tests/testing/golden_options.h"

namespace steadystate::linear_attn_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<float> LogitsWith(const char* map, const char* version) {
  return GoldenLogitsWith(
      "linear_attn-dpfp",
      {{"feature_map", map}, {"transformers_version", version}});
}

std::vector<std::string> ReadingsWith(const char* map, const char* version) {
  const auto model =
      LoadGoldenWith("linear_attn-dpfp",
                     {{"feature_map", map}, {"transformers_version", version}});
  EXPECT_TRUE(model.ok()) << model.status();
  return (*model)->description().readings;
}

TEST(LinearAttnTest, DpfpIsThatOfTheVersionWhichWroteTheFile) {
  const auto before = GoldenLogitsWith("linear_attn-dpfp");
  const auto since = LogitsWith("dpfp_paper", "4.57.6");
  EXPECT_EQ(LogitsWith("dpfp", "4.57.6"), before);
  EXPECT_EQ(LogitsWith("dpfp", "5.6.1"), before);
  EXPECT_EQ(LogitsWith("dpfp", "5.6.2"), since);
  EXPECT_EQ(LogitsWith("dpfp", "5.23.0"), since);
  EXPECT_NE(before, since);
}

TEST(LinearAttnTest, HowDpfpIsReadIsSaidOnce) {
  EXPECT_THAT(ReadingsWith("dpfp", "4.57.6"),
              ElementsAre(HasSubstr("[relu(x), -relu(x)], as")));
  EXPECT_THAT(ReadingsWith("dpfp", "5.23.0"),
              ElementsAre(HasSubstr("[relu(x), relu(-x)], as")));
  EXPECT_THAT(ReadingsWith("dpfp_paper", "5.23.0"), IsEmpty());
}

}  // namespace
}  // namespace steadystate::linear_attn_test
