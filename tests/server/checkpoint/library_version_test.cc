// Goal: versions are read as Python's packages write them and compare as they
// came out. Method: pairs in order; texts that are no versions.
#include "server/checkpoint/library_version.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate {
namespace {

using testing::HasSubstr;

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
}  // namespace steadystate
