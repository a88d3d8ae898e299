#include "server/base/json.h"

#include <sys/resource.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace steadystate::json_test {
namespace {

using testing::HasSubstr;

std::string Refusal(absl::string_view text, const JsonLimits& limits = {}) {
  const auto value = ParseJson(text, "test.json", limits);
  EXPECT_FALSE(value.ok()) << std::string(text);
  EXPECT_EQ(value.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(value.status().message());
}

std::string Repeated(absl::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) absl::StrAppend(&all, text);
  return all;
}

TEST(ParseJsonTest, ReadsValues) {
  const auto value =
      ParseJson(R"({"a": [1, -2, 2.5, null, true], "b": {"a": "x\"y"}})", "t");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)["a"][2], 2.5);
  EXPECT_EQ((*value)["b"]["a"], "x\"y");
}

TEST(ParseJsonTest, ReadsWhatPythonWritesForInfinity) {
  const auto value = ParseJson(
      R"({"limit": [0.0, Infinity], "low": -Infinity,
                "text": "Infinity, NaN"})",
      "t");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)["limit"][1], "Infinity");
  EXPECT_EQ((*value)["low"], "-Infinity");
  EXPECT_EQ((*value)["text"], "Infinity, NaN");
}

TEST(ParseJsonTest, RefusesDuplicateKeysOfOneObject) {
  EXPECT_THAT(Refusal(R"({"a": 1, "b": {"a": 2, "a": 3}})"),
              HasSubstr("key 'a' occurs twice"));
  EXPECT_TRUE(ParseJson(R"({"a": {"a": 1}, "b": {"a": 2}})", "t").ok());
}

TEST(ParseJsonTest, RefusesMalformedText) {
  for (const char* text : {"", "{", "{\"a\" 1}", "[1,]", "{} {}", "nul",
                           "{\"a\": Infinityx}", "\"\xff\""}) {
    EXPECT_THAT(Refusal(text), HasSubstr("test.json"));
  }
}

TEST(ParseJsonTest, BoundsDepthSizeAndCount) {
  JsonLimits limits;
  limits.max_depth = 3;
  EXPECT_TRUE(ParseJson("[[[1]]]", "t", limits).ok());
  EXPECT_THAT(Refusal("[[[[1]]]]", limits), HasSubstr("deeper than 3"));
  limits.max_values = 4;
  EXPECT_THAT(Refusal("[1,2,3,4]", limits), HasSubstr("more than 4 values"));
  limits.max_bytes = 2;
  EXPECT_THAT(Refusal("[ ]", limits), HasSubstr("3 bytes"));
  EXPECT_THAT(Refusal(std::string(100'000, '[')), HasSubstr("deeper"));
}

TEST(ParseJsonTest, BoundsMemory) {
  JsonLimits limits;
  limits.max_memory = 4096;
  EXPECT_TRUE(ParseJson("[{\"a\": [1, 2]}, \"b\"]", "t", limits).ok());
  const std::string text(5000, 'x');
  for (const std::string& large :
       {absl::StrCat("[\"", text, "\"]"), absl::StrCat("{\"", text, "\": 1}"),
        absl::StrCat("[", Repeated("1,", 200), "1]"),
        absl::StrCat("[", Repeated("{},", 50), "1]"),
        absl::StrCat("[", Repeated("\"\",", 100), "1]"),
        absl::StrCat("[", Repeated("[],", 50), "1]")}) {
    EXPECT_THAT(Refusal(large, limits), HasSubstr("more than 4096 bytes"));
  }
}

// Kilobytes of this process, the most so far.
int64_t PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(ParseJsonTest, TakesNoMemoryForWhatIsBeyondTheLimits) {
  const std::string text(16 << 20, '[');
  const int64_t before = PeakMemory();
  EXPECT_THAT(Refusal(text), HasSubstr("deeper"));
  EXPECT_LT(PeakMemory() - before, 64 << 10);
}

// For ten minutes, if time were quadratic in the number of objects.
TEST(ParseJsonTest, ReadsArraysOfManyObjects) {
  const auto value =
      ParseJson(absl::StrCat("[", Repeated("{\"a\":1},", 500'000), "{}]"), "t");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->size(), 500'001u);
}

}  // namespace
}  // namespace steadystate::json_test
