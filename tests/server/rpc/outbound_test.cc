// Goal: answers that nobody reads take no more memory than they may, those of
// a connection its share, and all that waits for room goes on when there is
// some. Method: a real server with the least room that it can have, and a
// client that does not read.
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"

namespace steadystate::outbound_test {
namespace {

constexpr char kOutbound[] = "steadystate_outbound_bytes";
constexpr char kWaiting[] = "steadystate_outbound_waiting";
constexpr int kUnread = 20;  // each would take 2 MiB
// What the calls of one connection may have at most.
constexpr int kOwn = 32 << 10;
constexpr int kMost = (16 << 20) / 9 + kUnread * kOwn;

OpenServerOptions LittleRoom() {
  OpenServerOptions options;
  options.server.max_outbound_bytes = uint64_t{16} << 20;
  options.model.vocab_size = 5000;  // its logits are no small answer
  return options;
}

v1::GenerateRequest GenerationOf(const std::string& session) {
  v1::GenerateRequest request;
  request.set_session(session);
  request.mutable_tokens()->add_ids(1);
  request.set_ignore_eos(true);
  request.set_logprobs(256);
  return request;
}

// A connection that takes no more of each answer than 64 KiB until it is read:
// as a rule gRPC learns to take megabytes.
std::shared_ptr<grpc::Channel> SlowChannel(OpenServer& server) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 65535);
  return server.NewChannel(arguments);
}

// Generations on a connection of their own whose answers nobody reads, in the
// end all waiting for room.
class UnreadGenerations {
 public:
  explicit UnreadGenerations(OpenServer& server)
      : channel_(SlowChannel(server)), stub_(channel_) {
    for (int i = 0; i < kUnread; ++i) {
      contexts_.push_back(std::make_unique<Context>());
      streams_.push_back(stub_.Generate(contexts_.back().get(),
                                        GenerationOf(server.CreateSession())));
    }
    // gRPC may still be about to send some, and others go on then.
    server.WaitUntilStill(kWaiting, kUnread);
  }
  ~UnreadGenerations() { End(); }

  std::shared_ptr<grpc::Channel> channel() { return channel_; }
  v1::GenerationService::Stub& stub() { return stub_; }

  // The server has noticed when this returns.
  void End() {
    for (const auto& context : contexts_) context->TryCancel();
    for (const auto& stream : streams_) stream->Finish();
    streams_.clear();
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  v1::GenerationService::Stub stub_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>>
      streams_;
};

// A call whose end is told by a promise.
template <typename Response>
struct AsyncCall {
  std::function<void(grpc::Status)> Done() {
    return [this](grpc::Status status) { done.set_value(std::move(status)); };
  }

  Context context;
  Response response;
  std::promise<grpc::Status> done;
};

TEST(OutboundTest, UnreadAnswersLeaveRoomForOthers) {
  OpenServer server(LittleRoom());
  UnreadGenerations unread(server);
  EXPECT_GE(server.MetricValue(kOutbound), kMost / 2);
  EXPECT_LE(server.MetricValue(kOutbound), kMost);
  // Another connection's generation goes on.
  v1::GenerateRequest request = GenerationOf(server.CreateSession());
  request.set_max_tokens(200);
  Context context;
  const auto stream = server.generation().Generate(&context, request);
  v1::GenerateResponse response;
  int tokens = 0;
  while (stream->Read(&response)) tokens += response.tokens_size();
  EXPECT_THAT(stream->Finish(), IsOk());
  EXPECT_EQ(tokens, 200);
  unread.End();
  server.WaitForMetric(kWaiting, 0);
  server.WaitForMetric(kOutbound, 0);
}

// Also by a client that reads one after the other.
TEST(OutboundTest, AllGoOnWhenTheyAreRead) {
  constexpr int kTokens = 300;
  OpenServer server(LittleRoom());
  v1::GenerationService::Stub stub(SlowChannel(server));
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>>
      streams;
  for (int i = 0; i < kUnread; ++i) {
    v1::GenerateRequest request = GenerationOf(server.CreateSession());
    request.set_max_tokens(kTokens);
    contexts.push_back(std::make_unique<Context>());
    streams.push_back(stub.Generate(contexts.back().get(), request));
  }
  server.WaitUntilStill(kWaiting, kUnread);
  // One after the other: who is read last waits longest.
  v1::GenerateResponse response;
  for (const auto& stream : streams) {
    int tokens = 0;
    while (stream->Read(&response)) tokens += response.tokens_size();
    EXPECT_THAT(stream->Finish(), IsOk());
    EXPECT_EQ(tokens, kTokens);
  }
  server.WaitForMetric(kOutbound, 0);
}

TEST(OutboundTest, ALargeAnswerOfAStepWaitsForRoom) {
  OpenServer server(LittleRoom());
  UnreadGenerations unread(server);
  const std::string session = server.CreateSession();
  const v1::StepRequest step = LogitsStepOf(session, {1});
  AsyncCall<v1::StepResponse> waits;
  unread.stub().async()->Step(&waits.context, &step, &waits.response,
                              waits.Done());
  server.WaitForMetric(kWaiting, kUnread + 1);
  EXPECT_EQ(server.PositionOf(session), 0u);
  // One whose answer is small does not.
  const v1::StepRequest small = StepOf(server.CreateSession(), {1});
  AsyncCall<v1::StepResponse> passes;
  unread.stub().async()->Step(&passes.context, &small, &passes.response,
                              passes.Done());
  EXPECT_THAT(passes.done.get_future().get(), IsOk());
  unread.End();
  EXPECT_THAT(waits.done.get_future().get(), IsOk());
  EXPECT_EQ(waits.response.logits_size(), 5000);
  server.WaitForMetric(kOutbound, 0);
}

TEST(OutboundTest, AStepThatWaitsForRoomCanBeCancelled) {
  OpenServer server(LittleRoom());
  UnreadGenerations unread(server);
  const std::string session = server.CreateSession();
  const v1::StepRequest step = LogitsStepOf(session, {1});
  AsyncCall<v1::StepResponse> call;
  unread.stub().async()->Step(&call.context, &step, &call.response,
                              call.Done());
  server.WaitForMetric(kWaiting, kUnread + 1);
  call.context.TryCancel();
  server.WaitForMetric(kWaiting, kUnread);
  EXPECT_EQ(call.done.get_future().get().error_code(),
            grpc::StatusCode::CANCELLED);
  unread.End();
  server.WaitForMetric(kOutbound, 0);
  EXPECT_EQ(server.PositionOf(session), 0u);
}

// Steps whose answers are more than a call has of its own.
v1::StreamStepRequest ManyLogitsOf(const std::string& session, int count) {
  v1::StreamStepRequest request;
  for (int i = 0; i < count; ++i) {
    *request.add_requests()->mutable_step() = LogitsStepOf(session, {1});
  }
  return request;
}

TEST(OutboundTest, AStreamOfStepsWaitsForRoom) {
  constexpr int kSteps = 30;
  OpenServer server(LittleRoom());
  UnreadGenerations unread(server);
  Context context;
  const auto stream = unread.stub().StreamStep(&context);
  ASSERT_TRUE(stream->Write(ManyLogitsOf(server.CreateSession(), kSteps)));
  server.WaitForMetric(kWaiting, kUnread + 1);
  unread.End();
  v1::StreamStepResponse response;
  int steps = 0;
  while (steps < kSteps && stream->Read(&response)) {
    for (const auto& result : response.results()) steps += result.has_step();
  }
  EXPECT_EQ(steps, kSteps);
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(stream->Finish(), IsOk());
  server.WaitForMetric(kOutbound, 0);
}

TEST(OutboundTest, AStreamThatWaitsForRoomCanBeCancelled) {
  OpenServer server(LittleRoom());
  UnreadGenerations unread(server);
  const std::string session = server.CreateSession();
  Context context;
  const auto stream = unread.stub().StreamStep(&context);
  ASSERT_TRUE(stream->Write(ManyLogitsOf(session, 3)));
  server.WaitForMetric(kWaiting, kUnread + 1);
  context.TryCancel();
  server.WaitForMetric(kWaiting, kUnread);
  server.WaitForMetric("steadystate_grpc_streams", 0);
  stream->Finish();
  unread.End();
  server.WaitForMetric(kOutbound, 0);
  EXPECT_EQ(server.PositionOf(session), 0u);
}

TEST(OutboundTest, AListOfSessionsWaitsForRoom) {
  OpenServer server(LittleRoom());
  UnreadGenerations unread(server);
  v1::SessionService::Stub sessions(unread.channel());
  v1::ListSessionsRequest request;
  request.set_page_size(1000);
  AsyncCall<v1::ListSessionsResponse> call;
  sessions.async()->ListSessions(&call.context, &request, &call.response,
                                 call.Done());
  AsyncCall<v1::ListSessionsResponse> gone;
  sessions.async()->ListSessions(&gone.context, &request, &gone.response,
                                 gone.Done());
  server.WaitForMetric(kWaiting, kUnread + 2);
  gone.context.TryCancel();
  server.WaitForMetric(kWaiting, kUnread + 1);
  unread.End();
  EXPECT_THAT(call.done.get_future().get(), IsOk());
  EXPECT_EQ(call.response.sessions_size(), kUnread);
  EXPECT_EQ(gone.done.get_future().get().error_code(),
            grpc::StatusCode::CANCELLED);
  server.WaitForMetric(kOutbound, 0);
}

}  // namespace
}  // namespace steadystate::outbound_test
