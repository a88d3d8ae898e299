#include "server/engine/engine.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/admission.h"
#include "server/engine/compute_thread.h"
#include "server/engine/desk.h"
#include "server/engine/embed_task.h"
#include "server/engine/generate_task.h"
#include "server/engine/request_pool.h"
#include "server/engine/score_task.h"
#include "server/engine/step_task.h"
#include "server/engine/task_of.h"
#include "server/engine/unfinished_text.h"
#include "server/engine/validate.h"
#include "server/session/numerics.h"
#include "server/session/session_keeper.h"
#include "server/session/session_state.h"

namespace steadystate {
namespace {

// About what the options take while they wait.
uint64_t MemoryOf(const ForkOptions& options) {
  constexpr uint64_t kPartBytes = 128;
  return kPartBytes * (1 + options.ids.size() + 2 * options.labels.size());
}

// Work on a session's state that is no computing, such as copying it: done by
// SessionKeeper's thread when the requests before it are answered, while those
// behind it wait.
class WorkTask final : public TaskOf<WorkRequest> {
 public:
  // It makes a session then.
  bool OnFreshState() const override { return request().session.empty(); }
  absl::Status Begin(const SessionState&) override { return absl::OkStatus(); }
  bool IsWork() const override { return true; }
  absl::Status Work(Session& session) override {
    done_ = true;
    return request().work(session);
  }
  bool done() const override { return done_; }
  // Copies, and what is taken back, are in the store.
  bool StandsAlone() const override { return true; }
  uint64_t input_bytes() const override { return request().bytes; }

  // No piece of it is computed.
  Piece Next() const override { return {}; }
  void Advance(const PieceResult&) override {}

 private:
  void Start() override { done_ = false; }
  void Summarize(const RequestTimes&, Nothing&) override {}

  bool done_ = false;
};

// The options, and what the card has where they have nothing.
SessionOptions Completed(SessionOptions options, const SessionCard& card) {
  if (options.id.empty()) options.id = card.id;
  if (!options.ttl.has_value()) options.ttl = card.ttl;
  if (options.labels.empty()) options.labels = card.labels;
  return options;
}

absl::StatusOr<uint64_t> PositionOf(const PastPoint& point,
                                    const Session& session,
                                    SessionKeeper& keeper) {
  if (point.position.has_value()) return *point.position;
  const uint64_t position = session.state.position();
  const uint64_t back = point.inputs_back.value_or(0);
  if (back <= position) return position - back;
  STEADYSTATE_ASSIGN_OR_RETURN(const SessionInfo info,
                               keeper.Get(session.key()));
  return MakeError(
      ErrorReason::kPositionOutOfReach,
      absl::StrCat("session '", session.id, "' is at position ", position,
                   " and cannot go back by ", back,
                   " tokens: choose a position from ", info.earliest_position,
                   " to ", position,
                   info.earliest_position > 0 ? ", or 0" : ""),
      {{"position", absl::StrCat(position)},
       {"earliest_position", absl::StrCat(info.earliest_position)}});
}

// What the snapshots of this engine say of where they come from. Without
// numerics, if the library that makes digests cannot: then no others are equal.
SnapshotOrigin OriginOf(const Model& model, const SessionLayout& layout,
                        const EngineOptions& options) {
  const ModelDescription& description = model.description();
  const absl::StatusOr<Numerics> numerics =
      NumericsOf(layout, description, options.prefill_chunk_rows);
  return {.model = description.id,
          .fingerprint = description.fingerprint,
          .numerics = numerics.ok() ? *numerics : Numerics(),
          .vocab_size = description.vocab_size};
}

// Makes the session what a new one is.
absl::Status Reset(Session& session, SessionKeeper& keeper) {
  return keeper
      .Rewind(
          session,
          [&session](SessionPast& past) { return past.Find(session, 0, ""); })
      .status();
}

// The requests of kind R.
template <typename R>
struct PoolOf : RequestPool {
  using RequestPool::RequestPool;
};

}  // namespace

// The engine behind its facade, from what everybody uses to the thread that
// uses all of it.
struct Engine::Core {
  Core(const EngineOptions& engine_options, std::shared_ptr<const Model> served,
       const Clock& engine_clock, Metrics& engine_metrics, SessionStore* store)
      : options(engine_options),
        model(std::move(served)),
        clock(engine_clock),
        metrics(engine_metrics),
        layout(SessionLayoutOf(*model, options)),
        snapshots(layout, OriginOf(*model, layout, options)),
        archive(store == nullptr
                    ? std::nullopt
                    : std::optional<SessionArchive>(std::in_place, snapshots,
                                                    *store, clock, metrics)),
        pools(
            [this] {
              return std::make_unique<StepTask>(
                  layout.hidden_size(), options.prefill_chunk_rows, &*model,
                  [this](Session& session) { return Reset(session, keeper); });
            },
            [this] {
              return std::make_unique<GenerateTask>(*model, keeper, metrics,
                                                    options.prefill_chunk_rows);
            },
            [this] {
              return std::make_unique<ScoreTask>(
                  model->description().vocab_size, options.prefill_chunk_rows);
            },
            [this] {
              return std::make_unique<EmbedTask>(model->description(),
                                                 options.prefill_chunk_rows);
            },
            [] { return std::make_unique<WorkTask>(); }),
        desk({.max_queued_per_session = options.max_queued_per_session,
              .max_queued = options.max_queued_requests,
              .max_input_bytes = options.max_queued_input_bytes}),
        keeper(
            {.memory_bytes = options.state_memory_bytes,
             .default_ttl = options.session_ttl,
             .max_expired_remembered = options.max_expired_remembered,
             .store_bytes = options.store_budget_bytes,
             .hibernate_after = options.hibernate_after,
             .default_durability = options.durability,
             .log_sync_interval = options.log_sync_interval,
             .max_replay = options.max_replay,
             .allow_other_numerics = options.allow_other_numerics,
             .piece_rows = options.prefill_chunk_rows,
             .prefix_numerics = snapshots.numerics_tag(),
             .max_prefixes = options.prefix_cache,
             .max_checkpoints = options.max_checkpoints},
            layout, archive.has_value() ? &*archive : nullptr, clock, metrics,
            [this](Session& session, absl::Status status) {
              desk.NoteReturned(session, std::move(status));
            },
            [this](Session& session) { desk.NoteDue(session); }),
        admission(desk, keeper, clock, metrics),
        compute(options, *model, clock, metrics, desk, keeper) {}

  template <typename R>
  void Submit(std::span<Submission<R>> submissions);

  const EngineOptions options;
  const std::shared_ptr<const Model> model;
  const Clock& clock;
  Metrics& metrics;
  const SessionLayout layout;
  const SnapshotFormat snapshots;
  std::optional<SessionArchive> archive;  // with a store
  std::tuple<PoolOf<StepRequest>, PoolOf<GenerateRequest>, PoolOf<ScoreRequest>,
             PoolOf<EmbedRequest>, PoolOf<WorkRequest>>
      pools;
  Desk desk;
  SessionKeeper keeper;
  Admission admission;
  ComputeThread compute;
};

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    const EngineOptions& options, std::shared_ptr<const Model> model,
    const Clock& clock, Metrics& metrics, SessionStore* store) {
  STEADYSTATE_RETURN_IF_ERROR(ValidateEngineOptions(options, store != nullptr));
  EngineOptions used = options;
  const uint64_t session_bytes = SessionLayoutOf(*model, used).charge_bytes();
  if (options.state_memory_bytes < session_bytes) {
    return MakeError(
        ErrorReason::kInvalidArgument,
        absl::StrCat("--state_memory is ", options.state_memory_bytes,
                     " bytes, and one session of this model takes ",
                     session_bytes, " bytes"),
        {{"field", "--state_memory"},
         {"value", absl::StrCat(options.state_memory_bytes)},
         {"bounds", absl::StrCat(session_bytes)}});
  }
  if (used.prefill_chunk_rows == 0) {
    used.prefill_chunk_rows = PrefillChunkRowsFor(model->description().linear,
                                                  options.max_batch_rows);
  }
  auto core =
      std::make_unique<Core>(used, std::move(model), clock, metrics, store);
  if (store != nullptr) {
    STEADYSTATE_RETURN_IF_ERROR(core->keeper.TakeUpStored());
  }
  return std::unique_ptr<Engine>(new Engine(std::move(core)));
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

void Engine::CreateSession(const SessionOptions& options, Created created) {
  absl::StatusOr<SessionInfo> now =
      core_->admission.CreateSession(options, &created);
  // If not, it has been taken.
  if (created) created(std::move(now));
}

absl::StatusOr<SessionInfo> Engine::GetSession(const SessionKey& key) {
  return core_->keeper.Get(key);
}

absl::StatusOr<SessionPage> Engine::ListSessions(size_t page_size,
                                                 absl::string_view page_token,
                                                 const SessionQuery& query) {
  return core_->keeper.List(query, page_size, page_token);
}

absl::Status Engine::DeleteSession(const SessionKey& key,
                                   Shelf::Removed removed) {
  return core_->admission.DeleteSession(key, std::move(removed));
}

absl::Status Engine::HibernateSession(const SessionKey& key,
                                      Shelf::Hibernated hibernated) {
  return core_->admission.HibernateSession(key, std::move(hibernated));
}

SessionEvents& Engine::session_events() { return core_->keeper.events(); }

std::optional<size_t> Engine::StoreSessions(absl::Duration timeout) {
  return core_->keeper.StoreAll(timeout);
}

absl::StatusOr<Engine::DrainEstimate> Engine::EstimateDrain() {
  SessionArchive& archive = *core_->archive;
  const uint64_t each = archive.session_bytes();
  STEADYSTATE_RETURN_IF_ERROR(
      MeasureStore(archive.store(), each, core_->clock, archive.rate()));
  const auto most = static_cast<size_t>(std::min<uint64_t>(
      core_->keeper.slots(), core_->options.store_budget_bytes / each));
  return DrainEstimate{.bytes = most * each,
                       .bytes_per_second = archive.rate().bytes_per_second(),
                       .time = archive.TimeFor(most)};
}

WorkRequest Engine::ForkWork(ForkOptions options,
                             std::shared_ptr<Forks> forks) {
  WorkRequest request;
  request.joins = true;
  request.bytes = MemoryOf(options);
  request.work = [&keeper = core_->keeper, options = std::move(options),
                  forks = std::move(forks),
                  &model = *core_->model](Session& session) -> absl::Status {
    STEADYSTATE_ASSIGN_OR_RETURN(const uint64_t position,
                                 PositionOf(options.at, session, keeper));
    if (position == session.state.position()) {
      STEADYSTATE_RETURN_IF_ERROR(keeper.health().Check(session));
    }
    absl::StatusOr<Forks> made =
        keeper.Fork(session, options, position,
                    UnfinishedTextAt(model, session.state, position));
    if (!made.ok()) return made.status();
    *forks = *std::move(made);
    return absl::OkStatus();
  };
  return request;
}

WorkRequest Engine::RewindWork(const PastPoint& to,
                               std::shared_ptr<SessionInfo> rewound) {
  WorkRequest request;
  request.work = [&keeper = core_->keeper, to, rewound = std::move(rewound),
                  &model = *core_->model](Session& session) -> absl::Status {
    const auto find = [&](SessionPast& past) -> absl::StatusOr<WayBack> {
      if (to.checkpoint.has_value()) {
        return past.FindCheckpoint({*to.checkpoint, session.owner});
      }
      STEADYSTATE_ASSIGN_OR_RETURN(const uint64_t position,
                                   PositionOf(to, session, keeper));
      return past.Find(session, position,
                       UnfinishedTextAt(model, session.state, position));
    };
    STEADYSTATE_ASSIGN_OR_RETURN(*rewound, keeper.Rewind(session, find));
    return absl::OkStatus();
  };
  return request;
}

WorkRequest Engine::UpdateWork(SessionChanges changes,
                               std::shared_ptr<SessionInfo> updated) {
  WorkRequest request;
  request.work = [&keeper = core_->keeper, changes = std::move(changes),
                  updated = std::move(updated)](Session& session) {
    STEADYSTATE_ASSIGN_OR_RETURN(*updated, keeper.Update(session, changes));
    return absl::OkStatus();
  };
  return request;
}

uint64_t Engine::max_context_cap() const {
  return core_->keeper.most_context_cap();
}

size_t Engine::max_snapshot_bytes() const {
  return core_->snapshots.max_bytes(max_context_cap());
}

WorkRequest Engine::CreateWork(std::vector<int32_t> prompt,
                               SessionOptions options,
                               std::shared_ptr<SessionInfo> created) {
  WorkRequest request;
  request.bytes = prompt.size() * sizeof(int32_t);
  request.context_cap = options.context_cap;
  request.work = [core = core_.get(), prompt = std::move(prompt),
                  options = std::move(options),
                  created = std::move(created)](Session& session) {
    constexpr absl::string_view kField = "reuse_prefix.ids";
    STEADYSTATE_RETURN_IF_ERROR(
        CheckInputLength(kField, prompt.size(), core->options));
    STEADYSTATE_RETURN_IF_ERROR(
        CheckTokens(kField, prompt, core->model->description().vocab_size));
    STEADYSTATE_RETURN_IF_ERROR(
        core->keeper.GiveCap(session, options.context_cap, 0, 0));
    STEADYSTATE_ASSIGN_OR_RETURN(
        const SessionPrefixes::Reused reused,
        core->keeper.prefixes().Reuse(session, options.owner, prompt,
                                      [](SessionState&) {}));
    STEADYSTATE_ASSIGN_OR_RETURN(
        *created,
        core->keeper.Enlist(session, options, SessionEventKind::kCreated));
    created->prefix_reuse = reused.result;
    return absl::OkStatus();
  };
  return request;
}

WorkRequest Engine::ExportWork(std::shared_ptr<Export> to) {
  WorkRequest request;
  request.joins = true;
  request.work = [core = core_.get(), to = std::move(to)](Session& session) {
    STEADYSTATE_RETURN_IF_ERROR(core->keeper.health().Check(session));
    to->position = session.state.position();
    // Whoever imports it knows that it was.
    to->snapshot =
        core->snapshots.Write(core->keeper.CardOf(session), session.state,
                              {.other_numerics = session.other_numerics});
    return absl::OkStatus();
  };
  return request;
}

WorkRequest Engine::NormsWork(std::shared_ptr<Norms> to) {
  WorkRequest request;
  request.joins = true;
  request.work = [core = core_.get(), to = std::move(to)](Session& session) {
    to->slots = core->keeper.health().Norms(session);
    STEADYSTATE_ASSIGN_OR_RETURN(to->session, core->keeper.Get(session.key()));
    return absl::OkStatus();
  };
  return request;
}

WorkRequest Engine::ImportWork(std::string snapshot, SessionOptions options,
                               std::shared_ptr<SessionInfo> created) {
  WorkRequest request;
  request.bytes = snapshot.size();
  // So that it waits for as much memory as it takes, and not for more.
  request.context_cap = options.context_cap;
  if (const auto head = core_->snapshots.ReadHead(snapshot);
      head.ok() && head->card.context_cap != 0 && !options.context_cap) {
    request.context_cap = std::max(head->card.context_cap, head->position);
  }
  request.work = [core = core_.get(), bytes = std::move(snapshot),
                  options = std::move(options),
                  created = std::move(created)](Session& session) {
    STEADYSTATE_ASSIGN_OR_RETURN(const Snapshot read,
                                 core->snapshots.Read(bytes));
    STEADYSTATE_RETURN_IF_ERROR(
        core->keeper.GiveCap(session, options.context_cap,
                             read.card.context_cap, read.contents.position));
    core->snapshots.Restore(read, session.state);
    session.state.NoteImported();
    session.other_numerics = read.other_numerics && read.contents.position > 0;
    STEADYSTATE_ASSIGN_OR_RETURN(
        *created, core->keeper.Enlist(session, Completed(options, read.card),
                                      SessionEventKind::kImported));
    return absl::OkStatus();
  };
  return request;
}

const SnapshotFormat& Engine::snapshots() const { return core_->snapshots; }

template <typename R>
void Engine::Core::Submit(std::span<Submission<R>> submissions) {
  size_t valid = 0;
  for (Submission<R>& submission : submissions) {
    submission.refusal = Validate(submission.request, *model, options);
    if (submission.refusal.ok()) {
      ++valid;
    } else {
      submission.receiver.reset();
    }
  }
  std::vector<std::unique_ptr<Request>> requests;
  requests.reserve(valid);
  RequestPool& pool = std::get<PoolOf<R>>(pools);
  pool.Take(valid, requests);
  std::vector<Admission::Entry> entries;
  entries.reserve(valid);
  for (Submission<R>& submission : submissions) {
    if (!submission.refusal.ok()) continue;
    std::unique_ptr<Request>& request = requests[entries.size()];
    // The pool's tasks are of this kind.
    static_cast<TaskOf<R>&>(*request->task).Take(submission);
    entries.push_back({.request = std::move(request),
                       .id = submission.id,
                       .refusal = submission.refusal});
  }
  admission.Submit(entries);
  for (Admission::Entry& entry : entries) {
    if (entry.request != nullptr) pool.GiveBack({&entry.request, 1});
  }
}

template <typename R>
void Engine::Submit(std::span<Submission<R>> submissions) {
  core_->Submit(submissions);
}

template void Engine::Submit(std::span<Submission<StepRequest>>);
template void Engine::Submit(std::span<Submission<GenerateRequest>>);
template void Engine::Submit(std::span<Submission<ScoreRequest>>);
template void Engine::Submit(std::span<Submission<EmbedRequest>>);
template void Engine::Submit(std::span<Submission<WorkRequest>>);

void Engine::Cancel(RequestId id) { core_->admission.Cancel(id); }

void Engine::Wake(RequestId id) { core_->admission.Wake(id); }

void Engine::EndWriter(WriterId writer) { core_->admission.EndWriter(writer); }

WriterId Engine::NewWriter() { return core_->admission.NewWriter(); }

void Engine::BeginDrain() { core_->admission.BeginDrain(); }

bool Engine::WaitIdle(absl::Duration timeout) {
  return core_->admission.WaitIdle(timeout);
}

void Engine::AbortRequests() { core_->admission.AbortRequests(); }

SteadyTime Engine::heartbeat() const { return core_->compute.heartbeat(); }

}  // namespace steadystate
