#include "tests/server/rpc/open_server.h"

#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "server/metrics/scrape_server.h"
#include "server/session/session_state.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/end_receiver.h"

namespace steadystate {
namespace {

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
    std::abort();
  }
  return *std::move(value);
}

uint64_t ChargeOf(const Model& model) {
  return SessionLayoutOf(model, EngineOptions()).charge_bytes();
}

}  // namespace

OpenServer::OpenServer(const OpenServerOptions& options)
    : checkpoint_(options.model),
      model_(options.checkpoint == nullptr
                 ? checkpoint_.Load()
                 : OrDie(Model::Load({.path = options.checkpoint,
                                      .weight_dtype = DType::kF32}))),
      metrics_(model_->description().id) {
  EngineOptions engine = options.engine;
  if (options.session_budget > 0) {
    engine.state_memory_bytes = options.session_budget * ChargeOf(*model_);
  }
  engine_ = OrDie(Engine::Create(engine, model_, *options.clock, metrics_));
  ServerOptions server = options.server;
  server.listen = "127.0.0.1:0";
  server_ = OrDie(Server::Start(server, *engine_, metrics_));
  channel_ = NewChannel();
  sessions_ = v1::SessionService::NewStub(channel_);
  generation_ = v1::GenerationService::NewStub(channel_);
  models_ = v1::ModelService::NewStub(channel_);
}

OpenServer::~OpenServer() = default;

std::shared_ptr<grpc::Channel> OpenServer::NewChannel(
    const grpc::ChannelArguments& arguments) {
  grpc::ChannelArguments own = arguments;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  own.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                   grpc::InsecureChannelCredentials(), own);
}

uint64_t OpenServer::session_bytes() { return ChargeOf(*model_); }

std::string OpenServer::CreateSession() {
  Context context;
  v1::Session session;
  EXPECT_THAT(sessions_->CreateSession(&context, {}, &session), IsOk());
  return session.name();
}

std::vector<std::string> OpenServer::CreateSessions(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(CreateSession());
  return names;
}

uint64_t OpenServer::PositionOf(const std::string& session) {
  Context context;
  v1::GetSessionRequest request;
  request.set_name(session);
  v1::Session response;
  EXPECT_THAT(sessions_->GetSession(&context, request, &response), IsOk());
  return response.position();
}

v1::Session OpenServer::WaitForState(const std::string& session,
                                     v1::Session::State state) {
  v1::GetSessionRequest request;
  request.set_name(session);
  v1::Session response;
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  do {
    Context context;
    EXPECT_THAT(sessions_->GetSession(&context, request, &response), IsOk());
  } while (response.state() != state && absl::Now() < deadline);
  EXPECT_EQ(response.state(), state);
  return response;
}

v1::StepResponse OpenServer::Step(const v1::StepRequest& request) {
  Context context;
  v1::StepResponse response;
  EXPECT_THAT(generation_->Step(&context, request, &response), IsOk());
  return response;
}

double OpenServer::MetricValue(absl::string_view series) const {
  // Every series has the model as a label.
  const std::string label =
      absl::StrCat("model=\"", model_->description().id, "\"");
  const std::string page =
      absl::StrReplaceAll(Exposition(metrics_.collectables()),
                          {{absl::StrCat(",", label), ""},
                           {absl::StrCat(label, ","), ""},
                           {absl::StrCat("{", label, "}"), ""}});
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    double value = 0;
    if (absl::ConsumePrefix(&line, series) && absl::ConsumePrefix(&line, " ") &&
        absl::SimpleAtod(line, &value)) {
      return value;
    }
  }
  return -1;
}

void OpenServer::WaitForMetric(absl::string_view series, double value) const {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  double seen = MetricValue(series);
  while (seen != value && absl::Now() < deadline) seen = MetricValue(series);
  EXPECT_EQ(seen, value) << series;
}

void OpenServer::WaitUntilStill(absl::string_view series, double value,
                                absl::Duration still) const {
  const auto page = [this] {
    return absl::StrCat(MetricValue("steadystate_outbound_bytes"), " ",
                        MetricValue("steadystate_tokens_total{kind=\"generated"
                                    "\"}"));
  };
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  absl::Time since = absl::Now();
  std::string last;
  while (absl::Now() - since < still && absl::Now() < deadline) {
    std::string now = page();
    if (MetricValue(series) == value && now == last) continue;
    last = std::move(now);
    since = absl::Now();
  }
  EXPECT_EQ(MetricValue(series), value) << series;
}

void OpenServer::WaitForEither(absl::string_view one,
                               absl::string_view other) const {
  const auto counted = [this, one, other] {
    return MetricValue(one) > 0 || MetricValue(other) > 0;
  };
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (!counted() && absl::Now() < deadline) {
  }
  EXPECT_TRUE(counted()) << one << " or " << other;
}

EngineHold::EngineHold(OpenServer& server) {
  const auto begun = std::make_shared<std::promise<void>>();
  steadystate::StepRequest request;
  request.session =
      std::string(absl::StripPrefix(server.CreateSession(), "sessions/"));
  request.tokens = {1};
  request.writer = server.engine().NewWriter();
  SubmitThen(
      server.engine(), std::move(request),
      [begun, released = released_](const absl::StatusOr<StepResult>& result) {
        EXPECT_TRUE(result.ok()) << result.status();
        begun->set_value();
        released->get_future().wait();
      });
  begun->get_future().wait();
}

void EngineHold::Release() {
  if (holds_) released_->set_value();
  holds_ = false;
}

v1::StepRequest StepOf(const std::string& session,
                       const std::vector<int32_t>& tokens) {
  v1::StepRequest request;
  request.set_session(session);
  request.mutable_tokens()->mutable_ids()->Assign(tokens.begin(), tokens.end());
  return request;
}

v1::StepRequest LogitsStepOf(const std::string& session,
                             const std::vector<int32_t>& tokens) {
  v1::StepRequest request = StepOf(session, tokens);
  request.mutable_output()->set_logits(true);
  return request;
}

std::vector<int32_t> SomeTokens(size_t count, uint32_t seed,
                                size_t vocab_size) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(random() % vocab_size);
  }
  return tokens;
}

}  // namespace steadystate
