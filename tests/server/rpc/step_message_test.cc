// Goal: a message of many steps gives the requests that protobuf reads from it,
// a few at a time, and says of one that is none where it goes wrong. Method:
// messages made at random, and faults made on purpose.
#include "server/rpc/step_message.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/wire_error.h"

namespace steadystate::step_message_test {
namespace {

using Request = StepMessage::Request;

constexpr size_t kMessageBytes = size_t{4} << 20;

grpc::ByteBuffer BufferOf(const std::string& bytes, size_t slices = 1) {
  std::vector<grpc::Slice> parts;
  const size_t each = bytes.size() / slices + 1;
  for (size_t begin = 0; begin < bytes.size(); begin += each) {
    parts.emplace_back(bytes.substr(begin, each));
  }
  return {parts.data(), parts.size()};
}

absl::Status Take(StepMessage& message, const std::string& bytes,
                  size_t slices = 1) {
  grpc::ByteBuffer buffer = BufferOf(bytes, slices);
  return message.Take(buffer);
}

// Reads to the end, consuming by chance, now and then after an Unread.
std::vector<std::string> ReadAll(StepMessage& message, std::mt19937& random) {
  std::vector<std::string> all;
  while (!message.done()) {
    EXPECT_TRUE(message.Read().ok());
    if (message.size() == 0) break;
    for (size_t n = 1 + random() % message.size(); n > 0; --n) {
      EXPECT_TRUE(message.refusal(0).ok());
      all.push_back(message[0].SerializeAsString());
      message.Consume();
    }
    if (random() % 4 == 0) message.Unread();
  }
  return all;
}

v1::StepRequest SomeStep(std::mt19937& random) {
  v1::StepRequest step;
  step.set_session(absl::StrCat("sessions/", random() % 100));
  const auto tokens = static_cast<int>(random() % 5 == 0 ? random() % 3000 : 3);
  for (int i = 0; i < tokens; ++i) step.mutable_tokens()->add_ids(i);
  return step;
}

// What the message asks for, as protobuf understands it.
std::vector<std::string> Expected(const std::string& bytes) {
  v1::StreamStepRequest message;
  EXPECT_TRUE(message.ParseFromString(bytes));
  std::vector<std::string> all;
  if (message.has_step() || message.requests().empty()) {
    Request own;
    own.set_request_id(message.request_id());
    if (message.has_step()) *own.mutable_step() = message.step();
    all.push_back(own.SerializeAsString());
  }
  for (const Request& request : message.requests()) {
    all.push_back(request.SerializeAsString());
  }
  return all;
}

TEST(StepMessageTest, GivesTheRequestsThatProtobufReads) {
  std::mt19937 random(3);
  StepMessage message(1024, kMessageBytes);
  for (int trial = 0; trial < 300; ++trial) {
    // Parts that follow each other are one message, with what is given twice
    // merged as protobuf has it.
    std::string bytes;
    for (size_t parts = random() % 4; parts > 0; --parts) {
      v1::StreamStepRequest part;
      if (random() % 2 == 0) part.set_request_id(absl::StrCat(random() % 9));
      if (random() % 2 == 0) *part.mutable_step() = SomeStep(random);
      for (size_t n = random() % 100; n > 0; --n) {
        Request& added = *part.add_requests();
        added.set_request_id(absl::StrCat("r", n));
        if (random() % 8 != 0) *added.mutable_step() = SomeStep(random);
      }
      bytes += part.SerializeAsString();
      // A field that this server does not know.
      if (random() % 2 == 0) bytes += std::string("\xfa\x01\x02zz", 5);
    }
    ASSERT_TRUE(Take(message, bytes, 1 + random() % 3).ok());
    EXPECT_EQ(message.bytes(), bytes.size());
    std::vector<std::string> all = ReadAll(message, random);
    // Without requests the whole is its own, what nobody knows included.
    if (all.size() == 1) {
      Request own;
      ASSERT_TRUE(own.ParseFromString(all[0]));
      own.DiscardUnknownFields();
      all[0] = own.SerializeAsString();
    }
    EXPECT_EQ(all, Expected(bytes)) << "trial " << trial;
    message.Clear();
  }
}

TEST(StepMessageTest, RefusesMoreStepsThanTheBound) {
  StepMessage message(3, kMessageBytes);
  v1::StreamStepRequest request;
  for (int i = 0; i < 3; ++i) request.add_requests();
  EXPECT_TRUE(Take(message, request.SerializeAsString()).ok());
  message.Clear();
  request.mutable_step();
  const absl::Status status = Take(message, request.SerializeAsString());
  const auto details = GetErrorDetails(status);
  ASSERT_TRUE(details.has_value()) << status;
  EXPECT_EQ(details->reason, ErrorReason::kInvalidArgument);
  EXPECT_EQ(details->metadata, (ErrorMetadata{{"field", "requests"},
                                              {"value", "4"},
                                              {"bounds", "at most 3"}}));
  EXPECT_TRUE(message.done());
  EXPECT_EQ(message.bytes(), 0u);
}

// Each would have to be looked at.
TEST(StepMessageTest, FieldsThatNobodyKnowsAreFew) {
  StepMessage message(3, kMessageBytes);
  std::string wire;
  for (int i = 0; i < 3 + 4096; ++i) wire += "\x78\x01";
  EXPECT_TRUE(Take(message, wire).ok());
  message.Clear();
  const auto details = GetErrorDetails(Take(message, wire + "\x78\x01"));
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->reason, ErrorReason::kInvalidArgument);
  EXPECT_EQ(details->metadata,
            (ErrorMetadata{{"field", "the stream's message"},
                           {"bounds", "at most 4099 fields"}}));
  EXPECT_TRUE(message.done());
}

TEST(StepMessageTest, WhatComesBeforeAFaultIsGiven) {
  StepMessage message(1024, kMessageBytes);
  v1::StreamStepRequest request;
  for (int i = 0; i < 5; ++i) {
    request.add_requests()->set_request_id(absl::StrCat(i));
  }
  // Well formed outside, and a request_id that is longer than its request.
  const std::string bytes =
      request.SerializeAsString() + std::string("\x1a\x02\x0a\x7f", 4);
  ASSERT_TRUE(Take(message, bytes).ok());
  ASSERT_TRUE(message.Read().ok());
  EXPECT_EQ(message.size(), 5u);
  while (message.size() > 0) message.Consume();
  ASSERT_FALSE(message.done());
  const absl::Status status = message.Read();
  EXPECT_EQ(GetErrorDetails(status)->reason, ErrorReason::kInvalidArgument);
  EXPECT_NE(status.message().find("request 5"), absl::string_view::npos);
}

TEST(StepMessageTest, ARequestThatTakesMuchIsNamedAndNotRead) {
  StepMessage message(1024, kMessageBytes);
  v1::StreamStepRequest::Request large;
  large.set_request_id("large");
  large.mutable_step()->set_session("sessions/x");
  std::string record = large.SerializeAsString();
  // A step is merged with what is given of it later: tokens of a byte each.
  v1::StepRequest more;
  for (int i = 0; i < 3'000'000; ++i) more.mutable_tokens()->add_ids(1);
  large.Clear();
  *large.mutable_step() = more;
  record += large.SerializeAsString();
  v1::StreamStepRequest request;
  request.add_requests()->set_request_id("small");
  std::string bytes = request.SerializeAsString();
  bytes += "\x1a";
  for (size_t rest = record.size(); true; rest >>= 7) {
    bytes += static_cast<char>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    if (rest <= 0x7f) break;
  }
  bytes += record + request.SerializeAsString();
  ASSERT_TRUE(Take(message, bytes).ok());
  ASSERT_TRUE(message.Read().ok());
  ASSERT_EQ(message.size(), 2u);
  EXPECT_TRUE(message.refusal(0).ok());
  EXPECT_EQ(message[1].request_id(), "large");
  EXPECT_EQ(message[1].step().session(), "sessions/x");
  EXPECT_EQ(message[1].step().tokens().ids_size(), 0);
  const auto details = GetErrorDetails(message.refusal(1));
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->reason, ErrorReason::kInvalidArgument);
  message.Consume();
  message.Consume();
  ASSERT_TRUE(message.Read().ok());
  EXPECT_EQ(message[0].request_id(), "small");
  EXPECT_TRUE(message.refusal(0).ok());
}

}  // namespace
}  // namespace steadystate::step_message_test
