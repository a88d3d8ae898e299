// Goal: the client library against a real server: each method, and streams that
// break and are resumed. Method: the demo model on free ports; what a broken
// and resumed stream answers, against one that was left in peace.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "steadystate/client.h"
#include "steadystate/error.h"
#include "steadystate/step_stream.h"
#include "tests/client/cli_fixture.h"

namespace steadystate::client_e2e_test {
namespace {

using client::Client;
using client::ReasonOf;
using client::Step;
using client::StepAnswer;
using client::StepStream;
using client::StepStreamOptions;
using testing::SizeIs;

class ClientE2eTest : public CliFixture {
 protected:
  ClientE2eTest()
      : CliFixture("deploy/models/demo"),
        client_(*Client::Connect(address_,
                                 {.connect_timeout = absl::Minutes(1)})) {}

  v1::Session Create() {
    auto session = client_.CreateSession({});
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  v1::Session Get(const std::string& name) {
    v1::GetSessionRequest request;
    request.set_name(name);
    auto session = client_.GetSession(request);
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  Client client_;
};

TEST_F(ClientE2eTest, SessionsAreCreatedShownListedAndDeleted) {
  const v1::Session session = Create();
  EXPECT_EQ(Get(session.name()).position(), 0u);
  const auto page = client_.ListSessions({});
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->sessions_size(), 1);
  v1::DeleteSessionRequest gone;
  gone.set_name(session.name());
  EXPECT_TRUE(client_.DeleteSession(gone).ok());
  EXPECT_EQ(ReasonOf(client_.DeleteSession(gone)), v1::SESSION_NOT_FOUND);
}

TEST_F(ClientE2eTest, ModelsAndTokensAreTold) {
  const auto models = client_.ListModels({});
  ASSERT_TRUE(models.ok());
  ASSERT_EQ(models->models_size(), 1);
  v1::GetModelRequest by_name;
  by_name.set_name("models/-");
  EXPECT_EQ(client_.GetModel(by_name)->name(), models->models(0).name());
  v1::TokenizeRequest text;
  text.set_text("ab");
  const auto tokens = client_.Tokenize(text);
  ASSERT_TRUE(tokens.ok());
  EXPECT_THAT(tokens->tokens(), testing::ElementsAre('a', 'b'));
  v1::DetokenizeRequest ids;
  *ids.mutable_tokens() = tokens->tokens();
  EXPECT_EQ(client_.Detokenize(ids)->text(), "ab");
  ids.add_tokens(256);
  EXPECT_EQ(ReasonOf(client_.Detokenize(ids).status()), v1::TOKEN_OUT_OF_RANGE);
  EXPECT_EQ(*client_.Health(""),
            grpc::health::v1::HealthCheckResponse::SERVING);
}

TEST_F(ClientE2eTest, StepGenerateScoreAndEmbedAnswer) {
  const v1::Session session = Create();
  v1::StepRequest step;
  step.set_session(session.name());
  step.mutable_tokens()->add_ids('a');
  step.set_expected_position(0);
  EXPECT_EQ(client_.Step(step)->position(), 1u);
  EXPECT_EQ(ReasonOf(client_.Step(step).status()), v1::POSITION_MISMATCH);
  int messages = 0;
  const auto count = [&messages](const auto&) {
    ++messages;
    return absl::OkStatus();
  };
  v1::GenerateRequest generate;
  generate.set_session(session.name());
  generate.set_max_tokens(2);
  EXPECT_TRUE(client_.Generate(generate, count).ok());
  v1::ScoreRequest score;
  score.set_text("abc");
  EXPECT_TRUE(client_.Score(score, count).ok());
  v1::EmbedRequest embed;
  embed.set_text("abc");
  EXPECT_TRUE(client_.Embed(embed, count).ok());
  EXPECT_GE(messages, 3);
}

TEST_F(ClientE2eTest, AddressesMayBeWrittenAsPeopleDo) {
  const std::string port = address_.substr(address_.rfind(':'));
  for (const std::string& address : {port, "http://127.0.0.1" + port + "/"}) {
    EXPECT_TRUE(Client::Connect(address).ok()) << address;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Client::Connect("a b").status()));
}

TEST_F(ClientE2eTest, DeadlinesEndCalls) {
  v1::GenerateRequest endless;
  endless.set_session(Create().name());
  endless.set_text("a");
  endless.set_ignore_eos(true);
  const absl::Status ended = client_.Generate(
      endless, [](const v1::GenerateResponse&) { return absl::OkStatus(); },
      {.timeout = absl::Milliseconds(50)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(ended)) << ended;
}

// What many sessions answer to the same steps, by session and step: logits, or
// tokens and their log-probabilities if the streams have a client_id.
class Crowd {
 public:
  static constexpr size_t kSessions = 4;
  static constexpr size_t kSteps = 12;

  Crowd(const Client& client, const std::vector<std::string>& names,
        const std::string& client_id = "")
      : client_(client), names_(names), next_(names.size()) {
    options_.client_id = client_id;
    if (client_id.empty()) {
      output_.set_logits(true);
    } else {
      output_.mutable_sample()->set_seed(7);
    }
  }

  // Sends what there is still to send. After `breaking` answers the stream is
  // cancelled.
  void Run(size_t breaking = SIZE_MAX) {
    const auto stream = StepStream::Open(client_, options_);
    for (size_t i = 0; i < names_.size(); ++i) {
      stream->AddSession(names_[i], positions_[i]);
      for (size_t step = next_[i]; step < kSteps; ++step)
        Send(*stream, i, step);
    }
    size_t answers = 0;
    bool cancelled = false;
    while (const auto answer = stream->Next()) {
      ASSERT_TRUE(answer->step.ok()) << answer->step.status();
      auto& numbers = answers_[{answer->session, answer->tag}];
      numbers.assign(answer->step->logits().begin(),
                     answer->step->logits().end());
      numbers.push_back(static_cast<float>(answer->step->sampled_token()));
      numbers.push_back(answer->step->sampled_logprob());
      replayed_ += answer->step->replayed() ? size_t{1} : size_t{0};
      next_[answer->session] = answer->tag + 1;
      cancelled = cancelled || ++answers == breaking;
      if (cancelled) stream->Cancel();
    }
    EXPECT_EQ(stream->Finish().ok(), !cancelled);
    for (size_t i = 0; i < names_.size(); ++i) {
      positions_[i] = stream->Standing(i).position;
      if (stream->broken() && options_.client_id.empty()) {
        Look(i, stream->Standing(i));
      }
    }
  }

  const std::map<std::pair<size_t, uint64_t>, std::vector<float>>& answers()
      const {
    return answers_;
  }
  // Steps that the server carried out after the stream had broken.
  size_t unheard() const { return unheard_; }
  // Answers that had been given before.
  size_t replayed() const { return replayed_; }

 private:
  void Send(StepStream& stream, size_t session, size_t step) {
    const std::vector<int32_t> tokens(step % 3 + 1,
                                      static_cast<int32_t>(session + step));
    Step next;
    next.tokens = tokens;
    next.output = &output_;
    ASSERT_TRUE(stream.Send(session, next, step).ok());
  }

  // Finds out which of the steps in doubt were carried out.
  void Look(size_t i, const client::SessionStanding& standing) {
    v1::GetSessionRequest request;
    request.set_name(names_[i]);
    while (true) {
      const auto found = client_.GetSession(request);
      ASSERT_TRUE(found.ok()) << found.status();
      const auto taken = StepsTaken(standing, *found);
      if (absl::IsUnavailable(taken.status())) continue;
      ASSERT_TRUE(taken.ok()) << taken.status();
      next_[i] += *taken;
      unheard_ += *taken;
      positions_[i] = found->position();
      return;
    }
  }

  const Client& client_;
  const std::vector<std::string> names_;
  StepStreamOptions options_;
  v1::StepOutput output_;
  std::vector<size_t> next_;  // step of each session
  std::map<size_t, uint64_t> positions_;
  std::map<std::pair<size_t, uint64_t>, std::vector<float>> answers_;
  size_t unheard_ = 0;
  size_t replayed_ = 0;
};

TEST_F(ClientE2eTest, AStreamThatBreaksIsResumedWhereItsSessionsStand) {
  std::vector<std::string> whole_names;
  std::vector<std::string> broken_names;
  for (size_t i = 0; i < Crowd::kSessions; ++i) {
    whole_names.push_back(Create().name());
    broken_names.push_back(Create().name());
  }
  Crowd whole(client_, whole_names);
  whole.Run();
  ASSERT_THAT(whole.answers(), SizeIs(Crowd::kSessions * Crowd::kSteps));
  Crowd broken(client_, broken_names);
  broken.Run(/*breaking=*/5);
  broken.Run(/*breaking=*/9);
  broken.Run();
  // But for answers that were lost, both are the same to the bit.
  EXPECT_THAT(broken.answers(),
              SizeIs(Crowd::kSessions * Crowd::kSteps - broken.unheard()));
  for (const auto& [step, numbers] : broken.answers()) {
    EXPECT_EQ(numbers, whole.answers().at(step));
  }
  for (size_t i = 0; i < Crowd::kSessions; ++i) {
    EXPECT_EQ(Get(broken_names[i]).position(), Get(whole_names[i]).position());
  }
}

TEST_F(ClientE2eTest, AStreamOfTheSameClientGetsTheAnswersThatWereLost) {
  std::vector<std::string> whole_names;
  std::vector<std::string> broken_names;
  for (size_t i = 0; i < Crowd::kSessions; ++i) {
    whole_names.push_back(Create().name());
    broken_names.push_back(Create().name());
  }
  Crowd whole(client_, whole_names, "one");
  whole.Run();
  EXPECT_EQ(whole.replayed(), 0u);
  Crowd broken(client_, broken_names, "other");
  for (const size_t breaking : {size_t{5}, size_t{1}, size_t{9}}) {
    broken.Run(breaking);
  }
  broken.Run();
  EXPECT_THAT(broken.answers(), SizeIs(Crowd::kSessions * Crowd::kSteps));
  EXPECT_EQ(broken.answers(), whole.answers());
  for (size_t i = 0; i < Crowd::kSessions; ++i) {
    EXPECT_EQ(Get(broken_names[i]).position(), Get(whole_names[i]).position());
  }
}

// As with the ids of its tokens; and what is drawn comes as text, too.
TEST_F(ClientE2eTest, StepsTakeAndGiveText) {
  const auto stream = StepStream::Open(client_);
  const size_t by_text = stream->AddSession(Create().name(), 0);
  const size_t by_token = stream->AddSession(Create().name(), 0);
  v1::StepOutput output;
  output.mutable_sample()->set_temperature(0);
  output.set_text(true);
  const std::string text = "The database ";
  const std::vector<int32_t> tokens(text.begin(), text.end());
  Step step = {.text = text, .output = &output};
  ASSERT_TRUE(stream->Send(by_text, step).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(stream->Send(by_text, step)));
  const auto first = stream->Next();
  ASSERT_TRUE(first->step.ok()) << first->step.status();
  step = {.tokens = tokens, .output = &output};
  ASSERT_TRUE(stream->Send(by_token, step).ok());
  const auto second = stream->Next();
  ASSERT_TRUE(second->step.ok()) << second->step.status();
  EXPECT_EQ(first->step->position(), text.size());
  EXPECT_EQ(first->step->sampled_token(), second->step->sampled_token());
  // This model's tokens are bytes.
  EXPECT_EQ(first->step->text_delta(),
            std::string(1, static_cast<char>(first->step->sampled_token())));
  ASSERT_TRUE(stream->Send(by_text, {.text = first->step->text_delta()}).ok());
  EXPECT_EQ(stream->Next()->step->position(), text.size() + 1);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ClientE2eTest, WhatTheServerRefusesComesAsAnAnswer) {
  const auto stream = StepStream::Open(client_);
  const std::string name = Create().name();
  const size_t ahead = stream->AddSession(name, 5);
  const int32_t token = 'a';
  Step step;
  step.tokens = {&token, 1};
  ASSERT_TRUE(stream->Send(ahead, step).ok());
  EXPECT_EQ(ReasonOf(stream->Next()->step.status()), v1::POSITION_MISMATCH);
  ASSERT_TRUE(stream->PlaceSession(ahead, name, 0).ok());
  ASSERT_TRUE(stream->Send(ahead, step).ok());
  EXPECT_TRUE(stream->Next()->step.ok());
  const int32_t unknown = 256;
  step.tokens = {&unknown, 1};
  ASSERT_TRUE(stream->Send(ahead, step).ok());
  EXPECT_EQ(ReasonOf(stream->Next()->step.status()), v1::TOKEN_OUT_OF_RANGE);
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace steadystate::client_e2e_test
