// Goal: a request that is none is refused like any other bad one, by every
// method, and one that would take much memory to read is not read. Method: any
// bytes as the requests of a real server.
#include "server/rpc/received.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/wire_error.h"

namespace steadystate {
namespace {

std::string Times(size_t count, const std::string& text) {
  std::string times;
  times.reserve(count * text.size());
  for (size_t i = 0; i < count; ++i) times += text;
  return times;
}

// No messages of any type.
std::vector<std::string> Faults() {
  return {
      "\xff",                      // a tag that does not end
      std::string("\x00\x01", 2),  // no field has number 0
      "\x0a\x7f",                  // longer than the message
      "\x0c",                      // the end of no group
      "\x0f\x01",                  // no such wire type
      Times(11, "\xff") + "\x01",  // a number of 11 bytes
      "\x5b",                      // a group that does not end
      Times(200, "\x9b\x06") + Times(200, "\x9c\x06"),  // groups too deep
  };
}

std::vector<const google::protobuf::MethodDescriptor*> Methods() {
  std::vector<const google::protobuf::MethodDescriptor*> methods;
  for (const auto* file :
       {v1::StepRequest::descriptor()->file(),
        v1::Session::descriptor()->file(), v1::Model::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int k = 0; k < file->service(i)->method_count(); ++k) {
        methods.push_back(file->service(i)->method(k));
      }
    }
  }
  return methods;
}

std::string PathOf(const google::protobuf::MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

TEST(ReceivedTest, EveryMethodSaysWhatIsWrongWithBytesThatAreNoRequest) {
  OpenServer server;
  ASSERT_EQ(Methods().size(), 13u);
  for (const google::protobuf::MethodDescriptor* method : Methods()) {
    for (const std::string& fault : Faults()) {
      RawCall call(server.channel(), PathOf(*method));
      call.Write(fault);
      call.WritesDone();
      EXPECT_EQ(call.Read(), std::nullopt);
      const grpc::Status status = call.Finish();
      EXPECT_THAT(status, HasReason(ErrorReason::kInvalidArgument))
          << method->full_name() << " " << testing::PrintToString(fault);
      EXPECT_EQ(ToWireError(status).metadata["bounds"],
                method->input_type()->full_name());
    }
    EXPECT_EQ(server.MetricValue(absl::StrCat(
                  "steadystate_request_duration_seconds_count{code=\"INVALID_"
                  "ARGUMENT\",method=\"",
                  PathOf(*method).substr(1), "\"}")),
              Faults().size());
  }
  server.Step(StepOf(server.CreateSession(), {1}));
}

TEST(ReceivedTest, TextsAreUtf8) {
  OpenServer server;
  v1::GetSessionRequest request;
  request.set_name("sessions/x");
  std::string bytes = request.SerializeAsString();
  bytes.back() = '\xff';
  RawCall call(server.channel(), "/steadystate.v1.SessionService/GetSession");
  call.Write(bytes);
  call.WritesDone();
  EXPECT_EQ(call.Read(), std::nullopt);
  EXPECT_THAT(call.Finish(), HasReason(ErrorReason::kInvalidArgument));
}

TEST(ReceivedTest, ACallWithoutARequestIsRefused) {
  OpenServer server;
  for (const char* path : {"/steadystate.v1.SessionService/GetSession",
                           "/steadystate.v1.GenerationService/Generate"}) {
    RawCall call(server.channel(), path);
    call.WritesDone();
    EXPECT_EQ(call.Read(), std::nullopt);
    EXPECT_THAT(call.Finish(), HasReason(ErrorReason::kInvalidArgument));
  }
}

TEST(ReceivedTest, WhatTakesMuchMemoryToReadIsNotRead) {
  OpenServer server;
  constexpr size_t kPairs = (size_t{4} << 19) - 8;
  // Empty stop strings, and fields that nobody knows.
  for (const char* part : {"\x3a\x00", "\xf8\x00"}) {
    RawCall call(server.channel(),
                 "/steadystate.v1.GenerationService/Generate");
    call.Write(Times(kPairs, std::string(part, 2)));
    call.WritesDone();
    EXPECT_EQ(call.Read(), std::nullopt);
    const grpc::Status status = call.Finish();
    EXPECT_THAT(status, IsAboutField("the request"));
    EXPECT_EQ(ToWireError(status).metadata["bounds"],
              "at most 16777216 in memory");
  }
  // As many tokens as one request may have are read, and found to have no
  // session.
  v1::GenerateRequest request;
  for (int i = 0; i < 1 << 20; ++i) request.mutable_tokens()->add_ids(i % 2);
  RawCall call(server.channel(), "/steadystate.v1.GenerationService/Generate");
  call.Write(request.SerializeAsString());
  call.WritesDone();
  EXPECT_EQ(call.Read(), std::nullopt);
  EXPECT_THAT(call.Finish(), IsAboutField("session"));
}

}  // namespace
}  // namespace steadystate
