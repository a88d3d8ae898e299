// Goal: options land in their targets, and what cannot be read is said in words
// that help. Method: small tables.
#include "client/cli/options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class OptionsTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<std::string>> Parse(
      const std::vector<std::string>& arguments) {
    return ParseOptions({{"json", "", "JSON.", &json_},
                         {"name", "TEXT", "A name.", &name_},
                         {"max_tokens", "N", "A bound.", &max_tokens_},
                         {"temperature", "X", "A temperature.", &temperature_},
                         {"top_k", "K", "A cut.", &top_k_},
                         {"stop", "TEXT", "A stop.", &stop_},
                         {"timeout", "DURATION", "A limit.", &timeout_},
                         {"even", "N", "Read by a function.",
                          [this](absl::string_view text) -> absl::Status {
                            if (text != "2")
                              return absl::InvalidArgumentError("not even");
                            even_ = true;
                            return absl::OkStatus();
                          }}},
                        arguments);
  }

  std::string Error(const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).status().message());
  }

  bool json_ = false;
  std::optional<std::string> name_;
  std::optional<uint64_t> max_tokens_;
  std::optional<double> temperature_;
  std::optional<uint32_t> top_k_;
  std::vector<std::string> stop_;
  absl::Duration timeout_ = absl::Seconds(7);
  bool even_ = false;
};

TEST_F(OptionsTest, ValuesFollowOrAreJoinedByAnEqualsSign) {
  EXPECT_THAT(*Parse({"--name", "a b", "--max_tokens=12", "--timeout=250ms",
                      "--even", "2"}),
              IsEmpty());
  EXPECT_EQ(name_, "a b");
  EXPECT_EQ(max_tokens_, 12u);
  EXPECT_EQ(timeout_, absl::Milliseconds(250));
  EXPECT_TRUE(even_);
}

TEST_F(OptionsTest, WhatIsNotGivenStaysAbsentAndZeroIsAValue) {
  ASSERT_TRUE(Parse({"--top_k=0", "--temperature", "0"}).ok());
  EXPECT_EQ(top_k_, 0u);
  EXPECT_EQ(temperature_, 0.0);
  EXPECT_FALSE(max_tokens_.has_value());
  EXPECT_FALSE(name_.has_value());
  EXPECT_EQ(timeout_, absl::Seconds(7));
}

TEST_F(OptionsTest, AnEmptyValueIsAValue) {
  ASSERT_TRUE(Parse({"--name="}).ok());
  EXPECT_EQ(name_, "");
}

TEST_F(OptionsTest, AValueMayLookLikeAnOption) {
  ASSERT_TRUE(Parse({"--name", "--json"}).ok());
  EXPECT_EQ(name_, "--json");
  EXPECT_FALSE(json_);
}

TEST_F(OptionsTest, SwitchesTakeNoValueButMayHaveOne) {
  EXPECT_THAT(*Parse({"--json", "true"}), ElementsAre("true"));
  EXPECT_TRUE(json_);
  ASSERT_TRUE(Parse({"--json=false"}).ok());
  EXPECT_FALSE(json_);
}

TEST_F(OptionsTest, RepeatedOptionsCollectOrTheLastOneCounts) {
  ASSERT_TRUE(Parse({"--stop", "a", "--name=x", "--stop=b", "--name=y"}).ok());
  EXPECT_THAT(stop_, ElementsAre("a", "b"));
  EXPECT_EQ(name_, "y");
}

TEST_F(OptionsTest, OtherArgumentsKeepTheirOrder) {
  EXPECT_THAT(*Parse({"one", "--json", "-", "--", "--name", "two"}),
              ElementsAre("one", "-", "--name", "two"));
}

TEST_F(OptionsTest, DashAndUnderscoreAreTheSameInNames) {
  ASSERT_TRUE(Parse({"--max-tokens", "3"}).ok());
  EXPECT_EQ(max_tokens_, 3u);
}

TEST_F(OptionsTest, UnknownOptionsNameTheClosest) {
  EXPECT_EQ(Error({"--max_token", "3"}),
            "unknown option --max_token, did you mean --max_tokens?");
  EXPECT_EQ(Error({"--temprature=1"}),
            "unknown option --temprature, did you mean --temperature?");
  EXPECT_EQ(Error({"--zzz"}), "unknown option --zzz");
}

TEST_F(OptionsTest, MissingValuesAreNamed) {
  EXPECT_EQ(Error({"--max_tokens"}), "--max_tokens needs a value: N");
}

TEST_F(OptionsTest, ValuesThatCannotBeReadAreQuoted) {
  EXPECT_THAT(Error({"--max_tokens", "-1"}), HasSubstr("'-1' is not a whole"));
  EXPECT_THAT(Error({"--max_tokens=1.5"}), HasSubstr("'1.5' is not a whole"));
  EXPECT_THAT(Error({"--top_k=4294967296"}), HasSubstr("4294967295"));
  EXPECT_THAT(Error({"--temperature=warm"}), HasSubstr("'warm' is not a num"));
  EXPECT_THAT(Error({"--temperature="}), HasSubstr("'' is not a number"));
  EXPECT_THAT(Error({"--timeout=10"}), HasSubstr("such as 500ms"));
  EXPECT_THAT(Error({"--timeout=-1s"}), HasSubstr("above 0"));
  EXPECT_THAT(Error({"--json=maybe"}), HasSubstr("'maybe' is not true or"));
  EXPECT_EQ(Error({"--even=3"}), "--even: not even");
}

TEST(FormatOptionsTest, WrapsHelpAndLeavesSwitchesWithoutValue) {
  bool on = false;
  std::string text;
  const std::string wide(70, 'x');
  const std::string help = "A file " + wide;
  EXPECT_EQ(FormatOptions({{"switch", "", "Turns it on.", &on},
                           {"file", "FILE", help, &text}}),
            "  --switch\n      Turns it on.\n  --file FILE\n      A file\n" +
                std::string(6, ' ') + wide + "\n");
}

TEST(ClosestTest, IsQuietWhereNothingIsClose) {
  EXPECT_EQ(Closest("scor", {"generate", "score"}), "score");
  EXPECT_EQ(Closest("xylophone", {"generate", "score"}), "");
  EXPECT_EQ(Closest("x", {}), "");
}

}  // namespace
}  // namespace steadystate::client
