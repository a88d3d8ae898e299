// Goal: what other tools put before a text is told, and nothing else of a
// post-processor. Method: the files of tests/data/tokenizers, where the library
// `tokenizers` says the same, and small descriptions by hand.
#include "server/text/post_processor.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/text/tokenizer_factory.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::post_processor_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kVocabSize = 2000;

std::vector<int32_t> PrefixOfKind(absl::string_view kind) {
  const std::string text =
      ReadWholeFile(absl::StrCat(STEADYSTATE_SOURCE_DIR, "/tests/data/",
                                 "tokenizers/", kind, "/tokenizer.json"));
  std::vector<std::string> warnings;
  const auto tokenizer = MakeJsonTokenizer(text, kind, kVocabSize, warnings);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(warnings, IsEmpty());
  const auto prefix = (*tokenizer)->text_prefix();
  return {prefix.begin(), prefix.end()};
}

TEST(PostProcessorTest, TokensBeforeATextAreTold) {
  EXPECT_THAT(PrefixOfKind("lfm2"), ElementsAre(1001));
  EXPECT_THAT(PrefixOfKind("nemotron"), ElementsAre(1001));
  for (const char* kind : {"qwen2", "gpt2", "granite", "llama"}) {
    EXPECT_THAT(PrefixOfKind(kind), IsEmpty()) << kind;
  }
}

// A token may stand for several; one after the text is not before it.
json Template() {
  return json::parse(R"({
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
               {"SpecialToken": {"id": "[X]", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "</s>", "type_id": 0}}],
    "pair": [],
    "special_tokens": {
      "<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]},
      "[X]": {"id": "[X]", "ids": [7, 8], "tokens": ["a", "b"]},
      "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}})");
}

TEST(PostProcessorTest, EachStepGoesAroundTheOneBefore) {
  EXPECT_THAT(TextPrefixOf(Template(), 10).value(), ElementsAre(1, 7, 8));
  json outer = Template();
  outer["single"] = {{{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}},
                     {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}};
  const json both = {{"type", "Sequence"},
                     {"processors", {{{"type", "ByteLevel"}}, Template()}}};
  EXPECT_THAT(TextPrefixOf(both, 10).value(), ElementsAre(1, 7, 8));
  json three = both;
  three["processors"].push_back(outer);
  EXPECT_THAT(TextPrefixOf(three, 10).value(), ElementsAre(2, 1, 7, 8));
}

TEST(PostProcessorTest, OtherKindsPutNothingThere) {
  EXPECT_THAT(TextPrefixOf(nullptr, 10).value(), IsEmpty());
  EXPECT_THAT(TextPrefixOf({{"type", "BertProcessing"}}, 10).value(),
              IsEmpty());
}

TEST(PostProcessorTest, MalformedTemplatesAreRefused) {
  const struct {
    const char* pointer;
    const char* value;
    const char* reason;
  } kCases[] = {
      {"/type", "7", "'type' is"},
      {"/single", "null", "'single' is missing"},
      {"/single", "\"<s> $A\"", "'single' is"},
      {"/single/0/SpecialToken", "{}", "'id' is missing"},
      {"/special_tokens", "{}", "'<s>' of the template has no list"},
      {"/special_tokens", "[]", "'<s>' of the template has no list"},
      {"/special_tokens/<s>/ids", "1", "'<s>' of the template has no list"},
      {"/special_tokens/<s>/ids", "[10]", "not an integer in [0, 10)"},
      {"/special_tokens/<s>/ids", "[-1]", "not an integer in [0, 10)"},
      {"/special_tokens/<s>/ids", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
       "or too many"},
  };
  for (const auto& test : kCases) {
    json description = Template();
    description[json::json_pointer(test.pointer)] = json::parse(test.value);
    const auto prefix = TextPrefixOf(description, 10);
    EXPECT_EQ(prefix.status().code(), absl::StatusCode::kInvalidArgument)
        << test.pointer << " = " << test.value;
    EXPECT_THAT(std::string(prefix.status().message()), HasSubstr(test.reason));
  }
}

}  // namespace
}  // namespace steadystate::post_processor_test
