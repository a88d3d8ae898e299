// Goal: a config.json is read strictly: types, bounds, and keys that are known
// or not.
#include "server/checkpoint/config.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::config_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Config Parse(absl::string_view text) {
  auto config = Config::Parse(text, "config.json");
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

TEST(ConfigTest, AbsentAndNullTakeTheDefault) {
  const Config config = Parse(R"({"a": null})");
  EXPECT_FALSE(config.Has("a"));
  EXPECT_EQ(*config.Size("a", 7, {1, 9}), 7u);
  EXPECT_EQ(*config.Size("b", 7, {1, 9}), 7u);
  EXPECT_EQ(*config.Number("a", 0.5, {0, 1}), 0.5);
  EXPECT_EQ(*config.Bool("a", true), true);
  EXPECT_EQ(*config.String("a", "x"), "x");
  EXPECT_FALSE(config.OptionalSize("a", {1, 9})->has_value());
}

TEST(ConfigTest, WholeNumbersMayBeWrittenWithAPoint) {
  EXPECT_EQ(*Parse(R"({"a": 4.0})").Size("a", 1, {1, 9}), 4u);
}

TEST(ConfigTest, WrongTypesAndBoundsAreNamed) {
  for (const char* text :
       {R"({"a": 10})", R"({"a": 0})", R"({"a": -3})", R"({"a": 1.5})",
        R"({"a": "4"})", R"({"a": true})", R"({"a": 1e300})", R"({"a": NaN})",
        R"({"a": [1]})"}) {
    const auto size = Parse(text).Size("a", 1, {1, 9});
    EXPECT_EQ(size.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(size.status().message(),
                AllOf(HasSubstr("config.json: a is "), HasSubstr("[1, 9]")));
  }
  EXPECT_FALSE(Parse(R"({"a": "x"})").Number("a", 0, {0, 1}).ok());
  EXPECT_FALSE(Parse(R"({"a": Infinity})").Number("a", 0, {0, 1}).ok());
  EXPECT_FALSE(Parse(R"({"a": 1})").Bool("a", true).ok());
  EXPECT_FALSE(Parse(R"({"a": 1})").String("a", "").ok());
}

TEST(ConfigTest, ListsOfNumbersMayReachInfinity) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Bounds bounds = {0, kInfinity};
  for (const char* text : {R"({"a": [0.5, Infinity]})",
                           R"({"a": [0.5, {"__float__": "Infinity"}]})"}) {
    EXPECT_THAT(**Parse(text).NumberList("a", bounds, 2),
                ElementsAre(0.5, kInfinity));
  }
  EXPECT_FALSE(Parse("{}").NumberList("a", bounds, 2)->has_value());
  for (const char* text :
       {R"({"a": 1})", R"({"a": [1, 2, 3]})", R"({"a": [-1]})",
        R"({"a": [-Infinity]})", R"({"a": [NaN]})", R"({"a": ["1"]})",
        R"({"a": [{"__float__": 1}]})", R"({"a": [{"b": "Infinity"}]})"}) {
    const auto list = Parse(text).NumberList("a", bounds, 2);
    EXPECT_EQ(list.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(list.status().message(), HasSubstr("config.json: a is "));
  }
  EXPECT_FALSE(Parse(R"({"a": [Infinity]})").NumberList("a", {0, 1}, 2).ok());
}

TEST(ConfigTest, AListMayBeOneNumberOrNull) {
  const Bounds bounds = {0, 9};
  EXPECT_THAT(**Parse(R"({"a": 3})").SizeList("a", bounds, 2), ElementsAre(3));
  EXPECT_THAT(**Parse(R"({"a": [3, 4]})").SizeList("a", bounds, 2),
              ElementsAre(3, 4));
  EXPECT_THAT(**Parse(R"({"a": null})").SizeList("a", bounds, 2), IsEmpty());
  EXPECT_FALSE(Parse("{}").SizeList("a", bounds, 2)->has_value());
  EXPECT_FALSE(Parse(R"({"a": [1, 2, 3]})").SizeList("a", bounds, 2).ok());
  EXPECT_FALSE(Parse(R"({"a": [10]})").SizeList("a", bounds, 2).ok());
  const Bounds signs = {-1, 9};
  EXPECT_THAT(**Parse(R"({"a": [-1, 9]})").WholeNumberList("a", signs, 2),
              ElementsAre(-1, 9));
  EXPECT_THAT(**Parse(R"({"a": -1})").WholeNumberList("a", signs, 2),
              ElementsAre(-1));
  EXPECT_FALSE(Parse(R"({"a": -2})").WholeNumberList("a", signs, 2).ok());
}

TEST(ConfigTest, ActivationsAreFoundByName) {
  EXPECT_EQ(*Parse("{}").ActivationOf("act", "swish"), Activation::kSilu);
  const auto unknown = Parse(R"({"act": "tanhish"})").ActivationOf("act", "");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(unknown.status().message(),
              AllOf(HasSubstr("act"), HasSubstr("tanhish")));
}

TEST(ConfigTest, NestedObjectsAreNamedWithTheirPath) {
  const Config config = Parse(R"({"attn": [{"n": 1}, {"n": 99}]})");
  const auto objects = config.Objects("attn", 2);
  ASSERT_TRUE(objects.ok());
  ASSERT_EQ(objects->size(), 2u);
  EXPECT_EQ(*(*objects)[0].Size("n", 0, {0, 9}), 1u);
  EXPECT_THAT((*objects)[1].Size("n", 0, {0, 9}).status().message(),
              HasSubstr("attn[1].n is 99"));
  EXPECT_EQ(Parse(R"({"attn": {"n": 1}})").Objects("attn", 2)->size(), 1u);
  EXPECT_TRUE(Parse("{}").Objects("attn", 2)->empty());
  EXPECT_FALSE(Parse(R"({"attn": 5})").Objects("attn", 2).ok());
  EXPECT_FALSE(Parse(R"({"attn": [5]})").Objects("attn", 2).ok());
}

constexpr absl::string_view kUsed[] = {"used"};
constexpr absl::string_view kInert[] = {"inert"};
constexpr FixedKey kFixed[] = {{"fixed", "16"}, {"nothing", "null"}};
constexpr KeyTable kTable = {
    .used = kUsed, .inert = kInert, .must_be_default = kFixed};

TEST(ConfigTest, AnInnerConfigInheritsWhatItLacks) {
  const Config outer = Parse(
      R"({"text_config": {"a": 1, "b": null, "tied": false}, "a": 2, "b": 3,
          "tied": true, "other": 4})");
  constexpr absl::string_view kInherited[] = {"a", "b", "c"};
  constexpr absl::string_view kRuling[] = {"tied", "absent"};
  const auto inner = outer.Inner("text_config", kInherited, kRuling);
  ASSERT_TRUE(inner.ok()) << inner.status();
  EXPECT_EQ(*inner->Size("a", 0, {0, 9}), 1u);
  EXPECT_EQ(*inner->Size("b", 0, {0, 9}), 3u);
  EXPECT_TRUE(*inner->Bool("tied", false));
  EXPECT_FALSE(inner->Has("other"));
  EXPECT_FALSE(inner->IsNull("c"));
  EXPECT_FALSE(inner->IsNull("absent"));
  EXPECT_THAT(inner->Size("a", 0, {5, 9}).status().message(),
              HasSubstr("text_config.a is 1"));
  EXPECT_EQ(Parse(R"({"t": 1})").Inner("t", {}, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ConfigTest, AListOfNamesHasNothingElse) {
  const Config config = Parse(R"({"a": ["x", "y"], "b": ["x", 1], "c": "x"})");
  EXPECT_THAT(**config.StringList("a", 2), ElementsAre("x", "y"));
  EXPECT_FALSE(config.StringList("absent", 2)->has_value());
  EXPECT_FALSE(config.StringList("a", 1).ok());
  EXPECT_FALSE(config.StringList("b", 2).ok());
  EXPECT_FALSE(config.StringList("c", 2).ok());
}

TEST(ConfigTest, KeysThatMustBeDefaultMayBe) {
  for (const char* text : {"{}", R"({"fixed": 16})", R"({"fixed": null})",
                           R"({"nothing": null})"}) {
    EXPECT_TRUE(Parse(text).CheckFixedKeys(kTable).ok());
  }
  for (const char* text : {R"({"fixed": 8})", R"({"nothing": 0})"}) {
    const absl::Status status = Parse(text).CheckFixedKeys(kTable);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  }
  EXPECT_THAT(Parse(R"({"fixed": 8})").CheckFixedKeys(kTable).message(),
              HasSubstr("fixed is 8: only 16 is supported"));
}

TEST(ConfigTest, TablesRefuseWhatIsFixedAndWarnOfWhatIsUnknown) {
  std::vector<std::string> warnings;
  EXPECT_EQ(Parse(R"({"fixed": 8, "new": 1})")
                .CheckKeys({&kTable, 1}, warnings)
                .code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(Parse(R"({"fixed": 16, "used": 1, "new": 1})")
                  .CheckKeys({&kTable, 1}, warnings)
                  .ok());
  EXPECT_EQ(warnings, std::vector<std::string>{"unknown config key 'new'"});
}

TEST(ConfigTest, UnknownKeysAreListed) {
  const KeyTable tables[] = {kTable};
  EXPECT_THAT(Parse(R"({"used": 1, "inert": 2, "fixed": 16, "new": 3})")
                  .UnknownKeys(tables),
              ElementsAre("new"));
}

TEST(ConfigTest, OnlyObjectsAreConfigs) {
  EXPECT_FALSE(Config::Parse("[1]", "config.json").ok());
  EXPECT_FALSE(Config::Parse("{", "config.json").ok());
  EXPECT_FALSE(Config::Parse(R"({"a": 1, "a": 2})", "config.json").ok());
}

// Goal: versions are read as Python's packages write them and compare as they
// came out. Method: pairs in order; texts that are no versions.

Config ConfigWith(const std::string& version) {
  return *Config::Parse(
      absl::StrCat(R"({"transformers_version": )", version, "}"),
      "config.json");
}

TEST(LibraryVersionTest, VersionsCompareAsTheyCameOut) {
  const char* const in_order[] = {
      "4.9.0",  "4.39.0.dev0", "4.39",       "4.39.3",    "4.57.6",
      "5.0rc1", "5.0.0",       "5.6.2.dev0", "5.6.2",     "5.6.10",
      "5.23.0", "5.23.1.1",    "10.0",       "10.0.1+cpu"};
  for (size_t i = 1; i < std::size(in_order); ++i) {
    const auto before = ParseLibraryVersion(in_order[i - 1]);
    const auto after = ParseLibraryVersion(in_order[i]);
    ASSERT_TRUE(before.has_value() && after.has_value()) << in_order[i];
    EXPECT_LT(*before, *after) << in_order[i];
  }
  EXPECT_EQ(ParseLibraryVersion("4.39.0"), ParseLibraryVersion("4.39"));
  EXPECT_EQ(ParseLibraryVersion("5.1.0.post1"), ParseLibraryVersion("5.1.0"));
}

TEST(LibraryVersionTest, WhatIsNoVersionIsNone) {
  for (const char* text : {"", "5", "new", "v4.2", ".4", "4.", "-4.2",
                           "99999999999.1", "4.99999999999"}) {
    EXPECT_FALSE(ParseLibraryVersion(text).has_value()) << text;
  }
  EXPECT_FALSE(ParseLibraryVersion("4." + std::string(100, '1')).has_value());
}

TEST(LibraryVersionTest, AConfigNeedNotSay) {
  EXPECT_FALSE(TransformersVersion(*Config::Parse("{}", "config.json")));
  for (const char* value : {"null", "4.57", "\"main\"", "[4, 57]"}) {
    EXPECT_FALSE(TransformersVersion(ConfigWith(value)).has_value()) << value;
  }
  const auto version = TransformersVersion(ConfigWith(R"("4.57.6")"));
  ASSERT_TRUE(version.has_value());
  EXPECT_EQ(version->minor, 57u);
}

TEST(LibraryVersionTest, ANewerFlaNeedsANewerTransformers) {
  EXPECT_TRUE(IsBeforeFla06(*Config::Parse("{}", "config.json")));
  EXPECT_TRUE(IsBeforeFla06(ConfigWith(R"("5.6.1")")));
  EXPECT_FALSE(IsBeforeFla06(ConfigWith(R"("5.6.2")")));
}

TEST(LibraryVersionTest, AReadingSaysWhyAndWhatElseThereIs) {
  EXPECT_EQ(ReadingOf(ConfigWith(R"("4.57.6")"), "x is y", "5.6.2", "z"),
            "x is y, for transformers_version is 4.57.6; with "
            "--transformers_version=5.6.2: z");
  EXPECT_THAT(ReadingOf(ConfigWith("7"), "x is y", "5.6.2", "z"),
              HasSubstr("transformers_version is not known"));
}

}  // namespace
}  // namespace steadystate::config_test
