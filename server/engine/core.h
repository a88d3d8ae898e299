#ifndef STEADYSTATE_SERVER_ENGINE_CORE_H_
#define STEADYSTATE_SERVER_ENGINE_CORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/engine/backlog.h"
#include "server/engine/batch_runner.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"
#include "server/engine/return_window.h"
#include "server/engine/scheduler.h"
#include "server/engine/step_pool.h"
#include "server/engine/task.h"
#include "server/metrics/metrics.h"
#include "server/model/model.h"
#include "server/session/session.h"
#include "server/session/session_info.h"
#include "server/session/session_keeper.h"
#include "server/session/session_state.h"

namespace steadystate {

// The engine behind its facade: what is shared between callers and the compute
// thread (core.cc), and the compute thread's loop (compute_loop.cc).
//
// Callers only ever note things under the lock: a request, a wish to cancel or
// to wake, a deleted session. The compute thread alone takes requests out of
// the backlog, touches the states of active sessions, and calls receivers;
// never under the lock. What takes long and is no computing is ordered of the
// sessions' keeper, and comes back as a note.
//
// Lock order: mutex_, then the keeper's. Thread-safe.
class Engine::Core {
 public:
  // REQUIRES: valid options; the budget holds a session.
  Core(const EngineOptions& options, std::shared_ptr<const Model> model,
       const Clock& clock, Metrics& metrics);
  ~Core();

  const Model& model() const { return *model_; }
  const EngineOptions& options() const { return options_; }
  const Clock& clock() const { return clock_; }
  Metrics& metrics() { return metrics_; }
  StepPool& steps() { return steps_; }

  absl::StatusOr<SessionInfo> CreateSession(const SessionOptions& options);
  SessionKeeper& sessions() { return keeper_; }
  absl::Status DeleteSession(const SessionKey& key);

  RequestId NewRequestId() { return next_request_++; }
  WriterId NewWriter() { return next_writer_++; }

  // A request on its way into the backlog.
  struct Submission {
    const RequestBase& base;
    std::unique_ptr<Request> request;  // with id and task
    bool on_fresh_state = false;       // one that ends with the task
    absl::Status& refusal;             // why it was not accepted
  };

  // Queues each request on its session, or on a fresh state; or says why not
  // and leaves it where it is.
  void Submit(std::span<Submission> submissions);
  // Queues the task; or finishes it with the reason for its refusal.
  RequestId Submit(const RequestBase& base, std::unique_ptr<Task> task,
                   bool on_fresh_state = false);
  void Cancel(RequestId id);
  void Wake(RequestId id);

  void BeginDrain();
  bool WaitIdle(absl::Duration timeout);
  void AbortRequests();
  SteadyTime heartbeat() const {
    return SteadyTime::FromZero(
        absl::Nanoseconds(heartbeat_nanoseconds_.load()));
  }

 private:
  // An answer on its way out, with the request that it ends.
  struct Answer {
    std::unique_ptr<Request> request;
    absl::Status status;
  };

  // A request that was with the keeper, and how it went there.
  struct Return {
    RequestId id;
    absl::Status status;
  };

  // The requests that compute together.
  struct Batch {
    std::vector<BatchItem> items;
    std::vector<Request*> requests;  // whose each item is
  };

  // Callers.
  absl::Status Accept(Submission& submission, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_, keeper_.mutex());
  absl::Status CheckOpen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CountRefusal(absl::Status status);
  // The keeper's thread has done what was ordered for the session.
  void Returned(const Session& session, const absl::Status& status);
  void WakeCompute() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The compute thread.
  void Loop();
  bool WaitFor(size_t requests, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForReturns() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WaitForWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeNotes();
  std::span<const RequestId> Taken(std::vector<RequestId>& ids)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_, keeper_.mutex());
  void EndEarly() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_, keeper_.mutex());
  void End(Request& request, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_, keeper_.mutex());
  void StartTurn(Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_, keeper_.mutex());
  void Order(Request& request, SessionKeeper::Work work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_, keeper_.mutex());
  void TakeReturned() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_, keeper_.mutex());
  void Ask(Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Settle(Request& request, absl::Status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_, keeper_.mutex());
  SteadyTime Beat();
  void AskReceivers();
  bool FormBatch(BatchPhase phase, Batch& batch);
  void RunDecode(BatchRunner& runner);
  void RunPrefill(BatchRunner& runner);
  size_t Complete(Batch& batch, const BatchTimes& times);
  size_t Commit(const Batch& batch, const BatchTimes& times);
  void CommitItem(const BatchItem& item, Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_, keeper_.mutex());
  void SendAnswers();
  void SendSteps();
  void EndEverything();

  // Constant after construction.
  const EngineOptions options_;
  const std::shared_ptr<const Model> model_;
  const Clock& clock_;
  Metrics& metrics_;
  const SessionLayout layout_;

  // Self-synchronised.
  StepPool steps_;
  std::atomic<RequestId> next_request_ = 1;
  std::atomic<WriterId> next_writer_ = 1;
  std::atomic<int64_t> heartbeat_nanoseconds_;
  std::atomic<bool> noted_ = false;  // something, for the compute thread

  Mutex mutex_;
  CondVar work_;  // something was noted for the compute thread
  CondVar idle_;  // unanswered_ became 0
  Backlog backlog_ ABSL_GUARDED_BY(mutex_);
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;  // callbacks included
  size_t elsewhere_ ABSL_GUARDED_BY(mutex_) = 0;   // with the keeper
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool aborting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // As many requests in starting_ wake the compute thread; 0: it does not wait.
  size_t wake_at_ ABSL_GUARDED_BY(mutex_) = 0;
  // Notes for the compute thread; each request stands at most once in each.
  std::vector<RequestId> starting_ ABSL_GUARDED_BY(mutex_);  // their turn came
  std::vector<RequestId> cancelled_ ABSL_GUARDED_BY(mutex_);
  std::vector<RequestId> woken_ ABSL_GUARDED_BY(mutex_);
  std::vector<RequestId> orphaned_ ABSL_GUARDED_BY(mutex_);  // session deleted
  std::vector<Return> returned_ ABSL_GUARDED_BY(mutex_);     // from the keeper

  // Confined to the compute thread.
  Scheduler scheduler_;
  std::vector<RequestId> continuing_;  // have had a batch and want another
  std::vector<Request*> asking_;
  std::vector<RequestId> taken_;  // from the scheduler, or a list of notes
  Batch decode_;                  // empty when none runs
  Batch prefill_;                 // may be left between two layers
  absl::Duration decode_time_;    // of the last decode batch
  ReturnWindow returns_;
  Moment now_;              // when its state was last looked at
  bool finishing_ = false;  // what has begun is carried through at once
  std::vector<Answer> answers_;
  std::vector<StepAnswer> step_answers_;   // of one sink
  std::vector<StepSink*> answered_sinks_;  // in this round
  std::vector<std::unique_ptr<Request>> answered_steps_;
  size_t answered_ = 0;  // not yet taken off unanswered_

  SessionKeeper keeper_;  // its thread uses what is above
  std::thread thread_;    // last: it uses all of the above
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_CORE_H_
