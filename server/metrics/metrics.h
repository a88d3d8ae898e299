#ifndef STEADYSTATE_SERVER_METRICS_METRICS_H_
#define STEADYSTATE_SERVER_METRICS_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace prometheus {
class Collectable;
}

namespace steadystate {

// What ended a generation that ended by itself.
enum class FinishReason : uint8_t { kStopToken, kStopString, kLength };

// Closed label sets. The label's value is the name without k, in snake case.
enum class SessionEnd : uint8_t { kDeleted, kExpired, kShutdown };
// What can happen to a session that can be named.
enum class SessionEventKind : uint8_t {
  kCreated,
  kForked,
  kImported,
  kHibernated,
  kEvicted,
  kWoken,
  kRewound,
  kExpired,
  kDeleted
};
enum class Rejection : uint8_t { kStateBudget, kQueueFull, kDraining };
enum class TokenKind : uint8_t { kPrompt, kGenerated };
enum class BatchPhase : uint8_t { kPrefill, kDecode };
enum class StepPhase : uint8_t { kProjection, kRecurrence, kOther, kSample };
enum class CancelSource : uint8_t { kClient, kDeadline };
enum class CancelStage : uint8_t { kQueued, kRunning };
enum class ConnectionRefusal : uint8_t {
  kMaxConnections,
  kMaxConnectionsPerPeer,
  kDescriptors
};
// What takes long and is done on threads for it.
enum class LongWork : uint8_t { kReading, kTexts };
enum class StoreFailure : uint8_t { kRead, kWrite, kLog };
enum class SnapshotUse : uint8_t { kRead, kWritten };
// What became of a request's wish to begin where an earlier prompt has been:
// nothing is kept that begins as its own does; the same, and that is too short
// to be kept; its session had absorbed something.
enum class PrefixReuse : uint8_t {
  kReused,
  kNotKept,
  kTooShort,
  kSessionNotNew
};
// What became of a state with NaN or infinity, or that led to some.
enum class NonFinite : uint8_t {
  kRestored,     // the session has an earlier one
  kNotRestored,  // none could be reached
  kNoSession,    // it was its request's own
};
enum class ConnectionCut : uint8_t { kResets, kBytes, kUnfinished };

// What metrics say once about the model and the machine.
struct ModelInfoLabels {
  std::string fingerprint;
  std::string weight_dtype;
  std::string state_dtype;
  std::string isa;
  std::string kernel_target;
  std::string onednn_version;
};

// Every metric that the process exports, declared in one table (metrics.cc),
// all series present from the start. No label ever names a session.
// Thread-safe. Each call costs some tens of nanoseconds, without allocation.
class Metrics {
 public:
  explicit Metrics(absl::string_view model);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void SessionCreated();
  void SessionEnded(SessionEnd reason, absl::Duration lifetime,
                    uint64_t tokens);
  // What those who watch sessions are told.
  void SessionEventHappened(SessionEventKind kind);
  void SetSessionWatchers(size_t open);
  // Sessions alone. `hibernated`: idle, and in the store only.
  void SetSessions(size_t active, size_t idle, size_t hibernated);
  // Those that the store has and cannot give back, of all that can be named.
  void SetUnusable(size_t other_numerics, size_t corrupt);
  // What is kept of sessions, and of prompts by themselves: in memory, or
  // waiting for memory, and in the store only.
  void SetCheckpoints(size_t in_memory, size_t stored);
  void SetKeptPrompts(size_t in_memory, size_t stored);
  // A session was made as a copy of another one, or went back.
  void Forked();
  void Rewound();
  // A session's state was read from the store, or written there.
  void Snapshot(SnapshotUse use, absl::Duration time, uint64_t bytes);
  // A round, or some, was written to the log.
  void Logged(uint64_t bytes);
  void LogSynced(absl::Duration time);
  // Inputs that the log had were computed again.
  void ReplayedTokens(uint64_t tokens);
  void StoreFailed(StoreFailure kind);
  // A session's state has left memory for the store.
  void Hibernated();
  // It is back, for a request that has waited so long.
  void Woken(absl::Duration waited);
  // A request found no free slot for a state, and waits for one.
  void SlotAwaited();
  // Writing down what the store does not have would take so long.
  void SetDrainEstimate(absl::Duration time);
  void SetStateBytes(uint64_t used, uint64_t capacity, uint64_t per_session);
  void Rejected(Rejection reason);

  void SetRequests(size_t running, size_t waiting);
  // `method` is a full RPC name, "steadystate.v1.GenerationService/Step";
  // unknown ones are counted as "other".
  void RequestFinished(absl::string_view method, absl::StatusCode code,
                       absl::Duration duration);
  // One more or one less open stream.
  void AddStreams(int delta);
  // gRPC's connections: those open, and what became of new ones.
  void SetConnections(size_t open);
  void ConnectionAccepted();
  void ConnectionRefused(ConnectionRefusal reason);
  void ConnectionWasCut(ConnectionCut reason);
  // Memory of answers that have not been sent, and calls that wait for some.
  void SetOutbound(uint64_t bytes, size_t waiting);
  // What waits for such a thread.
  void SetLongWorkWaiting(LongWork kind, size_t waiting);
  // An error answered to a client, as a status or inside a stream; `reason` is
  // an ErrorReason's wire name.
  void ErrorAnswered(absl::string_view reason);

  void Queued(BatchPhase phase, absl::Duration waited);
  void TimeToFirstToken(absl::Duration time);
  void InterTokenLatency(absl::Duration time);
  void StepDuration(StepPhase phase, absl::Duration time);
  void Batch(size_t segments, size_t rows);
  uint64_t CountBatches() const;
  void Tokens(TokenKind kind, uint64_t count);
  void PositionMismatch();
  // A request asked to begin where an earlier prompt has been; `tokens` of its
  // own need not be computed.
  void PrefixAsked(PrefixReuse result, uint64_t tokens);
  // A generation ended by itself.
  void Generated(FinishReason reason, uint64_t prompt_tokens,
                 uint64_t generated_tokens);
  // A repeated request is answered from the record of the first.
  void Replayed();
  void Cancelled(CancelStage stage, CancelSource source);
  void NonFiniteState(NonFinite result);

  void SetModelInfo(const ModelInfoLabels& labels);
  void SetModelLoadDuration(absl::Duration time);
  void SetReady(bool ready);
  void SetHeartbeatAge(absl::Duration age);
  void SetComputeThreads(size_t threads);

  // Everything to be scraped, process_* included. Shares ownership: they may
  // outlive this object.
  std::vector<std::shared_ptr<prometheus::Collectable>> collectables() const;

 private:
  struct Families;
  std::shared_ptr<Families> families_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_METRICS_METRICS_H_
