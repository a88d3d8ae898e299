// Goal: before a server shuts down, each stream and each generation is told
// once, in order with its answers, whether it is idle, busy or not read; and
// nobody is kept waiting for that. Method: a real server and client on a tiny
// model, with the engine held where something has to be under way.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::going_away_test {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

v1::StreamStepRequest RequestOf(const v1::StepRequest& step) {
  v1::StreamStepRequest request;
  *request.mutable_step() = step;
  return request;
}

v1::GenerateRequest EndlessOf(const std::string& session) {
  v1::GenerateRequest request;
  request.set_session(session);
  request.set_text("prompt");
  request.set_ignore_eos(true);
  return request;
}

absl::Time TimeOf(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

TEST(GoingAwayTest, AnIdleStreamIsToldUntilWhenItMayAsk) {
  constexpr absl::Duration kLag = absl::Milliseconds(50);
  OpenServer server;
  const std::string session = server.CreateSession();
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  stream->Write(RequestOf(StepOf(session, {1})));
  v1::StreamStepResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_FALSE(response.has_going_away());
  const absl::Time before = absl::Now();
  server.server().AnnounceShutdown(kLag);
  const absl::Time after = absl::Now();
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.results_size(), 0);
  // The server's clock is read in between; it may be set by then.
  EXPECT_THAT(TimeOf(response.going_away().requests_until()),
              AllOf(Ge(before + kLag - absl::Seconds(1)),
                    Le(after + kLag + absl::Seconds(1))));
  // The server refuses nothing before it shuts down.
  stream->Write(RequestOf(StepOf(session, {2})));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_FALSE(response.has_going_away());
  EXPECT_EQ(response.results(0).step().position(), 2u);
  ASSERT_TRUE(server.server().Shutdown(absl::Seconds(60)).ok());
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(stream->Finish(), HasReason(ErrorReason::kDraining));
}

TEST(GoingAwayTest, ABusyStreamIsToldBeforeItsAnswers) {
  OpenServer server;
  const std::string session = server.CreateSession();
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  EngineHold hold(server);
  stream->Write(RequestOf(StepOf(session, {1, 2, 3})));
  server.WaitForState(session, v1::Session::ACTIVE);
  server.server().AnnounceShutdown(absl::ZeroDuration());
  v1::StreamStepResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.has_going_away());
  EXPECT_EQ(response.results_size(), 0);
  hold.Release();
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_FALSE(response.has_going_away());
  EXPECT_EQ(response.results(0).step().position(), 3u);
}

TEST(GoingAwayTest, AStreamThatOpensLaterIsToldAtOnce) {
  OpenServer server;
  server.server().AnnounceShutdown(absl::ZeroDuration());
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  v1::StreamStepResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.has_going_away());
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(stream->Finish(), IsOk());
}

// It waits for nobody, and comes once, among the answers.
TEST(GoingAwayTest, AStreamThatIsNotReadIsToldWhenItIs) {
  constexpr int kRequests = 20;
  OpenServerOptions options;
  options.model.vocab_size = 1 << 16;
  OpenServer server(options);
  const std::string session = server.CreateSession();
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  for (int i = 0; i < kRequests; ++i) {
    stream->Write(RequestOf(LogitsStepOf(session, {1})));
  }
  stream->WritesDone();
  // Some answers are there, others cannot be made before those are read.
  server.WaitForSome("steadystate_outbound_bytes");
  server.server().AnnounceShutdown(absl::ZeroDuration());
  uint64_t position = 0;
  int told = 0;
  v1::StreamStepResponse response;
  while (stream->Read(&response)) {
    told += response.has_going_away() ? 1 : 0;
    for (const auto& result : response.results()) {
      EXPECT_EQ(result.step().position(), ++position);
    }
  }
  EXPECT_THAT(stream->Finish(), IsOk());
  EXPECT_EQ(position, uint64_t{kRequests});
  EXPECT_EQ(told, 1);
}

TEST(GoingAwayTest, AGenerationIsToldOnceAndGoesOn) {
  constexpr int kMore = 100;
  OpenServer server;
  const std::string session = server.CreateSession();
  Context context;
  const auto stream =
      server.generation().Generate(&context, EndlessOf(session));
  v1::GenerateResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_FALSE(response.has_going_away());
  uint64_t position = response.position();
  server.server().AnnounceShutdown(absl::ZeroDuration());
  int told = 0;
  for (int more = 0; more<kMore; more += told> 0 ? 1 : 0) {
    ASSERT_TRUE(stream->Read(&response));
    told += response.has_going_away() ? 1 : 0;
    // A message that brings nothing else says where the session was before.
    position += static_cast<uint64_t>(response.tokens_size());
    EXPECT_EQ(response.position(), position);
  }
  EXPECT_EQ(told, 1);
  context.TryCancel();
  stream->Finish();
}

TEST(GoingAwayTest, AGenerationWithoutATokenIsTold) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::GenerateRequest request = EndlessOf(session);
  request.set_max_tokens(3);
  Context context;
  EngineHold hold(server);
  const auto stream = server.generation().Generate(&context, request);
  server.WaitForState(session, v1::Session::ACTIVE);
  server.server().AnnounceShutdown(absl::ZeroDuration());
  v1::GenerateResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.has_going_away());
  EXPECT_EQ(response.tokens_size(), 0);
  EXPECT_EQ(response.position(), 0u);
  EXPECT_EQ(response.finish_reason(), v1::FINISH_REASON_UNSPECIFIED);
  hold.Release();
  int tokens = 0;
  while (stream->Read(&response)) {
    EXPECT_FALSE(response.has_going_away());
    tokens += response.tokens_size();
  }
  EXPECT_THAT(stream->Finish(), IsOk());
  EXPECT_EQ(tokens, 3);
  EXPECT_EQ(response.finish_reason(), v1::LENGTH);
}

// Whoever is refused hears of that alone.
TEST(GoingAwayTest, ARefusedGenerationIsNotTold) {
  OpenServer server;
  server.server().AnnounceShutdown(absl::ZeroDuration());
  Context context;
  const auto stream =
      server.generation().Generate(&context, EndlessOf("sessions/none"));
  v1::GenerateResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(stream->Finish(), HasReason(ErrorReason::kSessionNotFound));
}

// Streams that end, and those that begin, at any moment of an announcement.
class EndingStreams {
 public:
  explicit EndingStreams(OpenServer& server)
      : server_(server), sessions_(server.CreateSessions(kThreads)) {}

  void Run() {
    for (size_t i = 0; i < kThreads; ++i) {
      threads_.emplace_back([this, i] {
        for (int round = 0; round < 4; ++round) {
          i % 2 == 0 ? Step(sessions_[i]) : Generate(sessions_[i]);
        }
      });
    }
  }
  ~EndingStreams() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  static constexpr size_t kThreads = 6;

  void Step(const std::string& session) {
    Context context;
    const auto stream = server_.generation().StreamStep(&context);
    stream->Write(RequestOf(StepOf(session, {1})));
    stream->WritesDone();
    ReadOut(*stream, v1::StreamStepResponse());
  }

  void Generate(const std::string& session) {
    Context context;
    v1::GenerateRequest request = EndlessOf(session);
    request.set_max_tokens(2);
    ReadOut(*server_.generation().Generate(&context, request),
            v1::GenerateResponse());
  }

  template <typename Stream, typename Response>
  void ReadOut(Stream& stream, Response response) {
    int told = 0;
    while (stream.Read(&response)) told += response.has_going_away() ? 1 : 0;
    EXPECT_LE(told, 1);
    EXPECT_THAT(stream.Finish(), IsOk());
  }

  OpenServer& server_;
  const std::vector<std::string> sessions_;
  std::vector<std::thread> threads_;
};

TEST(GoingAwayTest, OpenStreamsAreToldWhileOthersEnd) {
  constexpr int kServers = 10;
  for (int i = 0; i < kServers; ++i) {
    OpenServer server;
    const Parking parking;
    Context context;
    const auto stays = server.generation().StreamStep(&context);
    server.WaitForMetric("steadystate_grpc_streams", 1);
    {
      EndingStreams others(server);
      others.Run();
      server.server().AnnounceShutdown(absl::ZeroDuration());
    }
    v1::StreamStepResponse response;
    ASSERT_TRUE(stays->Read(&response));
    EXPECT_TRUE(response.has_going_away());
    EXPECT_TRUE(server.server().Shutdown(absl::Seconds(60)).ok());
    EXPECT_FALSE(stays->Read(&response));
    EXPECT_THAT(stays->Finish(), HasReason(ErrorReason::kDraining));
  }
}

// A client's generation goes on, on a session that a stream beside it has made
// and that ends with that: the stream ends at once, having nothing to do.
TEST(GoingAwayTest, AGenerationOnAStreamsSessionIsLetGoOn) {
  // More than is sent to a client that does not read.
  constexpr uint64_t kTokens = 30000;
  OpenServer server;
  Context of_stream;
  const auto stream = server.generation().StreamStep(&of_stream);
  v1::StepRequest makes;
  makes.set_session("sessions/e");
  makes.set_ephemeral(true);
  ASSERT_TRUE(stream->Write(RequestOf(makes)));
  v1::StreamStepResponse made;
  ASSERT_TRUE(stream->Read(&made));
  v1::GenerateRequest request = EndlessOf("sessions/e");
  request.set_max_tokens(kTokens);
  Context context;
  const auto generation = server.generation().Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(generation->Read(&response));
  auto tokens = static_cast<uint64_t>(response.tokens_size());
  std::thread shutdown([&server] {
    EXPECT_TRUE(server.server().Shutdown(absl::Seconds(60)).ok());
  });
  EXPECT_FALSE(stream->Read(&made));
  EXPECT_THAT(stream->Finish(), HasReason(ErrorReason::kDraining));
  // It would end the session by now.
  server.WaitForMetric("steadystate_grpc_streams", 0);
  while (generation->Read(&response)) {
    tokens += static_cast<uint64_t>(response.tokens_size());
  }
  EXPECT_THAT(generation->Finish(), IsOk());
  EXPECT_EQ(tokens, kTokens);
  shutdown.join();
}

}  // namespace
}  // namespace steadystate::going_away_test
