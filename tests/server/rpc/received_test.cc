// Goal: a request that is none is refused like any other bad one, by every
// method, and one that would take much memory to read is not read. Method: any
// bytes as the requests of a real server.
#include "server/rpc/received.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::received_test {
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
  ASSERT_EQ(Methods().size(), 23u);
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
  // As many tokens as one request may have are read, and found to be for what
  // is no session.
  v1::GenerateRequest request;
  request.set_session("none");
  for (int i = 0; i < 1 << 20; ++i) request.mutable_tokens()->add_ids(i % 2);
  RawCall call(server.channel(), "/steadystate.v1.GenerationService/Generate");
  call.Write(request.SerializeAsString());
  call.WritesDone();
  EXPECT_EQ(call.Read(), std::nullopt);
  EXPECT_THAT(call.Finish(), IsAboutField("session"));
}

// Calls of Generate side by side, too long to be read on gRPC's threads, with
// tokens for a session that is none.
class LargeCalls {
 public:
  LargeCalls(OpenServer& server, size_t count, int tokens = 100'000,
             absl::Duration timeout = absl::Seconds(60))
      : calls_(count) {
    request_.set_session("none");
    for (int i = 0; i < tokens; ++i) request_.mutable_tokens()->add_ids(i % 2);
    for (Call& call : calls_) {
      call.thread = std::thread([this, &server, &call, timeout] {
        call.context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
        const auto stream =
            server.generation().Generate(&call.context, request_);
        v1::GenerateResponse response;
        EXPECT_FALSE(stream->Read(&response));
        call.status = stream->Finish();
        ++done_;
      });
    }
  }
  ~LargeCalls() { Wait(); }

  // How many have ended.
  size_t done() const { return done_; }
  std::vector<grpc::Status> Wait() {
    std::vector<grpc::Status> statuses;
    for (Call& call : calls_) {
      if (call.thread.joinable()) call.thread.join();
      statuses.push_back(call.status);
    }
    return statuses;
  }
  void CancelOne() { calls_.front().context.TryCancel(); }

 private:
  struct Call {
    Context context;
    grpc::Status status;
    std::thread thread;
  };

  v1::GenerateRequest request_;
  std::vector<Call> calls_;
  std::atomic<size_t> done_ = 0;
};

constexpr char kReadingWaits[] =
    "steadystate_long_work_waiting{kind=\"reading\"}";

// More than gRPC has threads.
constexpr size_t kManyCalls = 50;

TEST(LargeRequestsTest, AreReadWhereNobodyElseWaitsForIt) {
  OpenServer server;
  const std::string session = server.CreateSession();
  ThreadHold hold("ReadRequest");
  LargeCalls calls(server, kManyCalls);
  hold.WaitUntilHeld();
  for (int i = 0; i < 10; ++i) server.Step(StepOf(session, {1}));
  EXPECT_EQ(calls.done(), 0u);
  hold.Release();
  for (const grpc::Status& status : calls.Wait()) {
    EXPECT_THAT(status, IsAboutField("session"));
  }
}

TEST(LargeRequestsTest, AClientHasAShareOfThoseThatWait) {
  OpenServer server;
  ThreadHold hold("ReadRequest");
  const LargeCalls first(server, 1);
  hold.WaitUntilHeld();
  LargeCalls calls(server, kManyCalls, 2'000'000);
  // A third of 256 MiB and its own 4 MiB have room for 46.
  constexpr size_t kRefused = kManyCalls - 46;
  while (calls.done() < kRefused) std::this_thread::yield();
  hold.Release();
  size_t refused = 0;
  for (const grpc::Status& status : calls.Wait()) {
    refused += ToWireError(status).reason == Name(ErrorReason::kQueueFull);
  }
  EXPECT_EQ(refused, kRefused);
}

// Of a passed deadline and a closed connection the server knows without a call.
// Whether all three requests came in their time is told; on a busy machine they
// may need longer.
bool LargeRequestsAreNotReadForWhoHasGone(absl::Duration timeout) {
  OpenServer server;
  ThreadHold hold("ReadRequest");
  LargeCalls first(server, 1);
  hold.WaitUntilHeld();
  LargeCalls late(server, 3, 100'000, timeout);
  late.Wait();
  if (server.MetricValue(kReadingWaits) != 3) {
    hold.Release();
    return false;
  }
  // The server counts the time from when a request comes, which may be later on
  // a busy machine. By then all have passed there, too.
  const absl::Time passed = absl::Now() + timeout;
  while (absl::Now() < passed) std::this_thread::yield();
  {
    const auto channel = server.NewChannel();
    RawCall call(channel, "/steadystate.v1.GenerationService/Generate");
    call.Write(std::string(100'000, '\xff'));
    call.WritesDone();
    server.WaitForMetric(kReadingWaits, 4);
  }
  hold.Release();
  const std::string finished =
      "steadystate_request_duration_seconds_count{code=\"%s\",method="
      "\"steadystate.v1.GenerationService/Generate\"}";
  server.WaitForMetric(
      absl::StrReplaceAll(finished, {{"%s", "DEADLINE_EXCEEDED"}}), 3);
  server.WaitForMetric(absl::StrReplaceAll(finished, {{"%s", "CANCELLED"}}), 1);
  EXPECT_THAT(first.Wait()[0], IsAboutField("session"));
  EXPECT_EQ(hold.count(), 1);
  return true;
}

TEST(LargeRequestsTest, AreNotReadForWhoHasGone) {
  absl::Duration timeout = absl::Milliseconds(200);
  while (!LargeRequestsAreNotReadForWhoHasGone(timeout)) {
    timeout *= 2;
    ASSERT_LT(timeout, absl::Minutes(1));
  }
}

TEST(LargeRequestsTest, AreTimedFromWhenTheyCome) {
  ManualClock clock;
  OpenServerOptions options;
  options.clock = &clock;
  OpenServer server(options);
  ThreadHold hold("ReadRequest");
  LargeCalls calls(server, 1);
  hold.WaitUntilHeld();
  clock.Advance(absl::Seconds(7));
  hold.Release();
  calls.Wait();
  EXPECT_GE(server.MetricValue("steadystate_request_duration_seconds_sum{code="
                               "\"INVALID_ARGUMENT\",method=\"steadystate.v1."
                               "GenerationService/Generate\"}"),
            7);
}

TEST(LargeRequestsTest, EndWhenTheServerDrains) {
  OpenServer server;
  ThreadHold hold("ReadRequest");
  LargeCalls calls(server, 4);
  hold.WaitUntilHeld();
  calls.CancelOne();
  std::thread shutdown([&server] {
    EXPECT_TRUE(server.server().Shutdown(absl::Seconds(30)).ok());
  });
  server.WaitForMetric("steadystate_ready", 0);
  hold.Release();
  shutdown.join();
  for (const grpc::Status& status : calls.Wait()) {
    EXPECT_NE(status.error_code(), grpc::StatusCode::OK);
  }
}

}  // namespace
}  // namespace steadystate::received_test
