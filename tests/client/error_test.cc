// Goal: what the server said about an error reaches the caller. Method: encode
// what travels on the wire, decode it.
#include "steadystate/error.h"

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"

namespace steadystate::client::error_test {
namespace {

using testing::ElementsAre;
using testing::Pair;

google::rpc::Status QueueFull() {
  google::rpc::ErrorInfo info;
  info.set_reason("QUEUE_FULL");
  info.set_domain("steadystate");
  (*info.mutable_metadata())["limit"] = "32";
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  retry.mutable_retry_delay()->set_nanos(500000000);
  google::rpc::Status status;
  status.set_code(grpc::StatusCode::RESOURCE_EXHAUSTED);
  status.set_message("32 requests wait");
  status.add_details()->PackFrom(info);
  status.add_details()->PackFrom(retry);
  return status;
}

void ExpectQueueFull(const absl::Status& status) {
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(), "32 requests wait");
  const auto details = GetErrorDetails(status);
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->reason, "QUEUE_FULL");
  EXPECT_THAT(details->metadata, ElementsAre(Pair("limit", "32")));
  EXPECT_EQ(details->retry_after, absl::Milliseconds(1500));
}

TEST(ErrorTest, DetailsOfACallAreDecoded) {
  ExpectQueueFull(ToStatus(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                        "32 requests wait",
                                        QueueFull().SerializeAsString())));
}

TEST(ErrorTest, DetailsInsideAStreamAreDecoded) {
  ExpectQueueFull(ToStatus(QueueFull()));
}

TEST(ErrorTest, SuccessHasNoDetails) {
  const absl::Status status = ToStatus(grpc::Status::OK);
  EXPECT_TRUE(status.ok());
  EXPECT_FALSE(GetErrorDetails(status).has_value());
  EXPECT_FALSE(IsUnreachable(status));
}

TEST(ErrorTest, DetailsThatCannotBeReadAreNone) {
  const absl::Status status =
      ToStatus(grpc::Status(grpc::StatusCode::INTERNAL, "oops", "\xff\xff"));
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_EQ(status.message(), "oops");
  EXPECT_FALSE(GetErrorDetails(status).has_value());
}

TEST(ErrorTest, OnlyOurDomainCounts) {
  google::rpc::Status status = QueueFull();
  google::rpc::ErrorInfo info;
  status.details(0).UnpackTo(&info);
  info.set_domain("elsewhere.example");
  status.mutable_details(0)->PackFrom(info);
  EXPECT_FALSE(GetErrorDetails(ToStatus(status)).has_value());
}

TEST(ErrorTest, UnavailableWithoutDetailsMeansThatNobodyAnswered) {
  EXPECT_TRUE(IsUnreachable(
      ToStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "refused"))));
  google::rpc::Status draining = QueueFull();
  draining.set_code(grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(IsUnreachable(ToStatus(draining)));
}

}  // namespace
}  // namespace steadystate::client::error_test
