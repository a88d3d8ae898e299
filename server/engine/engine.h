#ifndef STEADYSTATE_SERVER_ENGINE_ENGINE_H_
#define STEADYSTATE_SERVER_ENGINE_ENGINE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/engine/engine_options.h"
#include "server/engine/receiver.h"
#include "server/engine/request.h"
#include "server/metrics/metrics.h"
#include "server/model/model.h"
#include "server/model/state_norms.h"
#include "server/session/session_events.h"
#include "server/session/session_info.h"
#include "server/session/session_state.h"
#include "server/session/session_store.h"
#include "server/session/shelf.h"
#include "server/session/snapshot.h"

namespace steadystate {

// Holds the sessions and decides which advance now. One compute thread forms
// batches from whatever is ready, decode before prefill, runs the model and
// answers. After a decode batch it waits a moment for the clients that it has
// answered (ReturnWindow).
//
// What a request did before it failed: a deadline or a cancel that comes before
// its first batch leaves the session untouched. One that comes later leaves the
// tokens absorbed so far, and Generate's last answered token is then the last
// one absorbed. A Step is all or nothing: once its first batch began it is
// carried through, and its answer is the record; only the deletion of its
// session, a log that fails, AbortRequests and the engine's end cut it short.
//
// Errors carry ErrorReasons (server/base/error.h). Thread-safe. Receivers are
// called on the compute thread.
class Engine {
 public:
  // INVALID_ARGUMENT if an option is out of range, or the budget is smaller
  // than one session (the message says how much one takes). Takes up the
  // sessions that `store` has; STORE_UNAVAILABLE if it cannot be read. `clock`,
  // `metrics` and `store` outlive the engine; `store` may be null: sessions are
  // in memory only then, and end with the engine.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const EngineOptions& options, std::shared_ptr<const Model> model,
      const Clock& clock, Metrics& metrics, SessionStore* store = nullptr);

  // Refuses new work, answers what is queued with DRAINING, lets the batch that
  // runs finish, joins the compute thread.
  ~Engine();

  const Model& model() const;
  const EngineOptions& options() const;
  const Clock& clock() const;

  // SESSION_ALREADY_EXISTS, STATE_BUDGET_EXHAUSTED (with a retry hint),
  // INVALID_ARGUMENT (id, ttl or labels out of bounds), DRAINING.
  // STORE_UNAVAILABLE (with a retry hint), NO_STORE.
  // `created` is called once, here or on another thread: if the session is
  // logged, when the log has it.
  using Created = std::function<void(absl::StatusOr<SessionInfo>)>;
  void CreateSession(const SessionOptions& options, Created created);
  // The same without waiting for the log.
  absl::StatusOr<SessionInfo> CreateSession(const SessionOptions& options);
  // SESSION_NOT_FOUND, SESSION_EXPIRED (metadata: expire_time).
  absl::StatusOr<SessionInfo> GetSession(const SessionKey& key);
  // As SessionTable::List. `page_size` in [1, 1000]. INVALID_PAGE_TOKEN.
  absl::StatusOr<SessionPage> ListSessions(size_t page_size,
                                           absl::string_view page_token,
                                           const SessionQuery& query = {});
  // Also ends the session's requests with SESSION_NOT_FOUND; a request in the
  // running batch ends when that batch has run. Then the state is given back.
  // With a store `removed` is called when it does not have the session any
  // more, or with STORE_UNAVAILABLE when it may still; else at once. Not if
  // this fails: SESSION_NOT_FOUND, SESSION_EXPIRED.
  absl::Status DeleteSession(const SessionKey& key,
                             Shelf::Removed removed = nullptr);

  // Lets an idle session's state leave memory for the store, and calls
  // `hibernated` then, or with why it does not: SESSION_BUSY,
  // STORE_UNAVAILABLE, DRAINING. Not if this fails: SESSION_NOT_FOUND,
  // SESSION_EXPIRED, NO_STORE, DRAINING, INVALID_ARGUMENT of an ephemeral one.
  absl::Status HibernateSession(const SessionKey& key,
                                Shelf::Hibernated hibernated);

  // What happens to sessions that can be named.
  SessionEvents& session_events();

  // Writes all sessions that are idle down in the store; while that fails, once
  // a second, until `timeout` has passed. -> how many it does not have as they
  // are; nothing if it hangs, and then the engine's end would wait for that.
  // REQUIRES: there is one.
  std::optional<size_t> StoreSessions(absl::Duration timeout);

  // How long StoreSessions takes at most, where memory is full of sessions that
  // the store does not have, at the rate at which it takes snapshots. That is
  // measured here, which takes about a tenth of a second: some MiB are written
  // to the store and removed again. Errors of the store. REQUIRES: there is
  // one.
  struct DrainEstimate {
    uint64_t bytes = 0;
    double bytes_per_second = 0;
    absl::Duration time;
  };
  absl::StatusOr<DrainEstimate> EstimateDrain();

  // Work, for Submit, that creates sessions which are copies of another one: of
  // the request's, as it is when the request's turn comes, or as it was. A
  // generation that goes on need not end for that. All of them are created, or
  // none: SESSION_ALREADY_EXISTS, STATE_BUDGET_EXHAUSTED (with a retry hint),
  // INVALID_ARGUMENT, POSITION_OUT_OF_REACH, STATE_NOT_FINITE. `forks` is
  // filled in before the
  // request is answered. A draw is the same in all of them.
  WorkRequest ForkWork(ForkOptions options, std::shared_ptr<Forks> forks);

  // Work, for Submit, that takes the request's session back to a position that
  // it has been at: what it absorbed after that, and the records of requests
  // that did, have not been. Or that makes it what a checkpoint is. `rewound`
  // is filled in before the request is answered. POSITION_OUT_OF_REACH
  // (metadata: position, earliest_position), CHECKPOINT_NOT_FOUND.
  WorkRequest RewindWork(const PastPoint& to,
                         std::shared_ptr<SessionInfo> rewound);

  // Work, for Submit, that changes what a client may choose of the request's
  // session. `updated` is filled in before the request is answered. As
  // SessionKeeper::Update.
  WorkRequest UpdateWork(SessionChanges changes,
                         std::shared_ptr<SessionInfo> updated);
  // The largest cap that a session may have; 0 if they need none. And the
  // largest snapshot of one.
  uint64_t max_context_cap() const;
  size_t max_snapshot_bytes() const;

  // Work, for Submit with no session, that creates a session which begins where
  // earlier prompts like this one have been: at the end of the longest
  // beginning of it that is kept, where the rest of the prompt goes on.
  // `created` is filled in before the request is answered. Errors of
  // CreateSession, TOKEN_OUT_OF_RANGE.
  WorkRequest CreateWork(std::vector<int32_t> prompt, SessionOptions options,
                         std::shared_ptr<SessionInfo> created);

  // Work, for Submit, that writes down the request's session as a snapshot; as
  // ForkWork otherwise. `to` is filled in before the request is answered.
  struct Export {
    std::string snapshot;
    uint64_t position = 0;
  };
  WorkRequest ExportWork(std::shared_ptr<Export> to);  // STATE_NOT_FINITE

  // Work, for Submit, that looks how large the numbers of the request's
  // session's state are; as ForkWork otherwise. `to` is filled in before the
  // request is answered; it says of the session what it is meanwhile.
  struct Norms {
    SessionInfo session;
    std::vector<SlotNorm> slots;
  };
  WorkRequest NormsWork(std::shared_ptr<Norms> to);

  // Work, for Submit with no session, that makes a session of a snapshot. Of
  // the options, what is absent is as in the snapshot. `created` is filled in
  // before the request is answered. Errors of SnapshotFormat::Read and of
  // CreateSession.
  WorkRequest ImportWork(std::string snapshot, SessionOptions options,
                         std::shared_ptr<SessionInfo> created);
  const SnapshotFormat& snapshots() const;

  // Takes up requests of one kind (StepRequest, GenerateRequest, ScoreRequest,
  // EmbedRequest, WorkRequest), in their order and all at once, so that those
  // of different sessions share a batch. Fills in what became of each; answers
  // may come before this returns, and the last one exactly once unless the
  // request was refused.
  // Refused with: SESSION_NOT_FOUND, SESSION_EXPIRED, SESSION_BUSY, QUEUE_FULL
  // or STATE_BUDGET_EXHAUSTED (with a retry hint), INVALID_ARGUMENT,
  // TOKEN_OUT_OF_RANGE, TOKENIZER_UNAVAILABLE, BIDIRECTIONAL_UNSUPPORTED,
  // DRAINING, DEADLINE_EXCEEDED. Answered later with: POSITION_MISMATCH
  // (metadata: position, expected_position), NO_PENDING_LOGITS,
  // CONTEXT_CAP_REACHED, DEADLINE_EXCEEDED, CANCELLED, SESSION_NOT_FOUND
  // (deleted meanwhile), DRAINING, STATE_BUDGET_EXHAUSTED (the system refuses
  // the memory), STATE_NOT_FINITE.
  template <typename R>
  void Submit(std::span<Submission<R>> submissions);
  // One request alone: its id, or its refusal.
  template <typename R>
  absl::StatusOr<RequestId> Submit(
      R request, std::type_identity_t<std::shared_ptr<Receiver<R>>> receiver);

  // Asks for a request's end: it is answered CANCELLED if it has not finished.
  // Unknown and finished ids are ignored.
  void Cancel(RequestId id);

  // A receiver is ready again. Unknown and finished ids are ignored.
  void Wake(RequestId id);

  // A fresh writer id.
  WriterId NewWriter();
  // Lets the sessions end that requests of the writer have made
  // (RequestBase::ephemeral), as DeleteSession does, soon. REQUIRES: the writer
  // submits nothing more.
  void EndWriter(WriterId writer);

  // From now on refuses sessions and requests with DRAINING; what was accepted
  // goes on.
  void BeginDrain();
  // True when no request is queued or running, false if `timeout` passed first.
  bool WaitIdle(absl::Duration timeout);

  // For a process about to end: ends with DRAINING whatever has not finished
  // when the batch that runs is done. Steps that have begun too: their sessions
  // then stand within them, where the answer's metadata says (position).
  // Includes BeginDrain.
  void AbortRequests();

  // When the compute thread last moved, by the engine's clock: liveness. It
  // goes on after each layer of a batch, and at least once a second when idle.
  SteadyTime heartbeat() const;

 private:
  struct Core;
  explicit Engine(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

template <typename R>
absl::StatusOr<RequestId> Engine::Submit(
    R request, std::type_identity_t<std::shared_ptr<Receiver<R>>> receiver) {
  Submission<R> one = {.request = std::move(request),
                       .receiver = std::move(receiver),
                       .refusal = {}};
  Submit(std::span(&one, 1));
  if (!one.refusal.ok()) return one.refusal;
  return one.id;
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_ENGINE_H_
