// Goal: whatever a stream's messages consist of, and whether or not its client
// reads, they cost no more than is said, and what is wrong with them is told.
// Method: any bytes as the messages of a real server's streams.
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/config.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/wire_error.h"

namespace steadystate::stream_step_limits_test {
namespace {

constexpr char kStreamStep[] = "/steadystate.v1.GenerationService/StreamStep";
constexpr size_t kMessageBytes = size_t{4} << 20;

std::string Times(size_t count, const std::string& text) {
  std::string times;
  times.reserve(count * text.size());
  for (size_t i = 0; i < count; ++i) times += text;
  return times;
}

// A field with these contents, which is bytes, a string or a message.
std::string Field(int number, const std::string& contents) {
  std::string field(1, static_cast<char>(number << 3 | 2));
  size_t rest = contents.size();
  for (; rest > 0x7f; rest >>= 7) {
    field += static_cast<char>((rest & 0x7f) | 0x80);
  }
  return field + static_cast<char>(rest) + contents;
}

std::string RequestBytes(const std::string& step) {
  return Field(3, Field(2, step));
}

// A field that the server does not know, of so many bytes.
std::string Padding(size_t bytes) { return Field(15, std::string(bytes, 'x')); }

// Reads to the end of the call; the results.
std::vector<v1::StreamStepResponse::Result> ReadResults(RawCall& call,
                                                        size_t most) {
  std::vector<v1::StreamStepResponse::Result> results;
  while (results.size() < most) {
    const std::optional<std::string> bytes = call.Read();
    if (!bytes.has_value()) break;
    v1::StreamStepResponse response;
    EXPECT_TRUE(response.ParseFromString(*bytes));
    for (const auto& result : response.results()) results.push_back(result);
  }
  return results;
}

TEST(StreamStepLimitsTest, WhatIsNoMessageEndsTheStreamAfterTheAnswersBefore) {
  OpenServer server;
  const std::string session = server.CreateSession();
  const std::string step = StepOf(session, {1}).SerializeAsString();
  uint64_t position = 0;
  for (const std::string& fault :
       {std::string("\xff"), std::string("\x0a\x7f"), std::string("\x0c"),
        // Within a request: a session that is not UTF-8, one too long.
        RequestBytes(Field(1, "\xff")), RequestBytes("\x0a\x7f")}) {
    RawCall call(server.channel(), kStreamStep);
    EXPECT_TRUE(call.Write(Field(2, step)));
    // In the message of the fault, a request before it and one behind.
    EXPECT_TRUE(call.Write(RequestBytes(step) + fault + RequestBytes(step)));
    call.Write(Field(2, step));
    const auto results = ReadResults(call, 100);
    // A message that falls apart is not begun; a bad request in a good one is
    // found when its turn comes.
    EXPECT_EQ(results.size(), fault.size() > 2 ? 2u : 1u);
    for (const auto& result : results) {
      EXPECT_EQ(result.step().position(), ++position);
    }
    EXPECT_THAT(call.Finish(), HasReason(ErrorReason::kInvalidArgument))
        << testing::PrintToString(fault);
  }
  server.WaitForMetric("steadystate_grpc_streams", 0);
  EXPECT_EQ(server.PositionOf(session), position);
}

TEST(StreamStepLimitsTest, TooManyStepsEndTheStreamAfterTheAnswersBefore) {
  OpenServer server;
  const std::string session = server.CreateSession();
  const std::string step = StepOf(session, {1}).SerializeAsString();
  RawCall call(server.channel(), kStreamStep);
  EXPECT_TRUE(call.Write(Times(32, RequestBytes(step))));
  EXPECT_TRUE(call.Write(Times(1025, "\x1a" + std::string(1, '\0'))));
  EXPECT_EQ(ReadResults(call, 100).size(), 32u);
  const grpc::Status status = call.Finish();
  EXPECT_THAT(status, IsAboutField("requests"));
  EXPECT_EQ(ToWireError(status).metadata["value"], "1025");
  EXPECT_EQ(ToWireError(status).metadata["bounds"], "at most 1024");
  EXPECT_EQ(server.PositionOf(session), 32u);
}

TEST(StreamStepLimitsTest, AStepThatTakesMuchToReadIsRefusedByItself) {
  OpenServer server;
  const std::string session = server.CreateSession();
  const std::string step = StepOf(session, {1}).SerializeAsString();
  // Biases without a token, in the sampling of an output.
  const std::string biases = Times(400'000, {"\x52\x00", 2});
  RawCall call(server.channel(), kStreamStep);
  EXPECT_TRUE(
      call.Write(RequestBytes(step) +
                 Field(3, Field(1, "large") +
                              Field(2, step + Field(5, Field(1, biases)))) +
                 RequestBytes(step)));
  call.WritesDone();
  const auto results = ReadResults(call, 100);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].step().position(), 1u);
  EXPECT_EQ(results[1].request_id(), "large");
  EXPECT_EQ(results[1].session(), session);
  EXPECT_THAT(results[1].error(), IsAboutField("request"));
  EXPECT_EQ(results[2].step().position(), 2u);
  EXPECT_THAT(call.Finish(), IsOk());
}

// Waits until the session has absorbed something; expects that it comes to
// that.
void WaitForAStep(OpenServer& server, const std::string& session) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (server.PositionOf(session) == 0 && absl::Now() < deadline) {
  }
  EXPECT_GT(server.PositionOf(session), 0u);
}

// What of this process is in memory.
double ResidentMiB() {
  std::ifstream stream("/proc/self/statm");
  double total = 0;
  double resident = 0;
  stream >> total >> resident;
  return resident * 4096 / (1 << 20);
}

TEST(StreamStepLimitsTest, AMessageThatIsNotReadHoldsLittle) {
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
  GTEST_SKIP() << "what is free is not given back";
#endif
  constexpr size_t kStreams = 4;
  OpenServerOptions options;
  options.model.vocab_size = 32768;  // 128 KiB an answer
  OpenServer server(options);
  const auto message_of = [&](const std::string& session,
                              const std::string& part) {
    const std::string step = LogitsStepOf(session, {1}).SerializeAsString();
    // Enough answers for the message to be stuck in its middle.
    const std::string steps = Times(30, RequestBytes(step));
    const size_t each = (kMessageBytes - steps.size() - 64) / 900;
    const std::string filled = Times((each - 16) / part.size(), part);
    return steps + Times(900, RequestBytes(filled));
  };
  const std::array<std::string, 6> parts = {
      std::string("\x12\x00", 2),                  // nothing; the heap grows
      std::string("\x2a\x02\x0a\x00", 4),          // outputs with samplings
      std::string("\x2a\x04\x0a\x02\x52\x00", 6),  // with biases
      "\x12\x03\x0a\x01\x01",                      // tokens
      "\x78\x01",                                  // fields that nobody knows
      "\x7b\x7c",                                  // groups
  };
  for (const std::string& part : parts) {
    const std::vector<std::string> sessions = server.CreateSessions(kStreams);
    const double before = ResidentMiB();
    std::vector<std::unique_ptr<RawCall>> calls;
    for (const std::string& session : sessions) {
      calls.push_back(std::make_unique<RawCall>(server.channel(), kStreamStep));
      EXPECT_TRUE(calls.back()->Write(message_of(session, part)));
      WaitForAStep(server, session);
    }
    // Until nothing moves.
    uint64_t position = 0;
    for (int unchanged = 0; unchanged < 100; ++unchanged) {
      uint64_t sum = 0;
      for (const std::string& session : sessions) {
        sum += server.PositionOf(session);
      }
      if (sum != position) unchanged = 0;
      position = sum;
    }
    const double held = (ResidentMiB() - before) / kStreams;
    std::printf("%s: %.1f MiB a message\n",
                testing::PrintToString(part).c_str(), held);
    // The first time client and server take what they keep.
    if (&part != &parts.front()) {
      EXPECT_LT(held, 24);
    }
  }
}

TEST(StreamStepLimitsTest, AConnectionThatDoesNotReadIsNotReadEither) {
  constexpr size_t kStreams = 10;
  constexpr size_t kSteps = 64;
  OpenServerOptions options;
  options.model.vocab_size = 32768;  // 128 KiB an answer
  OpenServer server(options);
  // Its windows stay small, so that answers wait within the server.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto channel = server.NewChannel(arguments);
  const std::vector<std::string> sessions = server.CreateSessions(kStreams);
  std::vector<std::unique_ptr<RawCall>> calls;
  for (size_t i = 0; i + 1 < kStreams; ++i) {
    const std::string step = LogitsStepOf(sessions[i], {1}).SerializeAsString();
    calls.push_back(std::make_unique<RawCall>(channel, kStreamStep));
    const std::string request =
        Field(3, Field(2, step) + Padding((4 << 20) / kSteps - 100));
    EXPECT_TRUE(calls.back()->Write(Times(kSteps, request)));
    // Nine messages are more than the connection's share, eight of the largest.
    WaitForAStep(server, sessions[i]);
  }
  calls.push_back(std::make_unique<RawCall>(channel, kStreamStep));
  const std::string step = StepOf(sessions.back(), {1}).SerializeAsString();
  EXPECT_TRUE(calls.back()->Write(Field(2, step)));
  const std::string other = server.CreateSession();
  for (int i = 0; i < 100; ++i) server.Step(StepOf(other, {1}));
  EXPECT_EQ(server.PositionOf(sessions.back()), 0u);
  for (size_t i = 0; i < kStreams; ++i) {
    calls[i]->WritesDone();
    EXPECT_EQ(ReadResults(*calls[i], kSteps).size(), i < 9 ? kSteps : 1u);
    EXPECT_EQ(calls[i]->Read(), std::nullopt);
    EXPECT_THAT(calls[i]->Finish(), IsOk());
  }
}

// A client that does not read has 32 MiB of them wait, and then no more read.
TEST(StreamStepLimitsTest, SmallMessagesThatWaitAreCountedToo) {
  constexpr size_t kStreams = 600;
  constexpr size_t kBytes = 63 << 10;
  constexpr size_t kSteps = 20;
  OpenServerOptions options;
  options.model.vocab_size = 32768;  // 128 KiB an answer
  OpenServer server(options);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto channel = server.NewChannel(arguments);
  std::vector<std::unique_ptr<RawCall>> calls;
  for (const std::string& session : server.CreateSessions(kStreams)) {
    const std::string step = LogitsStepOf(session, {1}).SerializeAsString();
    const std::string request =
        Field(3, Field(2, step) + Padding(kBytes / kSteps - 100));
    calls.push_back(std::make_unique<RawCall>(channel, kStreamStep));
    EXPECT_TRUE(calls.back()->Write(Times(kSteps, request)));
  }
  // Until a step of one more stream is not carried out while another
  // connection's are.
  const std::string other = server.CreateSession();
  bool held = false;
  for (int probe = 0; probe < 50 && !held; ++probe) {
    const std::string session = server.CreateSession();
    const std::string step = StepOf(session, {1}).SerializeAsString();
    calls.push_back(std::make_unique<RawCall>(channel, kStreamStep));
    EXPECT_TRUE(calls.back()->Write(Field(2, step)));
    for (int i = 0; i < 100; ++i) server.Step(StepOf(other, {1}));
    held = server.PositionOf(session) == 0;
  }
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace steadystate::stream_step_limits_test
