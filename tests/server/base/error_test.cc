#include "server/base/error.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace steadystate {
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

}  // namespace
}  // namespace steadystate
