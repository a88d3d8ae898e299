// Goal: a stream of many sessions answers each request once, in its session's
// order, with the bytes that a lone step gives; and it stays within bounds
// whatever its client does. Method: a real server and client on tiny models.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::stream_step_test {
namespace {

using Result = v1::StreamStepResponse::Result;
using Stream =
    grpc::ClientReaderWriter<v1::StreamStepRequest, v1::StreamStepResponse>;

v1::StreamStepRequest RequestOf(const std::string& id,
                                const v1::StepRequest& step) {
  v1::StreamStepRequest request;
  request.set_request_id(id);
  *request.mutable_step() = step;
  return request;
}

// Sends all requests, closes, and reads to the end. Reads on a thread of its
// own, so that neither side waits for the other.
struct Exchange {
  std::vector<Result> results;
  size_t messages = 0;
  grpc::Status status;
};

Exchange Converse(OpenServer& server,
                  const std::vector<v1::StreamStepRequest>& requests) {
  Exchange exchange;
  Context context;
  const std::unique_ptr<Stream> stream =
      server.generation().StreamStep(&context);
  std::thread reader([&] {
    v1::StreamStepResponse response;
    while (stream->Read(&response)) {
      ++exchange.messages;
      EXPECT_GT(response.results_size(), 0);
      for (const Result& result : response.results()) {
        exchange.results.push_back(result);
      }
    }
  });
  for (const v1::StreamStepRequest& request : requests) {
    if (!stream->Write(request)) break;
  }
  stream->WritesDone();
  reader.join();
  exchange.status = stream->Finish();
  return exchange;
}

TEST(StreamStepTest, SessionsInterleavedOnStreamsEqualLoneSteps) {
  constexpr size_t kStreams = 4;
  constexpr size_t kSessions = 64;
  constexpr size_t kSteps = 10;
  OpenServer server;
  const std::vector<std::string> streamed = server.CreateSessions(kSessions);
  std::mt19937 random(7);
  std::vector<std::vector<v1::StreamStepRequest>> requests(kStreams);
  std::vector<std::vector<int32_t>> tokens;
  for (size_t s = 0; s < kSessions; ++s) {
    tokens.push_back(SomeTokens(kSteps, static_cast<uint32_t>(s)));
  }
  // A random order that keeps each session's own.
  for (size_t stream = 0; stream < kStreams; ++stream) {
    std::vector<size_t> turns;
    for (size_t s = stream; s < kSessions; s += kStreams) {
      turns.insert(turns.end(), kSteps, s);
    }
    std::shuffle(turns.begin(), turns.end(), random);
    std::map<size_t, size_t> next;
    for (const size_t s : turns) {
      const size_t step = next[s]++;
      requests[stream].push_back(
          RequestOf(absl::StrCat(s, "/", step),
                    LogitsStepOf(streamed[s], {tokens[s][step]})));
    }
  }
  std::vector<Exchange> exchanges(kStreams);
  std::vector<std::thread> clients;
  for (size_t i = 0; i < kStreams; ++i) {
    clients.emplace_back(
        [&, i] { exchanges[i] = Converse(server, requests[i]); });
  }
  for (std::thread& client : clients) client.join();

  std::map<std::string, const Result*> by_id;
  for (const Exchange& exchange : exchanges) {
    EXPECT_THAT(exchange.status, IsOk());
    for (const Result& result : exchange.results) {
      ASSERT_TRUE(result.has_step()) << ToWireError(result.error());
      EXPECT_TRUE(by_id.emplace(result.request_id(), &result).second);
      EXPECT_EQ(result.session(), result.step().session());
    }
  }
  ASSERT_EQ(by_id.size(), kSessions * kSteps);
  for (size_t s = 0; s < kSessions; ++s) {
    const std::string alone = server.CreateSession();
    for (size_t step = 0; step < kSteps; ++step) {
      const v1::StepResponse expected =
          server.Step(LogitsStepOf(alone, {tokens[s][step]}));
      const v1::StepResponse& got =
          by_id.at(absl::StrCat(s, "/", step))->step();
      EXPECT_EQ(got.position(), step + 1);
      EXPECT_TRUE(std::equal(expected.logits().begin(), expected.logits().end(),
                             got.logits().begin(), got.logits().end()))
          << "session " << s << " step " << step;
    }
  }
}

// The requests in messages of `most` at most.
std::vector<v1::StreamStepRequest> Together(
    const std::vector<v1::StreamStepRequest>& requests, size_t most) {
  std::vector<v1::StreamStepRequest> messages;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i % most == 0) messages.emplace_back();
    v1::StreamStepRequest::Request& added = *messages.back().add_requests();
    added.set_request_id(requests[i].request_id());
    if (requests[i].has_step()) *added.mutable_step() = requests[i].step();
  }
  return messages;
}

TEST(StreamStepTest, StepsOfOneMessageAreAnsweredInOneMessage) {
  constexpr size_t kSessions = 64;
  OpenServer server;
  std::vector<v1::StreamStepRequest> requests;
  for (const std::string& session : server.CreateSessions(kSessions)) {
    requests.push_back(RequestOf(session, StepOf(session, {1})));
  }
  const Exchange exchange = Converse(server, Together(requests, kSessions));
  ASSERT_THAT(exchange.status, IsOk());
  EXPECT_EQ(exchange.messages, 1u);
  ASSERT_EQ(exchange.results.size(), kSessions);
  for (const Result& result : exchange.results) {
    EXPECT_EQ(result.request_id(), result.session());
    EXPECT_EQ(result.step().session(), result.session());
    EXPECT_EQ(result.step().position(), 1u);
  }
}

TEST(StreamStepTest, MessagesOfManyStepsEqualManyMessages) {
  OpenServer server;
  const std::vector<std::string> alone = server.CreateSessions(8);
  const std::vector<std::string> together = server.CreateSessions(8);
  const auto requests_for = [](const std::vector<std::string>& sessions) {
    std::vector<v1::StreamStepRequest> requests;
    for (int i = 0; i < 200; ++i) {
      const size_t s = static_cast<size_t>(i) % sessions.size();
      v1::StepRequest step = LogitsStepOf(sessions[s], {i % 7 == 6 ? 999 : i});
      requests.push_back(RequestOf(absl::StrCat(s, ":", i), step));
    }
    return requests;
  };
  const auto by_id = [](const Exchange& exchange) {
    std::map<std::string, std::string> logits;
    for (const Result& result : exchange.results) {
      logits[result.request_id()] =
          result.has_step()
              ? std::string(reinterpret_cast<const char*>(
                                result.step().logits().data()),
                            sizeof(float) * static_cast<size_t>(
                                                result.step().logits_size()))
              : std::string(ToWireError(result.error()).message);
    }
    return logits;
  };
  const Exchange one = Converse(server, requests_for(alone));
  const Exchange many = Converse(server, Together(requests_for(together), 13));
  EXPECT_EQ(one.results.size(), 200u);
  EXPECT_EQ(many.results.size(), 200u);
  EXPECT_EQ(by_id(one), by_id(many));
}

// More steps than may be in flight, in one message: the rest of it waits.
TEST(StreamStepTest, AMessageMayHaveMoreStepsThanThereIsRoomFor) {
  constexpr size_t kSessions = 100;
  constexpr size_t kSteps = 30;
  OpenServerOptions options;
  options.server.max_steps_per_message = kSessions * kSteps;
  OpenServer server(options);
  const std::vector<std::string> sessions = server.CreateSessions(kSessions);
  std::vector<v1::StreamStepRequest> requests;
  for (size_t i = 0; i < kSteps; ++i) {
    for (const std::string& session : sessions) {
      requests.push_back(RequestOf(absl::StrCat(i), StepOf(session, {1})));
    }
  }
  const Exchange exchange =
      Converse(server, Together(requests, requests.size()));
  ASSERT_THAT(exchange.status, IsOk());
  ASSERT_EQ(exchange.results.size(), kSessions * kSteps);
  std::map<std::string, uint64_t> positions;
  for (const Result& result : exchange.results) {
    EXPECT_EQ(result.step().position(), ++positions[result.session()]);
  }
}

TEST(StreamStepTest, CancelWithinALongMessageEndsTheStream) {
  OpenServerOptions options;
  options.server.max_steps_per_message = 5000;
  OpenServer server(options);
  const std::string session = server.CreateSession();
  std::vector<v1::StreamStepRequest> requests(
      5000, RequestOf("", StepOf(session, {1})));
  {
    Context context;
    const auto stream = server.generation().StreamStep(&context);
    stream->Write(Together(requests, requests.size())[0]);
    v1::StreamStepResponse response;
    ASSERT_TRUE(stream->Read(&response));
    context.TryCancel();
    while (stream->Read(&response)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  server.WaitForMetric("steadystate_grpc_streams", 0);
}

TEST(StreamStepTest, OwnStepAndFurtherOnesAreOneMessage) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::StreamStepRequest message = RequestOf("a", StepOf(session, {1}));
  message.add_requests()->set_request_id("without a step");
  v1::StreamStepRequest::Request& last = *message.add_requests();
  last.set_request_id("b");
  *last.mutable_step() = StepOf(session, {2});
  const Exchange exchange = Converse(server, {message});
  ASSERT_THAT(exchange.status, IsOk());
  std::map<std::string, Result> by_id;
  for (const Result& result : exchange.results) {
    by_id[result.request_id()] = result;
  }
  ASSERT_EQ(by_id.size(), 3u);
  EXPECT_EQ(by_id["a"].step().position(), 1u);
  EXPECT_EQ(by_id["b"].step().position(), 2u);
  EXPECT_THAT(by_id["without a step"].error(), IsAboutField("request"));
}

TEST(StreamStepTest, RefusalsAmongManyStepsOfAMessageMixNothingUp) {
  constexpr size_t kSessions = 150;  // more than are taken up at once
  OpenServer server;
  std::vector<v1::StreamStepRequest> requests;
  for (const std::string& session : server.CreateSessions(kSessions)) {
    const size_t i = requests.size();
    v1::StepRequest step = StepOf(session, {1});
    if (i % 3 == 1) step = StepOf(session, {1, 999});     // refused at once
    if (i % 7 == 1) step = StepOf("sessions/none", {1});  // by the engine
    requests.push_back(RequestOf(absl::StrCat(i), step));
  }
  std::vector<v1::StreamStepRequest> messages = Together(requests, kSessions);
  messages.push_back(messages[0]);
  const Exchange exchange = Converse(server, messages);
  ASSERT_THAT(exchange.status, IsOk());
  std::vector<size_t> answers(kSessions, 0);
  for (const Result& result : exchange.results) {
    size_t i = 0;
    ASSERT_TRUE(absl::SimpleAtoi(result.request_id(), &i));
    EXPECT_EQ(result.session(), requests[i].step().session());
    const size_t round = ++answers[i];
    if (i % 7 == 1) {
      EXPECT_THAT(result.error(), HasReason(ErrorReason::kSessionNotFound))
          << i;
    } else if (i % 3 == 1) {
      EXPECT_THAT(result.error(), HasReason(ErrorReason::kTokenOutOfRange))
          << i;
    } else {
      EXPECT_EQ(result.step().position(), round) << i;
    }
  }
  EXPECT_THAT(answers, testing::Each(2u));
}

TEST(StreamStepTest, AnswersOfASessionKeepItsOrderRefusalsIncluded) {
  OpenServer server;
  const std::vector<std::string> sessions = server.CreateSessions(2);
  std::vector<v1::StreamStepRequest> requests;
  for (int i = 0; i < 20; ++i) {
    for (const std::string& session : sessions) {
      // Every third is refused at once, without waiting for its turn.
      v1::StepRequest step = StepOf(session, {i % 3 == 2 ? 999 : i});
      requests.push_back(RequestOf(absl::StrCat(i), step));
    }
  }
  const Exchange exchange = Converse(server, requests);
  ASSERT_THAT(exchange.status, IsOk());
  std::map<std::string, int> next;
  for (const Result& result : exchange.results) {
    EXPECT_EQ(result.request_id(), absl::StrCat(next[result.session()]));
    EXPECT_EQ(result.has_error(), next[result.session()] % 3 == 2);
    ++next[result.session()];
  }
  for (const std::string& session : sessions) EXPECT_EQ(next[session], 20);
  EXPECT_EQ(server.PositionOf(sessions[0]), 14u);
}

TEST(StreamStepTest, ErrorsAreAnswersAndCloseNothing) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::StepRequest mismatch = StepOf(session, {1});
  mismatch.set_expected_position(9);
  const std::string long_id(129, 'i');
  const Exchange exchange = Converse(
      server,
      {RequestOf("ok", StepOf(session, {1})),
       RequestOf("token", StepOf(session, {-1})),
       RequestOf("unknown", StepOf("sessions/none", {1})),
       RequestOf("name", StepOf("what is this", {1})),
       RequestOf("mismatch", mismatch), RequestOf("none", v1::StepRequest()),
       RequestOf(long_id, StepOf(session, {1})), v1::StreamStepRequest(),
       RequestOf("last", StepOf(session, {2}))});
  ASSERT_THAT(exchange.status, IsOk());
  ASSERT_EQ(exchange.results.size(), 9u);
  std::map<std::string, Result> by_id;
  for (const Result& result : exchange.results) {
    by_id[result.request_id()] = result;
  }
  EXPECT_EQ(by_id["ok"].step().position(), 1u);
  EXPECT_EQ(by_id["last"].step().position(), 2u);
  EXPECT_THAT(by_id["token"].error(), HasReason(ErrorReason::kTokenOutOfRange));
  EXPECT_THAT(by_id["unknown"].error(),
              HasReason(ErrorReason::kSessionNotFound));
  EXPECT_EQ(by_id["unknown"].session(), "sessions/none");
  EXPECT_THAT(by_id["name"].error(), IsAboutField("session"));
  EXPECT_EQ(by_id["name"].session(), "what is this");
  EXPECT_THAT(by_id["mismatch"].error(),
              HasReason(ErrorReason::kPositionMismatch));
  EXPECT_EQ(ToWireError(by_id["mismatch"].error()).metadata["position"], "1");
  EXPECT_THAT(by_id["none"].error(), IsAboutField("session"));
  EXPECT_THAT(by_id[std::string(128, 'i')].error(), IsAboutField("request_id"));
  EXPECT_THAT(by_id[""].error(), IsAboutField("request"));
  EXPECT_EQ(server.MetricValue(
                "steadystate_errors_total{reason=\"POSITION_MISMATCH\"}"),
            1);
}

TEST(StreamStepTest, FullQueueAnswersThatRequestOnly) {
  OpenServerOptions options;
  options.engine.max_queued_per_session = 1;
  OpenServer server(options);
  const std::string session = server.CreateSession();
  std::vector<v1::StreamStepRequest> requests;
  for (int i = 0; i < 9; ++i) {
    requests.push_back(RequestOf(absl::StrCat(i), StepOf(session, {1})));
  }
  // In one message, so that none is answered before the last has come: one has
  // its turn, one waits.
  const Exchange exchange = Converse(server, Together(requests, 9));
  ASSERT_THAT(exchange.status, IsOk());
  ASSERT_EQ(exchange.results.size(), 9u);
  int full = 0;
  for (const Result& result : exchange.results) {
    if (!result.has_error()) continue;
    ++full;
    EXPECT_THAT(result.error(), HasReason(ErrorReason::kQueueFull));
    EXPECT_TRUE(ToWireError(result.error()).retry_after.has_value());
    EXPECT_EQ(ToWireError(result.error()).metadata.count("bounds"), 1u);
  }
  EXPECT_EQ(full, 7);
  EXPECT_EQ(server.PositionOf(session), 2u);
}

TEST(StreamStepTest, SecondWriterIsRefused) {
  OpenServer server;
  const std::string session = server.CreateSession();
  EngineHold hold(server);
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  stream->Write(RequestOf("first", StepOf(session, {1})));
  server.WaitForState(session, v1::Session::ACTIVE);
  const Exchange other =
      Converse(server, {RequestOf("x", StepOf(session, {1}))});
  ASSERT_EQ(other.results.size(), 1u);
  EXPECT_THAT(other.results[0].error(), HasReason(ErrorReason::kSessionBusy));
  hold.Release();
  stream->WritesDone();
  v1::StreamStepResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_THAT(stream->Finish(), IsOk());
}

TEST(StreamStepTest, EmptyStreamEndsWithOk) {
  OpenServer server;
  const Exchange exchange = Converse(server, {});
  EXPECT_THAT(exchange.status, IsOk());
  server.WaitForMetric("steadystate_grpc_streams", 0);
}

TEST(StreamStepTest, DeadlineCompletesWhatBeganAndLeavesTheRestUndone) {
  OpenServerOptions options;
  options.engine.prefill_chunk_rows = 1;
  options.engine.max_step_tokens = 1 << 20;
  OpenServer server(options);
  constexpr char kCount[] =
      "steadystate_request_duration_seconds_count{code=\"DEADLINE_EXCEEDED\","
      "method=\"steadystate.v1.GenerationService/StreamStep\"}";
  double counted = 0;
  uint64_t tokens = 0;
  uint64_t position = 0;
  // A busy machine gets more time, and more to do in it, until the step has
  // begun before its deadline.
  for (int scale = 1; position == 0 && scale <= 32; scale *= 2) {
    const std::string session = server.CreateSession();
    counted = std::max(server.MetricValue(kCount), 0.0);
    tokens = uint64_t{30'000} * static_cast<uint64_t>(scale);
    {
      Context context(scale * absl::Milliseconds(100));
      const auto stream = server.generation().StreamStep(&context);
      stream->Write(RequestOf("long", StepOf(session, SomeTokens(tokens, 1))));
      stream->Write(RequestOf("behind", StepOf(session, {1})));
      v1::StreamStepResponse response;
      EXPECT_FALSE(stream->Read(&response));
      EXPECT_EQ(stream->Finish().error_code(),
                grpc::StatusCode::DEADLINE_EXCEEDED);
    }
    server.WaitForMetric("steadystate_grpc_streams", 0);
    position = server.PositionOf(session);
  }
  EXPECT_EQ(position, tokens);
  EXPECT_GT(server.MetricValue(kCount), counted);
}

TEST(StreamStepTest, CancelLeavesEveryStepWholeOrUndone) {
  OpenServer server;
  const std::string session = server.CreateSession();
  {
    Context context;
    const auto stream = server.generation().StreamStep(&context);
    for (int i = 0; i < 30; ++i) {
      stream->Write(RequestOf("", StepOf(session, SomeTokens(100, 1))));
    }
    v1::StreamStepResponse response;
    ASSERT_TRUE(stream->Read(&response));
    context.TryCancel();
    while (stream->Read(&response)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  server.WaitForMetric("steadystate_grpc_streams", 0);
  const uint64_t position = server.PositionOf(session);
  EXPECT_EQ(position % 100, 0u);
  EXPECT_GE(position, 100u);
  server.Step(StepOf(session, {1}));
}

TEST(StreamStepTest, ClientThatDoesNotReadIsNotReadEither) {
  OpenServerOptions options;
  options.model.vocab_size = 32768;  // 128 KiB an answer
  OpenServer server(options);
  const std::string session = server.CreateSession();
  const std::string other = server.CreateSession();
  constexpr uint64_t kRequests = 1000;
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  std::thread writer([&] {
    for (uint64_t i = 0; i < kRequests; ++i) {
      stream->Write(RequestOf("", LogitsStepOf(session, {1})));
    }
    stream->WritesDone();
  });
  // It comes to a stop while somebody else goes on.
  uint64_t position = 0;
  int unchanged = 0;
  while (unchanged < 200 && position < kRequests) {
    const uint64_t before = position;
    server.Step(StepOf(other, {1}));
    position = server.PositionOf(session);
    unchanged = position == before ? unchanged + 1 : 0;
  }
  // Our bound is 2 MiB; the rest is what sockets and HTTP/2 hold.
  EXPECT_LT(position, uint64_t{300});
  v1::StreamStepResponse response;
  uint64_t answers = 0;
  size_t largest = 0;
  while (stream->Read(&response)) {
    largest = std::max(largest, response.ByteSizeLong());
    answers += static_cast<uint64_t>(response.results_size());
  }
  writer.join();
  EXPECT_THAT(stream->Finish(), IsOk());
  EXPECT_EQ(answers, kRequests);
  EXPECT_LE(largest, size_t{1} << 20);
  EXPECT_EQ(server.PositionOf(session), kRequests);
}

TEST(StreamStepTest, ShutdownEndsAnIdleStream) {
  OpenServer server;
  const std::string session = server.CreateSession();
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  stream->Write(RequestOf("a", StepOf(session, {1})));
  v1::StreamStepResponse response;
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(server.server().Shutdown(absl::Seconds(5)).ok());
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_THAT(status, HasReason(ErrorReason::kDraining));
  EXPECT_TRUE(ToWireError(status).retry_after.has_value());
}

TEST(StreamStepTest, ShutdownAnswersWhatWasAccepted) {
  OpenServer server;
  const std::string session = server.CreateSession();
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  EngineHold hold(server);
  stream->Write(RequestOf("a", StepOf(session, {1, 2, 3})));
  server.WaitForState(session, v1::Session::ACTIVE);
  std::thread reader([&] {
    v1::StreamStepResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.results(0).step().position(), 3u);
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_THAT(stream->Finish(), HasReason(ErrorReason::kDraining));
  });
  // It is answered after the drain has begun, of which new sessions tell.
  std::thread releaser([&] {
    grpc::Status created;
    do {
      Context create;
      v1::Session unused;
      created = server.sessions().CreateSession(&create, {}, &unused);
    } while (created.ok());
    hold.Release();
  });
  EXPECT_TRUE(server.server().Shutdown(absl::Seconds(60)).ok());
  releaser.join();
  reader.join();
}

TEST(StreamStepTest, SessionsThatAStreamMakesEndWithIt) {
  OpenServer server;
  const auto step = [](const std::string& session) {
    v1::StepRequest request = StepOf(session, {1, 2});
    request.set_ephemeral(true);
    request.mutable_timeout()->set_seconds(60);
    return request;
  };
  const auto count = [&server] {
    return server.engine().ListSessions(100, "")->sessions.size();
  };
  for (const bool cancels : {false, true}) {
    Context context;
    const auto stream = server.generation().StreamStep(&context);
    v1::StreamStepRequest request;
    for (int i = 0; i < 20; ++i) {
      request.add_requests()->mutable_step()->CopyFrom(
          step(absl::StrCat("sessions/e", i % 10)));
    }
    ASSERT_TRUE(stream->Write(request));
    v1::StreamStepResponse response;
    for (int results = 0; results < 20;) {
      ASSERT_TRUE(stream->Read(&response));
      results += response.results_size();
      for (const Result& result : response.results()) {
        ASSERT_TRUE(result.has_step()) << ToWireError(result.error());
      }
    }
    EXPECT_EQ(count(), 10u);
    v1::Session session;
    Context get;
    v1::GetSessionRequest name;
    name.set_name("sessions/e3");
    ASSERT_THAT(server.sessions().GetSession(&get, name, &session), IsOk());
    EXPECT_TRUE(session.ephemeral());
    EXPECT_EQ(session.position(), 4u);
    EXPECT_FALSE(session.has_expire_time());
    if (cancels) {
      context.TryCancel();
    } else {
      stream->WritesDone();
    }
    while (stream->Read(&response)) {
    }
    stream->Finish();
    while (count() > 0) std::this_thread::yield();
  }
}

TEST(StreamStepTest, AStepMayDoNoMoreThanMakeItsSession) {
  OpenServer server;
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  v1::StepRequest step;
  step.set_session("sessions/e");
  step.set_ephemeral(true);
  ASSERT_TRUE(stream->Write(RequestOf("a", step)));
  v1::StreamStepResponse response;
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(response.results(0).has_step());
  EXPECT_EQ(response.results(0).step().position(), 0u);
  // Whoever knows its name uses it.
  EXPECT_EQ(server.Step(StepOf("sessions/e", {1, 2})).position(), 2u);
  step.mutable_output()->set_logits(true);
  ASSERT_TRUE(stream->Write(RequestOf("b", step)));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(response.results(0).has_error());
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(stream->Finish(), IsOk());
  while (!server.engine().ListSessions(100, "")->sessions.empty()) {
    std::this_thread::yield();
  }
}

// A turn of a conversation goes in as text, and what is drawn comes out as
// text, the same as from Generate; a repeat is told the same text.
TEST(StreamStepTest, TextGoesInAndComesOut) {
  constexpr int kTokens = 100;
  OpenServer server;
  v1::GenerateRequest generate;
  generate.set_session(server.CreateSession());
  generate.set_text("How are you? ");
  generate.set_max_tokens(kTokens);
  generate.mutable_sampling()->set_seed(3);
  std::string whole;
  Context whole_context;
  const auto generation =
      server.generation().Generate(&whole_context, generate);
  v1::GenerateResponse part;
  while (generation->Read(&part)) {
    whole += part.text_delta();
  }
  ASSERT_THAT(generation->Finish(), IsOk());

  v1::StepRequest step;
  step.set_session(server.CreateSession());
  step.set_text("How are you? ");
  step.mutable_output()->set_text(true);
  step.mutable_output()->mutable_sample()->set_seed(3);
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  v1::StreamStepResponse response;
  std::string text;
  uint64_t position = 0;
  for (int i = 0; i < kTokens; ++i) {
    step.set_expected_position(position);
    std::string told;
    for (const bool again : {false, true}) {
      ASSERT_TRUE(stream->Write(RequestOf("r", step)));
      ASSERT_TRUE(stream->Read(&response));
      ASSERT_TRUE(response.results(0).has_step())
          << ToWireError(response.results(0).error());
      EXPECT_EQ(response.results(0).step().replayed(), again);
      const std::string delta = response.results(0).step().text_delta();
      EXPECT_EQ(delta, again ? told : delta);
      told = delta;
    }
    text += told;
    position = response.results(0).step().position();
    step.mutable_tokens()->mutable_ids()->Clear();
    step.mutable_tokens()->add_ids(response.results(0).step().sampled_token());
  }
  EXPECT_EQ(position, 13u + kTokens - 1);
  EXPECT_EQ(text, whole);
  EXPECT_GT(whole.size(), 0u);
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(stream->Finish(), IsOk());
}

// Steps whose texts come to more than gRPC's threads have time for.
v1::StreamStepRequest ManyTexts(const std::vector<std::string>& sessions) {
  v1::StreamStepRequest message;
  for (int i = 0; i < 8; ++i) {
    for (const std::string& session : sessions) {
      v1::StreamStepRequest::Request& added = *message.add_requests();
      added.set_request_id(absl::StrCat(i));
      added.mutable_step()->set_session(session);
      added.mutable_step()->set_text(std::string(1024, 'a'));
    }
  }
  return message;
}

TEST(StreamStepTest, ManyTextsBecomeTokensOnAThreadForThat) {
  OpenServer server;
  const std::vector<std::string> sessions = server.CreateSessions(8);
  ThreadHold hold("StreamStepReactor::GoOnElsewhere");
  std::thread releaser([&hold] {
    hold.WaitUntilHeld();
    hold.Release();
  });
  const Exchange exchange = Converse(server, {ManyTexts(sessions)});
  releaser.join();
  EXPECT_THAT(exchange.status, IsOk());
  // Of 64 KiB, some 16 at a time.
  EXPECT_GE(hold.count(), 2);
  ASSERT_EQ(exchange.results.size(), 64u);
  std::map<std::string, int> seen;
  for (const Result& result : exchange.results) {
    ASSERT_TRUE(result.has_step()) << ToWireError(result.error());
    int& count = seen[result.session()];
    EXPECT_EQ(result.request_id(), absl::StrCat(count));
    EXPECT_EQ(result.step().position(), 1024u * static_cast<uint64_t>(++count));
  }
  EXPECT_EQ(seen.size(), 8u);
}

TEST(StreamStepTest, ACallWhoseTextsWaitIsCancelledAtOnce) {
  OpenServer server;
  const std::vector<std::string> sessions = server.CreateSessions(8);
  ThreadHold hold("StreamStepReactor::GoOnElsewhere");
  // The thread for texts is busy with this one.
  Context first_context;
  const auto first = server.generation().StreamStep(&first_context);
  ASSERT_TRUE(first->Write(ManyTexts(sessions)));
  hold.WaitUntilHeld();
  const std::vector<std::string> others = server.CreateSessions(2);
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  ASSERT_TRUE(stream->Write(ManyTexts(others)));
  server.WaitForMetric("steadystate_long_work_waiting{kind=\"texts\"}", 1);
  context.TryCancel();
  v1::StreamStepResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  server.WaitForMetric("steadystate_long_work_waiting{kind=\"texts\"}", 0);
  server.WaitForMetric("steadystate_grpc_streams", 1);
  hold.Release();
  int results = 0;
  while (results < 64 && first->Read(&response)) {
    results += response.results_size();
  }
  EXPECT_EQ(results, 64);
  first->WritesDone();
  EXPECT_THAT(first->Finish(), IsOk());
}

TEST(StreamStepTest, WhatOnlyAStreamMayAskIsRefusedElsewhere) {
  OpenServer server;
  v1::StepRequest request = StepOf("sessions/e", {1});
  request.set_ephemeral(true);
  v1::StepResponse response;
  Context context;
  EXPECT_THAT(server.generation().Step(&context, request, &response),
              IsAboutField("ephemeral"));
  request.clear_ephemeral();
  request.mutable_timeout()->set_seconds(0);
  Context second;
  EXPECT_THAT(server.generation().Step(&second, request, &response),
              IsAboutField("timeout"));
}

}  // namespace
}  // namespace steadystate::stream_step_test
