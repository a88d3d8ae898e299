#include "server/base/error.h"

#include <limits>
#include <map>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace steadystate::error_test {
namespace {

TEST(ErrorTest, DetailsComeBackAsTheyWereGiven) {
  const ErrorMetadata metadata = {
      {"position", "9"}, {"expected_position", "7"}, {"odd", "a:b\n12:\0x"}};
  const absl::Status status =
      MakeError(ErrorReason::kPositionMismatch, "the session is at 9", metadata,
                absl::Milliseconds(250));
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(), "the session is at 9");
  const auto details = GetErrorDetails(status);
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->reason, ErrorReason::kPositionMismatch);
  EXPECT_EQ(details->metadata, metadata);
  EXPECT_EQ(details->retry_after, absl::Milliseconds(250));
}

TEST(ErrorTest, RetryIsAbsentUnlessGiven) {
  const auto details =
      GetErrorDetails(MakeError(ErrorReason::kSessionNotFound, "no"));
  ASSERT_TRUE(details.has_value());
  EXPECT_FALSE(details->retry_after.has_value());
  EXPECT_TRUE(details->metadata.empty());
}

TEST(ErrorTest, OtherStatusesHaveNoDetails) {
  EXPECT_FALSE(GetErrorDetails(absl::OkStatus()).has_value());
  EXPECT_FALSE(GetErrorDetails(absl::InternalError("x")).has_value());
}

TEST(ErrorTest, EveryReasonHasANameOfItsOwnAndACode) {
  std::set<std::string> names;
  for (ErrorReason reason : AllErrorReasons()) {
    EXPECT_TRUE(names.insert(std::string(Name(reason))).second);
    EXPECT_NE(Code(reason), absl::StatusCode::kOk);
    for (char c : Name(reason)) EXPECT_TRUE((c >= 'A' && c <= 'Z') || c == '_');
  }
}

// Goal: an error about a field says which, what it is and what it must be, and
// says so under the name that the reader knows. Method: texts and metadata.

using Metadata = std::map<std::string, std::string>;

Metadata MetadataOf(const absl::Status& status) {
  const auto details = GetErrorDetails(status);
  if (!details.has_value()) return {};
  return {details->metadata.begin(), details->metadata.end()};
}

TEST(FieldErrorTest, SaysWhatIsOutOfBounds) {
  const absl::Status status = OutOfBounds("a.b", 7, "in [0, 5]");
  EXPECT_EQ(status.message(), "a.b is 7; it must be in [0, 5]");
  EXPECT_EQ(
      MetadataOf(status),
      (Metadata{{"field", "a.b"}, {"value", "7"}, {"bounds", "in [0, 5]"}}));
  EXPECT_EQ(OutOfBounds("a", "", "a name").message(),
            "a is empty; it must be a name");
  EXPECT_EQ(MetadataOf(OutOfBounds("a", std::string(100, 'x'), "b"))["value"],
            std::string(64, 'x'));
  EXPECT_EQ(MissingField("a", "give one").message(), "a is missing: give one");
}

TEST(FieldErrorTest, RangesHoldTheirBoundsAndRefuseNan) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(CheckRange("a", 0, 0, 2).ok());
  EXPECT_TRUE(CheckRange("a", 2, 0, 2).ok());
  EXPECT_EQ(CheckRange("a", 3, 0, 2).message(), "a is 3; it must be in [0, 2]");
  EXPECT_FALSE(CheckRange("a", kNan, 0.0, 2.0).ok());
  EXPECT_TRUE(CheckOpenRange("a", 2, 0, 2).ok());
  EXPECT_EQ(CheckOpenRange("a", 0, 0, 2).message(),
            "a is 0; it must be in (0, 2]");
  EXPECT_FALSE(CheckOpenRange("a", kNan, 0, 2).ok());
}

TEST(FieldErrorTest, AFieldOfANestedMessageIsNamedByItsPath) {
  const absl::Status status = Within("request", OutOfBounds("a", 1, "2"));
  EXPECT_EQ(status.message(), "request.a is 1; it must be 2");
  EXPECT_EQ(MetadataOf(status)["field"], "request.a");
  EXPECT_TRUE(Within("request", absl::OkStatus()).ok());
}

TEST(FieldErrorTest, AFieldIsRenamedWhereItsPathBeginsWithTheName) {
  const absl::Status status =
      Renamed("tokens", "tokens.ids", OutOfBounds("tokens[3]", 9, "less"));
  EXPECT_EQ(status.message(), "tokens.ids[3] is 9; it must be less");
  EXPECT_EQ(MetadataOf(status)["field"], "tokens.ids[3]");
  for (const char* other : {"tokens_left", "stop.tokens", "x"}) {
    const absl::Status kept =
        Renamed("tokens", "tokens.ids", OutOfBounds(other, 9, "less"));
    EXPECT_EQ(MetadataOf(kept)["field"], other);
    EXPECT_EQ(kept.message(), OutOfBounds(other, 9, "less").message());
  }
  EXPECT_TRUE(Renamed("a", "b", absl::OkStatus()).ok());
}

TEST(FieldErrorTest, RenamingKeepsReasonAndRetryHint) {
  const absl::Status from = MakeError(ErrorReason::kQueueFull, "a is full",
                                      {{"field", "a"}}, absl::Seconds(3));
  const auto details = GetErrorDetails(Renamed("a", "b", from));
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->reason, ErrorReason::kQueueFull);
  EXPECT_EQ(details->retry_after, absl::Seconds(3));
}

TEST(FieldErrorTest, ExcerptDoesNotCutCharacters) {
  EXPECT_EQ(Excerpt("abc", 3), "abc");
  EXPECT_EQ(Excerpt("abc", 2), "ab");
  EXPECT_EQ(Excerpt("a\xC3\xA4z", 2), "a");
  EXPECT_EQ(Excerpt("a\xC3\xA4z", 3), "a\xC3\xA4");
  EXPECT_EQ(Excerpt("\xF0\x9F\x98\x80", 3), "");
}

TEST(CloneErrorTest, AClonedErrorSaysTheSame) {
  const absl::Status error =
      MakeError(ErrorReason::kStoreUnavailable, "no disk", {{"what", "disk"}},
                absl::Seconds(1));
  EXPECT_EQ(CloneError(error), error);
  EXPECT_TRUE(CloneError(absl::OkStatus()).ok());
  EXPECT_EQ(CloneError(absl::InternalError("odd")), absl::InternalError("odd"));
}

}  // namespace
}  // namespace steadystate::error_test
