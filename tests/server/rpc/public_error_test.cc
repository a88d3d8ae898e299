// Goal: what clients are told about errors is complete, bounded and free of
// what is none of their business. Method: map statuses and read the wire form.
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/answer.h"
#include "steadystate/v1/error_reason.pb.h"
#include "tests/server/rpc/wire_error.h"

namespace steadystate::public_error_test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

grpc::Status Wire(const absl::Status& status) {
  return ToGrpcStatus(ToPublicError(status));
}

TEST(PublicErrorTest, EveryReasonTravelsWithItsCodeAndExactlyOneErrorInfo) {
  for (const ErrorReason reason : AllErrorReasons()) {
    EXPECT_THAT(Wire(MakeError(reason, "text")), HasReason(reason));
  }
}

TEST(PublicErrorTest, ReasonsAreThoseOfTheProto) {
  size_t in_proto = 0;
  const auto* const descriptor = v1::ErrorReason_descriptor();
  for (int i = 0; i < descriptor->value_count(); ++i) {
    if (descriptor->value(i)->number() != 0) ++in_proto;
  }
  EXPECT_EQ(AllErrorReasons().size(), in_proto);
  for (const ErrorReason reason : AllErrorReasons()) {
    EXPECT_NE(descriptor->FindValueByName(std::string(Name(reason))), nullptr)
        << Name(reason);
  }
}

TEST(PublicErrorTest, MetadataAndRetryTravel) {
  const WireError error =
      ToWireError(Wire(MakeError(ErrorReason::kQueueFull, "full",
                                 {{"limit", "32"}}, absl::Milliseconds(1250))));
  EXPECT_THAT(error.metadata, Contains(Pair("limit", "32")));
  EXPECT_EQ(error.retry_after, absl::Milliseconds(1250));
}

TEST(PublicErrorTest, SessionsInMetadataAreNames) {
  const WireError error = ToWireError(
      Wire(MakeError(ErrorReason::kSessionBusy, "busy", {{"session", "abc"}})));
  EXPECT_THAT(error.metadata, Contains(Pair("session", "sessions/abc")));
}

TEST(PublicErrorTest, StatusNotWrittenForClientsBecomesInternalWithoutItsText) {
  const grpc::Status status =
      Wire(absl::NotFoundError("cannot open /secret/path"));
  EXPECT_THAT(status, HasReason(ErrorReason::kInternal));
  EXPECT_THAT(status.error_message(), Not(HasSubstr("secret")));
}

TEST(PublicErrorTest, CodesThatSayEnoughKeepTheirCode) {
  EXPECT_THAT(Wire(absl::DeadlineExceededError("")),
              HasReason(ErrorReason::kDeadlineExceeded));
  EXPECT_THAT(Wire(absl::CancelledError("")),
              HasReason(ErrorReason::kCancelled));
  EXPECT_THAT(Wire(absl::InvalidArgumentError("/p")),
              HasReason(ErrorReason::kInvalidArgument));
}

TEST(PublicErrorTest, LongTextsAreCutBelowWhatTrailersMayHave) {
  const std::string endless(100'000, 'x');
  const grpc::Status status = Wire(
      MakeError(ErrorReason::kInvalidArgument, endless,
                {{"field", endless}, {"value", endless}, {"bound", endless}}));
  EXPECT_THAT(status, HasReason(ErrorReason::kInvalidArgument));
  EXPECT_LT(status.error_details().size() + status.error_message().size(),
            4096u);
}

}  // namespace
}  // namespace steadystate::public_error_test
