#include "tests/server/engine/engine_harness.h"

#include <algorithm>
#include <map>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "server/metrics/scrape_server.h"
#include "tests/testing/end_receiver.h"

namespace steadystate {

std::shared_ptr<const Model> SharedTinyModel(DType weights) {
  static auto* const models =
      new std::map<DType, std::shared_ptr<const Model>>();
  auto& model = (*models)[weights];
  if (model == nullptr) model = TinyModel().Load(weights);
  return model;
}

std::shared_ptr<const Model> LoadModelOfCaps(uint64_t usual, uint64_t most) {
  const TinyModel tiny({.softmax_layer = 1});
  ModelOptions options;
  options.path = tiny.path();
  options.weight_dtype = DType::kF32;
  options.context_cap = usual;
  options.max_context_cap = most;
  auto model = Model::Load(options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::vector<int32_t> MakeTokens(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 256);
  return tokens;
}

ErrorReason ReasonOf(const absl::Status& status) {
  const auto details = GetErrorDetails(status);
  if (details.has_value()) return details->reason;
  ADD_FAILURE() << "no reason in: " << status;
  return ErrorReason::kInternal;
}

std::string MetadataOf(const absl::Status& status, absl::string_view key) {
  const auto details = GetErrorDetails(status);
  if (!details.has_value()) return "";
  for (const auto& [name, value] : details->metadata) {
    if (name == key) return value;
  }
  return "";
}

EngineHarness::EngineHarness(const EngineOptions& options,
                             std::shared_ptr<const Model> model,
                             SessionStore* store) {
  auto engine =
      Engine::Create(options, std::move(model), clock_, metrics_, store);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.status();
    std::abort();
  }
  engine_ = std::move(*engine);
}

double SumOfSeries(const Metrics& metrics,
                   const std::vector<std::string>& parts) {
  double sum = 0;
  const std::string text = Exposition(metrics.collectables());
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!std::all_of(parts.begin(), parts.end(), [line](const auto& part) {
          return absl::StrContains(line, part);
        })) {
      continue;
    }
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    double value = 0;
    if (line[0] != '#' && absl::SimpleAtod(words.back(), &value)) sum += value;
  }
  return sum;
}

std::string EngineHarness::CreateSession(const std::string& id) {
  SessionOptions options;
  options.id = id;
  const auto info = engine_->CreateSession(options);
  EXPECT_TRUE(info.ok()) << info.status();
  return info.ok() ? info->id : "";
}

absl::StatusOr<SessionInfo> EngineHarness::Create(
    const SessionOptions& options) {
  Future<absl::StatusOr<SessionInfo>> created;
  engine_->CreateSession(options,
                         [created](const auto& info) { created.Set(info); });
  return created.Get();
}

absl::Status EngineHarness::Hibernate(const std::string& session) {
  Future<absl::Status> done;
  const absl::Status begun = engine_->HibernateSession(
      session, [done](const absl::Status& status) { done.Set(status); });
  return begun.ok() ? done.Get() : begun;
}

uint64_t EngineHarness::Position(const std::string& session) {
  const auto info = engine_->GetSession(session);
  EXPECT_TRUE(info.ok()) << info.status();
  return info.ok() ? info->position : UINT64_MAX;
}

StepFuture EngineHarness::StepAsync(StepRequest request, RequestId* id) {
  if (request.writer == 0) request.writer = engine_->NewWriter();
  StepFuture future;
  KeepAlive(future.shared());
  const RequestId made =
      SubmitThen(*engine_, std::move(request),
                 [future](const absl::StatusOr<StepResult>& result) {
                   future.Set(RecordOf(result));
                 });
  if (id != nullptr) *id = made;
  return future;
}

absl::StatusOr<StepRecord> EngineHarness::Step(StepRequest request) {
  return StepAsync(std::move(request)).Get();
}

Future<absl::Status> EngineHarness::WorkAsync(const std::string& session,
                                              WorkRequest work) {
  work.session = session;
  work.writer = engine_->NewWriter();
  Future<absl::Status> done;
  SubmitThen(*engine_, std::move(work),
             [done](const auto& end) { done.Set(end.status()); });
  return done;
}

StepRequest StepOf(const std::string& session, std::vector<int32_t> tokens) {
  StepRequest request;
  request.session = session;
  request.tokens = std::move(tokens);
  request.outputs.logits = true;
  request.outputs.hidden = true;
  return request;
}

GenerateRequest GenerateOf(const std::string& session,
                           std::vector<int32_t> prompt, uint64_t max_tokens) {
  GenerateRequest request;
  request.session = session;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

ScoreRequest ScoreOf(const std::string& session, std::vector<int32_t> tokens) {
  ScoreRequest request;
  request.session = session;
  request.tokens = std::move(tokens);
  return request;
}

EmbedRequest EmbedOf(const std::string& session, std::vector<int32_t> tokens) {
  EmbedRequest request;
  request.session = session;
  request.tokens = std::move(tokens);
  return request;
}

ComputeHold::ComputeHold(EngineHarness& harness) {
  StepRequest request = StepOf(harness.CreateSession(), {1});
  request.writer = harness.engine().NewWriter();
  Future<bool> entered;
  SubmitThen(harness.engine(), std::move(request),
             [entered, released = released_](const auto&) {
               entered.Set(true);
               released.Get();
             });
  entered.Get();
}

void ComputeHold::Release() {
  if (!released_.IsSet()) released_.Set(true);
}

}  // namespace steadystate
