// Goal: a stream that answers, fails and breaks as its comments say, and calls
// that go on without a thread. Method: servers within the test that answer by a
// script, so that streams break where the test wants them to.
#include "steadystate/step_stream.h"

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "steadystate/error.h"

namespace steadystate::client::step_stream_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

using Stream =
    grpc::ServerReaderWriter<v1::StreamStepResponse, v1::StreamStepRequest>;
using Script = std::function<grpc::Status(grpc::ServerContext&, Stream&)>;

// A server of one script, and a client of it.
class ScriptedServer : public v1::GenerationService::Service {
 public:
  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    auto client = Client::Connect("127.0.0.1:" + std::to_string(port),
                                  {.connect_timeout = absl::Minutes(1)});
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = std::make_unique<Client>(*std::move(client));
  }

  Client& client() { return *client_; }

  grpc::Status StreamStep(grpc::ServerContext* context,
                          Stream* stream) override {
    return script_(*context, *stream);
  }

  // Draws tokens for as long as the client wants them.
  grpc::Status Generate(
      grpc::ServerContext* context, const v1::GenerateRequest* request,
      grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    v1::GenerateResponse message;
    const bool endless = !request->has_max_tokens();
    for (uint64_t i = 0; endless || i < request->max_tokens(); ++i) {
      message.set_position(i + 1);
      if (context->IsCancelled() || !writer->Write(message)) break;
    }
    return grpc::Status::OK;
  }

 private:
  const Script script_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Client> client_;
};

// Answers one request as a server does whose session is where it is expected.
void Absorb(const v1::StreamStepRequest::Request& request,
            v1::StreamStepResponse& response) {
  auto& result = *response.add_results();
  result.set_request_id(request.request_id());
  result.set_session(request.step().session());
  result.mutable_step()->set_position(
      request.step().expected_position() +
      static_cast<uint64_t>(request.step().tokens().ids_size()));
}

// Answers messages as they come, each by one.
grpc::Status Echo(grpc::ServerContext& /*context*/, Stream& stream) {
  v1::StreamStepRequest message;
  while (stream.Read(&message)) {
    v1::StreamStepResponse response;
    for (const auto& request : message.requests()) Absorb(request, response);
    stream.Write(response);
  }
  return grpc::Status::OK;
}

Step Tokens(const std::vector<int32_t>& tokens) {
  Step step;
  step.tokens = tokens;
  return step;
}

const std::vector<int32_t>& OneToken() {
  static const auto* const token = new std::vector<int32_t>{1};
  return *token;
}

TEST(StepStreamTest, AnswersStepsOfManySessions) {
  ScriptedServer server(Echo);
  const auto stream = StepStream::Open(server.client());
  const std::vector<int32_t> prompt(10, 1);
  const size_t a = stream->AddSession("sessions/a", 100);
  const size_t b = stream->AddSession("sessions/b", 0);
  ASSERT_TRUE(stream->Send(a, Tokens(prompt), 1).ok());
  ASSERT_TRUE(stream->Send(b, Tokens(prompt), 2).ok());
  ASSERT_TRUE(stream->Send(a, Tokens(OneToken()), 3).ok());
  std::vector<uint64_t> positions(4);
  while (const auto answer = stream->Next()) {
    ASSERT_TRUE(answer->step.ok());
    EXPECT_EQ(answer->session, answer->tag == 2 ? b : a);
    positions[answer->tag] = answer->step->position();
  }
  EXPECT_THAT(positions, ElementsAre(0, 110, 10, 111));
  EXPECT_EQ(stream->Standing(a).position, 111u);
  EXPECT_THAT(stream->Unanswered(), IsEmpty());
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_FALSE(stream->broken());
}

// Says that it goes away: alone, and again with an answer, as no server does.
grpc::Status GoAwayAndEcho(grpc::ServerContext& /*context*/, Stream& stream) {
  v1::StreamStepRequest message;
  while (stream.Read(&message)) {
    v1::StreamStepResponse response;
    auto& until = *response.mutable_going_away()->mutable_requests_until();
    until.set_seconds(1'000'000'000);
    until.set_nanos(500'000'000);
    stream.Write(response);
    for (const auto& request : message.requests()) Absorb(request, response);
    stream.Write(response);
  }
  return grpc::Status::OK;
}

TEST(StepStreamTest, HearsThatTheServerGoesAway) {
  const absl::Time until =
      absl::FromUnixSeconds(1'000'000'000) + absl::Milliseconds(500);
  ScriptedServer server(GoAwayAndEcho);
  int told = 0;
  StepStreamOptions options;
  options.on_going_away = [&](absl::Time requests_until) {
    EXPECT_EQ(requests_until, until);
    ++told;
  };
  const auto stream = StepStream::Open(server.client(), options);
  EXPECT_EQ(stream->going_away(), std::nullopt);
  const size_t a = stream->AddSession("sessions/a", 0);
  for (uint64_t tag = 1; tag < 3; ++tag) {
    ASSERT_TRUE(stream->Send(a, Tokens(OneToken()), tag).ok());
    const auto answer = stream->Next();
    ASSERT_TRUE(answer.has_value() && answer->step.ok());
    EXPECT_EQ(answer->step->position(), tag);
    EXPECT_EQ(stream->going_away(), until);
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(told, 1);
}

TEST(StepStreamTest, AMessageWithoutAnswersIsNoneToTheCallback) {
  ScriptedServer server(GoAwayAndEcho);
  std::promise<void> answered;
  StepStreamOptions options;
  options.on_answers = [&](absl::Span<StepAnswer> answers) {
    EXPECT_EQ(answers.size(), 1u);
    answered.set_value();
  };
  const auto stream = StepStream::Open(server.client(), options);
  const size_t a = stream->AddSession("sessions/a", 0);
  ASSERT_TRUE(stream->Send(a, Tokens(OneToken())).ok());
  answered.get_future().wait();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(stream->going_away().has_value());
}

TEST(StepStreamTest, AStepThatFailsDoesNotEndTheStream) {
  ScriptedServer server([](grpc::ServerContext&, Stream& stream) {
    v1::StreamStepRequest message;
    stream.Read(&message);
    v1::StreamStepResponse response;
    auto& result = *response.add_results();
    result.set_request_id(message.requests(0).request_id());
    result.mutable_error()->set_code(grpc::StatusCode::RESOURCE_EXHAUSTED);
    result.mutable_error()->set_message("try later");
    stream.Write(response);
    grpc::ServerContext none;
    return Echo(none, stream);
  });
  const auto stream = StepStream::Open(server.client());
  const size_t a = stream->AddSession("sessions/a", 5);
  ASSERT_TRUE(stream->Send(a, Tokens(OneToken()), 1).ok());
  const auto refused = stream->Next();
  ASSERT_TRUE(refused.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(refused->step.status()));
  EXPECT_EQ(refused->step.status().message(), "try later");
  ASSERT_TRUE(stream->Send(a, Tokens(OneToken()), 2).ok());
  const auto answer = stream->Next();
  ASSERT_TRUE(answer.has_value() && answer->step.ok());
  EXPECT_EQ(answer->step->position(), 6u);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(StepStreamTest, WhatCallbacksSendLeavesInOneMessage) {
  constexpr size_t kSessions = 3;
  constexpr int kRounds = 5;
  std::vector<int> sizes;
  ScriptedServer server([&sizes](grpc::ServerContext&, Stream& stream) {
    v1::StreamStepResponse response;
    v1::StreamStepRequest message;
    while (stream.Read(&message)) {
      sizes.push_back(message.requests_size());
      for (const auto& request : message.requests()) Absorb(request, response);
      // The first steps may come one by one.
      if (response.results_size() < static_cast<int>(kSessions)) continue;
      stream.Write(response);
      response.Clear();
    }
    return grpc::Status::OK;
  });
  std::promise<StepStream*> opened;
  std::promise<void> done;
  auto future_stream = opened.get_future().share();
  StepStreamOptions options;
  int rounds = 0;
  options.on_answers = [&](absl::Span<StepAnswer> answers) {
    EXPECT_THAT(answers, SizeIs(kSessions));
    if (++rounds == kRounds) return done.set_value();
    for (const StepAnswer& answer : answers) {
      EXPECT_TRUE(
          future_stream.get()->Send(answer.session, Tokens(OneToken())).ok());
    }
  };
  const auto stream = StepStream::Open(server.client(), options);
  opened.set_value(stream.get());
  for (size_t i = 0; i < kSessions; ++i) {
    const size_t session = stream->AddSession("sessions/x", 0);
    ASSERT_TRUE(stream->Send(session, Tokens(OneToken())).ok());
  }
  done.get_future().get();
  EXPECT_TRUE(stream->Finish().ok());
  ASSERT_GE(sizes.size(), static_cast<size_t>(kRounds));
  for (size_t i = sizes.size() - kRounds + 1; i < sizes.size(); ++i) {
    EXPECT_EQ(sizes[i], static_cast<int>(kSessions));
  }
}

TEST(StepStreamTest, MoreThanMayBeInFlightIsRefusedUntilAnswersAreTaken) {
  ScriptedServer server(Echo);
  StepStreamOptions options;
  options.max_in_flight = 2;
  const auto stream = StepStream::Open(server.client(), options);
  const size_t a = stream->AddSession("sessions/a", 0);
  EXPECT_TRUE(stream->Send(a, Tokens(OneToken())).ok());
  EXPECT_TRUE(stream->Send(a, Tokens(OneToken())).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(stream->Send(a, Tokens(OneToken()))));
  ASSERT_TRUE(stream->Next().has_value());
  EXPECT_TRUE(stream->Send(a, Tokens(OneToken())).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(stream->Send(7, Tokens(OneToken()))));
  stream->Close();
  EXPECT_TRUE(absl::IsFailedPrecondition(stream->Send(a, Tokens(OneToken()))));
  EXPECT_TRUE(stream->Next() && stream->Next());
  EXPECT_FALSE(stream->Next());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(StepStreamTest, ABrokenStreamTellsWhatIsInDoubt) {
  ScriptedServer server([](grpc::ServerContext&, Stream& stream) {
    v1::StreamStepResponse response;
    v1::StreamStepRequest message;
    // Of the three steps one is answered.
    for (int steps = 0; steps < 3 && stream.Read(&message);) {
      steps += message.requests_size();
      if (response.results_size() == 0) Absorb(message.requests(0), response);
    }
    stream.Write(response);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  });
  StepStreamOptions options;
  std::promise<absl::Status> end;
  options.on_end = [&end](const absl::Status& status) {
    end.set_value(status);
  };
  const auto stream = StepStream::Open(server.client(), options);
  const size_t a = stream->AddSession("sessions/a", 50);
  for (uint64_t tag = 1; tag <= 3; ++tag) {
    ASSERT_TRUE(stream->Send(a, Tokens(OneToken()), tag).ok());
  }
  ASSERT_TRUE(stream->Next().has_value());
  EXPECT_FALSE(stream->Next().has_value());
  EXPECT_TRUE(stream->broken());
  const absl::Status ended = end.get_future().get();
  EXPECT_TRUE(absl::IsUnavailable(ended));
  EXPECT_TRUE(absl::IsUnavailable(stream->Send(a, Tokens(OneToken()))));
  EXPECT_EQ(stream->Finish(), ended);
  const auto standings = stream->Unanswered();
  ASSERT_THAT(standings, SizeIs(1));
  EXPECT_EQ(standings[0].position, 51u);
  ASSERT_THAT(standings[0].in_doubt, SizeIs(2));
  EXPECT_EQ(standings[0].in_doubt[0].tag, 2u);
  EXPECT_THAT(standings[0].unsent, IsEmpty());
}

// Steps of embeddings each of which fills a message. The server does not read,
// so that the first message does not fit on the way and no other one leaves.
class UnreadSteps {
 public:
  static constexpr size_t kSteps = 8;

  explicit UnreadSteps(StepStream& stream)
      : stream_(stream), session_(stream.AddSession("sessions/a", 0)) {
    for (uint64_t tag = 1; tag <= kSteps; ++tag) {
      Step step;
      step.embeddings = tag == 1 ? vectors_ : small_;
      step.embedding_count = 2;
      EXPECT_TRUE(stream.Send(session_, step, tag).ok());
    }
  }

  SessionStanding Standing() const { return stream_.Standing(session_); }

  // Each step is in one of the lists, in order; the first one has left, and the
  // last ones have not.
  void ExpectAccounted() const {
    const SessionStanding standing = Standing();
    EXPECT_THAT(standing.in_doubt, Not(IsEmpty()));
    EXPECT_THAT(standing.unsent, Not(IsEmpty()));
    uint64_t tag = 0;
    for (const auto* steps : {&standing.in_doubt, &standing.unsent}) {
      for (const UnansweredStep& step : *steps) {
        EXPECT_EQ(step.tag, ++tag);
        EXPECT_EQ(step.inputs, 2u);
      }
    }
    EXPECT_EQ(tag, kSteps);
  }

 private:
  const std::vector<float> vectors_ = std::vector<float>(size_t{4} << 20);
  const std::vector<float> small_ = std::vector<float>(size_t{8} << 10);
  StepStream& stream_;
  const size_t session_;
};

TEST(StepStreamTest, WhatNeverLeftIsNotInDoubt) {
  std::promise<void> give_up;
  ScriptedServer server([&give_up](grpc::ServerContext&, Stream&) {
    give_up.get_future().get();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "never read");
  });
  const auto stream = StepStream::Open(server.client());
  const UnreadSteps steps(*stream);
  const SessionStanding standing = steps.Standing();
  EXPECT_THAT(standing.in_doubt, SizeIs(1));
  EXPECT_THAT(standing.unsent, SizeIs(UnreadSteps::kSteps - 1));
  give_up.set_value();
  EXPECT_FALSE(stream->Next().has_value());
  // As the stream ends gRPC may tell of the first write that it went well, and
  // so a second one may begin.
  steps.ExpectAccounted();
}

// A write may fail before the read does, whose thread may be at work yet.
TEST(StepStreamTest, NothingIsWrittenAfterAWriteFailed) {
  std::promise<void> give_up;
  ScriptedServer server([&give_up](grpc::ServerContext&, Stream& stream) {
    v1::StreamStepResponse response;
    response.mutable_going_away();
    stream.Write(response);
    give_up.get_future().get();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "never read");
  });
  std::promise<void> parked;
  std::promise<void> go_on;
  StepStreamOptions options;
  options.on_going_away = [&parked, &go_on](absl::Time) {
    parked.set_value();
    go_on.get_future().get();
  };
  const auto stream = StepStream::Open(server.client(), options);
  const UnreadSteps steps(*stream);
  parked.get_future().get();
  give_up.set_value();
  // There is no session 7: refused as such for as long as steps are taken.
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  absl::Status sent;
  do {
    std::this_thread::yield();
    sent = stream->Send(7, Tokens(OneToken()));
  } while (absl::IsInvalidArgument(sent) && absl::Now() < deadline);
  EXPECT_TRUE(absl::IsUnavailable(sent)) << sent;
  EXPECT_THAT(steps.Standing().unsent, Not(IsEmpty()));
  go_on.set_value();
  EXPECT_FALSE(stream->Next().has_value());
  steps.ExpectAccounted();
  EXPECT_TRUE(absl::IsUnavailable(stream->Finish()));
}

TEST(StepStreamTest, CancellingEndsAStream) {
  ScriptedServer server([](grpc::ServerContext&, Stream& stream) {
    v1::StreamStepRequest message;
    while (stream.Read(&message)) continue;
    // The server may see the deadline first.
    return grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "");
  });
  const auto stream = StepStream::Open(server.client());
  stream->Cancel();
  EXPECT_TRUE(absl::IsCancelled(stream->Finish()));
  EXPECT_TRUE(stream->broken());
  Canceller canceller;
  StepStreamOptions options;
  options.call.canceller = &canceller;
  const auto other = StepStream::Open(server.client(), options);
  canceller.Cancel();
  EXPECT_TRUE(absl::IsCancelled(other->Finish()));
  options.call = {.timeout = absl::Milliseconds(1)};
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      StepStream::Open(server.client(), options)->Finish()));
  // And so does destroying it.
  StepStream::Open(server.client())->AddSession("sessions/a", 0);
}

TEST(GenerateCallTest, OneCallFollowsTheOther) {
  ScriptedServer server(Echo);
  v1::GenerateRequest request;
  request.set_max_tokens(3);
  int messages = 0;
  int ends = 0;
  std::promise<void> done;
  std::unique_ptr<GenerateCall> call;
  call = std::make_unique<GenerateCall>(
      server.client(), [&](const v1::GenerateResponse&) { ++messages; },
      [&](const absl::Status& end) {
        EXPECT_TRUE(end.ok()) << end;
        if (++ends == 4) return done.set_value();
        call->Start(request);
      });
  call->Start(request);
  done.get_future().get();
  call.reset();
  EXPECT_EQ(messages, 12);
}

TEST(GenerateCallTest, DestroyingItCancelsTheCall) {
  ScriptedServer server(Echo);
  std::promise<void> begun;
  std::promise<absl::Status> end;
  bool first = true;
  {
    GenerateCall call(
        server.client(),
        [&](const v1::GenerateResponse&) {
          if (first) begun.set_value();
          first = false;
        },
        [&](const absl::Status& status) { end.set_value(status); });
    call.Start({});
    begun.get_future().get();
  }
  EXPECT_TRUE(absl::IsCancelled(end.get_future().get()));
}

}  // namespace
}  // namespace steadystate::client::step_stream_test
