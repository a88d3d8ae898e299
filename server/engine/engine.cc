#include "server/engine/engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/admission.h"
#include "server/engine/bidirectional_task.h"
#include "server/engine/compute_thread.h"
#include "server/engine/desk.h"
#include "server/engine/embed_task.h"
#include "server/engine/generate_task.h"
#include "server/engine/prefill_chunk.h"
#include "server/engine/score_task.h"
#include "server/engine/step_pool.h"
#include "server/engine/step_task.h"
#include "server/engine/validate.h"
#include "server/engine/work_task.h"
#include "server/session/session_keeper.h"
#include "server/session/session_state.h"

namespace steadystate {

// The engine behind its facade, from what everybody uses to the thread that
// uses all of it.
struct Engine::Core {
  Core(const EngineOptions& engine_options, std::shared_ptr<const Model> served,
       const Clock& engine_clock, Metrics& engine_metrics)
      : options(engine_options),
        model(std::move(served)),
        clock(engine_clock),
        metrics(engine_metrics),
        layout(model->state_layout(), model->description().hidden_size),
        steps(layout.hidden_size(), options.prefill_chunk_rows),
        desk({.max_queued_per_session = options.max_queued_per_session,
              .max_queued = options.max_queued_requests,
              .max_input_bytes = options.max_queued_input_bytes}),
        keeper({.memory_bytes = options.state_memory_bytes,
                .default_ttl = options.session_ttl,
                .max_expired_remembered = options.max_expired_remembered},
               layout, clock, metrics,
               [this](Session& session, const absl::Status& status) {
                 desk.NoteReturned(session, status);
               }),
        admission(desk, keeper, clock, metrics),
        compute(options, *model, clock, metrics, desk, keeper, steps) {}

  const EngineOptions options;
  const std::shared_ptr<const Model> model;
  const Clock& clock;
  Metrics& metrics;
  const SessionLayout layout;
  StepPool steps;
  Desk desk;
  SessionKeeper keeper;
  Admission admission;
  ComputeThread compute;
};

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    const EngineOptions& options, std::shared_ptr<const Model> model,
    const Clock& clock, Metrics& metrics) {
  STEADYSTATE_RETURN_IF_ERROR(ValidateEngineOptions(options));
  const uint64_t session_bytes =
      SessionLayout(model->state_layout(), model->description().hidden_size)
          .charge_bytes();
  if (options.state_memory_bytes < session_bytes) {
    return MakeError(
        ErrorReason::kInvalidArgument,
        absl::StrCat("state_memory is ", options.state_memory_bytes,
                     " bytes, and one session of this model takes ",
                     session_bytes, " bytes"),
        {{"field", "state_memory"},
         {"value", absl::StrCat(options.state_memory_bytes)},
         {"bounds", absl::StrCat(session_bytes)}});
  }
  EngineOptions used = options;
  if (used.prefill_chunk_rows == 0) {
    used.prefill_chunk_rows = PrefillChunkRowsFor(model->description().linear,
                                                  options.max_batch_rows);
  }
  return std::unique_ptr<Engine>(new Engine(
      std::make_unique<Core>(used, std::move(model), clock, metrics)));
}

Engine::Engine(std::unique_ptr<Core> core) : core_(std::move(core)) {}

Engine::~Engine() = default;

const Model& Engine::model() const { return *core_->model; }

const EngineOptions& Engine::options() const { return core_->options; }

const Clock& Engine::clock() const { return core_->clock; }

absl::StatusOr<SessionInfo> Engine::CreateSession(
    const SessionOptions& options) {
  return core_->admission.CreateSession(options);
}

absl::StatusOr<SessionInfo> Engine::GetSession(const SessionKey& key) {
  return core_->keeper.Get(key);
}

absl::StatusOr<SessionPage> Engine::ListSessions(size_t page_size,
                                                 absl::string_view page_token,
                                                 absl::string_view owner) {
  return core_->keeper.List(owner, page_size, page_token);
}

absl::Status Engine::DeleteSession(const SessionKey& key) {
  return core_->admission.DeleteSession(key);
}

RequestId Engine::Step(StepRequest request, StepCallback done) {
  const absl::Status valid = ValidateStep(request, model(), options());
  if (!valid.ok()) {
    done(valid);
    return 0;
  }
  const RequestBase base = request;
  return core_->admission.Submit(
      base, std::make_unique<StepTask>(std::move(request), std::move(done),
                                       model().description().hidden_size,
                                       options().prefill_chunk_rows));
}

void Engine::Steps(std::span<StepSubmission> steps) {
  std::vector<std::unique_ptr<Request>> requests;
  requests.reserve(steps.size());
  core_->steps.Take(steps.size(), requests);
  std::vector<Admission::Submission> valid;
  valid.reserve(steps.size());
  for (StepSubmission& step : steps) {
    step.refusal = ValidateStep(step.request, model(), options());
    if (!step.refusal.ok()) continue;
    std::unique_ptr<Request>& request = requests[valid.size()];
    request->step->Take(step.request, *step.sink, step.tag);
    const RequestBase& base = request->step->base();
    valid.push_back({.base = base,
                     .request = std::move(request),
                     .id = step.id,
                     .refusal = step.refusal});
  }
  core_->admission.Submit(valid);
  // What has not been used, and what has been refused.
  requests.erase(requests.begin(),
                 requests.begin() + static_cast<ptrdiff_t>(valid.size()));
  for (Admission::Submission& submission : valid) {
    if (submission.request == nullptr) continue;
    requests.push_back(std::move(submission.request));
  }
  if (!requests.empty()) core_->steps.GiveBack(requests);
}

RequestId Engine::Generate(GenerateRequest request,
                           std::shared_ptr<GenerateSink> sink) {
  const absl::Status valid = ValidateGenerate(request, model(), options());
  if (!valid.ok()) {
    sink->OnDone(valid);
    return 0;
  }
  const RequestBase base = request;
  return core_->admission.Submit(
      base, std::make_unique<GenerateTask>(std::move(request), std::move(sink),
                                           model(), core_->metrics,
                                           options().prefill_chunk_rows));
}

RequestId Engine::Score(ScoreRequest request, std::shared_ptr<ScoreSink> sink) {
  const absl::Status valid = ValidateScore(request, model(), options());
  if (!valid.ok()) {
    sink->OnDone(valid);
    return 0;
  }
  const RequestBase base = request;
  const bool on_fresh_state = base.session.empty();
  return core_->admission.Submit(
      base,
      std::make_unique<ScoreTask>(std::move(request), std::move(sink),
                                  model().description().vocab_size,
                                  options().prefill_chunk_rows),
      on_fresh_state);
}

RequestId Engine::Embed(EmbedRequest request, std::shared_ptr<EmbedSink> sink) {
  const absl::Status valid = ValidateEmbed(request, model(), options());
  if (!valid.ok()) {
    sink->OnDone(valid);
    return 0;
  }
  const RequestBase base = request;
  const bool on_fresh_state = base.session.empty();
  const ModelDescription& description = model().description();
  const size_t chunk_rows = options().prefill_chunk_rows;
  std::unique_ptr<Task> task;
  if (request.bidirectional) {
    task = std::make_unique<BidirectionalTask>(
        std::move(request), std::move(sink), description, chunk_rows);
  } else {
    task = std::make_unique<EmbedTask>(std::move(request), std::move(sink),
                                       description.hidden_size, chunk_rows);
  }
  return core_->admission.Submit(base, std::move(task), on_fresh_state);
}

RequestId Engine::Work(WorkRequest request, WorkCallback done) {
  const RequestBase base = request;
  return core_->admission.Submit(
      base, std::make_unique<WorkTask>(std::move(request), std::move(done)));
}

void Engine::Cancel(RequestId id) { core_->admission.Cancel(id); }

void Engine::Wake(RequestId id) { core_->admission.Wake(id); }

WriterId Engine::NewWriter() { return core_->admission.NewWriter(); }

void Engine::BeginDrain() { core_->admission.BeginDrain(); }

bool Engine::WaitIdle(absl::Duration timeout) {
  return core_->admission.WaitIdle(timeout);
}

void Engine::AbortRequests() { core_->admission.AbortRequests(); }

SteadyTime Engine::heartbeat() const { return core_->compute.heartbeat(); }

}  // namespace steadystate
