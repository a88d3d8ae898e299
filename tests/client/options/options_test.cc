// Goal: options land in their targets, and what cannot be read is said in words
// that help. Method: small tables.
#include "client/options/options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::options_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class OptionsTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<std::string>> Parse(
      const std::vector<std::string>& arguments) {
    return ParseOptions(
        {{"json", "", "JSON.", &json_},
         {"name", "TEXT", "A name.", &name_},
         {.name = "max_tokens",
          .value = "N",
          .help = "A bound.",
          .target = &max_tokens_,
          .letter = 'n',
          .mistaken = "limit|at_most"},
         {"temperature", "X", "A temperature.", &temperature_, 't', "0 to 100"},
         {"verbose", "", "A switch.", &verbose_, 'v'},
         {"top_k", "K", "A cut.", &top_k_},
         {"stop", "TEXT", "A stop.", &stop_},
         {"timeout", "DURATION", "A limit.", &timeout_},
         {"even", "N", "Read by a function.",
          [this](absl::string_view text) -> absl::Status {
            if (text != "2") return absl::InvalidArgumentError("not even");
            even_ = true;
            return absl::OkStatus();
          }}},
        arguments);
  }

  std::string Error(const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).status().message());
  }

  bool json_ = false;
  bool verbose_ = true;
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

TEST_F(OptionsTest, NumbersThatAreTooLargeAreSaidToBe) {
  EXPECT_EQ(Error({"--top_k=5000000000"}),
            "--top_k: '5000000000' is more than 4294967295, the most");
  EXPECT_THAT(Error({"--max_tokens=18446744073709551616"}),
              HasSubstr("is more than 18446744073709551615"));
  EXPECT_THAT(Error({"--top_k=-1"}),
              HasSubstr("'-1' is not a whole number from 0 to 4294967295"));
}

TEST_F(OptionsTest, TextsThatBeginAsOptionsAreToldWhereToBe) {
  EXPECT_EQ(Error({"- a list"}),
            "'- a list' begins as an option does: a text that does comes after "
            "--, as in -- '- a list'");
  EXPECT_THAT(*Parse({"--", "- a list"}), ElementsAre("- a list"));
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

TEST_F(OptionsTest, LettersTakeValuesInEveryWay) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{
           {"-n", "3"}, {"-n3"}, {"-n=3"}, {"-max-tokens", "3"}}) {
    max_tokens_.reset();
    EXPECT_THAT(*Parse(arguments), IsEmpty());
    EXPECT_EQ(max_tokens_, 3u) << arguments[0];
  }
  ASSERT_TRUE(Parse({"-v=false"}).ok());
  EXPECT_FALSE(verbose_);
  ASSERT_TRUE(Parse({"-v"}).ok());
  EXPECT_TRUE(verbose_);
  EXPECT_EQ(Error({"-n"}), "-n needs a value: N");
  EXPECT_EQ(Error({"-q"}), "unknown option -q");
  EXPECT_EQ(Error({"--n=3"}), "unknown option --n");
  EXPECT_EQ(Error({"-vx"}), "unknown option -vx");
}

TEST_F(OptionsTest, SwitchesAreTurnedOffByNo) {
  for (const char* const off :
       {"--noverbose", "--no_verbose", "--no-verbose"}) {
    verbose_ = true;
    ASSERT_TRUE(Parse({off}).ok()) << off;
    EXPECT_FALSE(verbose_) << off;
  }
  EXPECT_THAT(Error({"--noname"}), HasSubstr("unknown option --noname"));
  EXPECT_THAT(Error({"--noverbose=true"}), HasSubstr("takes no value"));
}

TEST_F(OptionsTest, ErrorsTellTheUnitAndTheRange) {
  EXPECT_EQ(Error({"--timeout=10"}),
            "--timeout: '10' has no unit: ms, s, m or h, such as 10s");
  EXPECT_EQ(Error({"-t", "warm"}),
            "-t: 'warm' is not a number; it may be 0 to 100");
}

TEST_F(OptionsTest, UnknownOptionsNameTheClosest) {
  EXPECT_EQ(Error({"--max_token", "3"}),
            "unknown option --max_token, did you mean --max_tokens?");
  EXPECT_EQ(Error({"--temprature=1"}),
            "unknown option --temprature, did you mean --temperature?");
  EXPECT_EQ(Error({"--zzz"}), "unknown option --zzz");
  EXPECT_EQ(Error({"--at-most", "3"}),
            "unknown option --at-most, did you mean --max_tokens?");
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
  EXPECT_THAT(Error({"--timeout=soon"}), HasSubstr("such as 500ms"));
  EXPECT_THAT(Error({"--timeout=-1s"}), HasSubstr("above 0"));
  EXPECT_THAT(Error({"--json=maybe"}), HasSubstr("'maybe' is not true or"));
  EXPECT_EQ(Error({"--even=3"}), "--even: not even");
}

TEST(ClosestTest, IsQuietWhereNothingIsClose) {
  EXPECT_EQ(Closest("scor", {"generate", "score"}), "score");
  EXPECT_EQ(Closest("xylophone", {"generate", "score"}), "");
  EXPECT_EQ(Closest("x", {}), "");
}

}  // namespace
}  // namespace steadystate::client::options_test
