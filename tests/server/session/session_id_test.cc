// Goal: what names a session and what is attached to it stays within its
// bounds. Method: values at and beyond each bound.
#include "server/session/session_id.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/error.h"

namespace steadystate::session_id_test {
namespace {

bool HasReason(const absl::Status& status, ErrorReason reason) {
  const auto details = GetErrorDetails(status);
  return details.has_value() && details->reason == reason;
}

TEST(SessionIdTest, AcceptsWhatTheRuleSays) {
  for (const std::string& id :
       {std::string("a"), std::string("0"), std::string("a-b-9"),
        std::string("a-"), std::string(63, 'z')}) {
    EXPECT_TRUE(ValidateSessionId(id).ok()) << id;
  }
}

TEST(SessionIdTest, RefusesEverythingElse) {
  for (const std::string& id :
       {std::string(), std::string("-a"), std::string("A"), std::string("a_b"),
        std::string("a b"), std::string("a/b"), std::string("a\0b", 3),
        std::string("\xc3\xa9"), std::string(64, 'z')}) {
    EXPECT_TRUE(HasReason(ValidateSessionId(id), ErrorReason::kInvalidArgument))
        << id;
  }
}

TEST(SessionIdTest, RefusalsShowForeignTextHarmlesslyAndInPart) {
  const absl::Status status = ValidateSessionId(std::string(100000, '\n'));
  EXPECT_LT(status.message().size(), 1000u);
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
}

TEST(SessionIdTest, MadeIdsAreValidAndDistinct) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = NewSessionId();
    EXPECT_EQ(id.size(), 26u);
    EXPECT_TRUE(IsSessionId(id)) << id;
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 1000u);
}

TEST(SessionIdTest, TtlHasBounds) {
  EXPECT_TRUE(ValidateSessionTtl(kMinSessionTtl).ok());
  EXPECT_TRUE(ValidateSessionTtl(kMaxSessionTtl).ok());
  for (const absl::Duration ttl :
       {kMinSessionTtl - absl::Nanoseconds(1),
        kMaxSessionTtl + absl::Nanoseconds(1), absl::ZeroDuration(),
        -absl::Hours(1), absl::InfiniteDuration()}) {
    EXPECT_TRUE(
        HasReason(ValidateSessionTtl(ttl), ErrorReason::kInvalidArgument))
        << ttl;
  }
}

TEST(SessionIdTest, LabelsHaveBounds) {
  std::map<std::string, std::string> labels = {
      {"a", ""},
      {"user.name_1-x", "Jo Doe (home)"},
      {std::string(kMaxLabelBytes, 'k'), std::string(kMaxLabelBytes, '~')}};
  EXPECT_TRUE(ValidateLabels(labels).ok());
  while (labels.size() < kMaxLabels) {
    labels.emplace(absl::StrCat("k", labels.size()), "v");
  }
  EXPECT_TRUE(ValidateLabels(labels).ok());
  labels.emplace("one-more", "v");
  EXPECT_TRUE(HasReason(ValidateLabels(labels), ErrorReason::kInvalidArgument));
}

TEST(SessionIdTest, LabelsOutOfBoundsAreRefused) {
  using Labels = std::map<std::string, std::string>;
  for (const Labels& labels :
       {Labels{{"", "v"}}, Labels{{"1a", "v"}}, Labels{{"A", "v"}},
        Labels{{std::string(kMaxLabelBytes + 1, 'k'), "v"}},
        Labels{{"k", std::string(kMaxLabelBytes + 1, 'v')}},
        Labels{{"k", "a\nb"}}, Labels{{"k", "\xc3\xa9"}}}) {
    EXPECT_TRUE(
        HasReason(ValidateLabels(labels), ErrorReason::kInvalidArgument))
        << labels.begin()->first;
  }
}

TEST(SessionIdTest, PageTokensComeBackAndNothingElseDoes) {
  const std::string token = MakePageToken("a-9");
  EXPECT_EQ(*ParsePageToken(token), "a-9");
  const std::string longest = MakePageToken(std::string(63, 'z'));
  EXPECT_LT(longest.size(), kMaxPageTokenBytes);
  EXPECT_EQ(*ParsePageToken(longest), std::string(63, 'z'));
  for (const std::string& wrong :
       {std::string("x"), absl::StrCat(token, "="), absl::StrCat(token, token),
        std::string("a-9"), MakePageToken("NOT AN ID"), MakePageToken(""),
        std::string(100000, 'A')}) {
    EXPECT_TRUE(HasReason(ParsePageToken(wrong).status(),
                          ErrorReason::kInvalidPageToken))
        << wrong;
  }
}

TEST(SessionIdTest, PatternsMatchAllOfAnId) {
  for (const auto& [pattern, id] :
       std::vector<std::pair<const char*, const char*>>{{"a", "a"},
                                                        {"*", ""},
                                                        {"*", "abc"},
                                                        {"a*", "abc"},
                                                        {"*c", "abc"},
                                                        {"a*c", "ac"},
                                                        {"?b?", "abc"},
                                                        {"*b*", "abc"},
                                                        {"**", "x"},
                                                        {"a*b*c", "a1b2b3c"},
                                                        {"*ab", "aab"}}) {
    EXPECT_TRUE(MatchesPattern(pattern, id)) << pattern << " " << id;
  }
  for (const auto& [pattern, id] :
       std::vector<std::pair<const char*, const char*>>{{"a", "b"},
                                                        {"a", "ab"},
                                                        {"ab", "a"},
                                                        {"?", ""},
                                                        {"?", "ab"},
                                                        {"a*c", "acb"},
                                                        {"*b", "abc"},
                                                        {"", "a"},
                                                        {"a*b*c", "a1c2b"}}) {
    EXPECT_FALSE(MatchesPattern(pattern, id)) << pattern << " " << id;
  }
  // Takes no time to speak of, whatever the pattern.
  std::string stars;
  while (stars.size() < kMaxPatternBytes) stars += "*a";
  EXPECT_FALSE(MatchesPattern(stars, std::string(63, 'a') + "b"));
}

TEST(SessionIdTest, IdsOfSessionsThatAreMadeTogetherAreValidAndDistinct) {
  using Ids = std::vector<std::string>;
  EXPECT_TRUE(ValidateSessionIds(Ids{}).ok());
  EXPECT_TRUE(ValidateSessionIds(Ids{"b", "a", "ab"}).ok());
  const auto field = [](const Ids& ids) {
    return GetErrorDetails(ValidateSessionIds(ids))->metadata.front().second;
  };
  EXPECT_EQ(field({"a", "not an id"}), "session_ids");
  EXPECT_EQ(field({"a", "b", "a"}), "session_ids");
}

}  // namespace
}  // namespace steadystate::session_id_test
