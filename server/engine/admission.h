#ifndef STEADYSTATE_SERVER_ENGINE_ADMISSION_H_
#define STEADYSTATE_SERVER_ENGINE_ADMISSION_H_

#include <atomic>
#include <memory>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/engine/desk.h"
#include "server/engine/request.h"
#include "server/metrics/metrics.h"
#include "server/session/session_info.h"
#include "server/session/session_keeper.h"

namespace steadystate {

// The callers' side of the engine: says whether a session or a request is
// accepted, and notes for the compute thread what callers want. Thread-safe.
class Admission {
 public:
  // A request at the door.
  struct Entry {
    std::unique_ptr<Request> request;  // with its task; taken if accepted
    RequestId& id;                     // its name, if it was accepted
    absl::Status& refusal;             // why it was not
  };

  // All of them outlive it.
  Admission(Desk& desk, SessionKeeper& keeper, const Clock& clock,
            Metrics& metrics)
      : desk_(desk), keeper_(keeper), clock_(clock), metrics_(metrics) {}

  // As Engine's; and SessionKeeper's.
  absl::StatusOr<SessionInfo> CreateSession(
      const SessionOptions& options, SessionKeeper::Created* created = nullptr);
  absl::Status DeleteSession(const SessionKey& key, Shelf::Removed removed);

  absl::Status HibernateSession(const SessionKey& key,
                                Shelf::Hibernated hibernated);

  WriterId NewWriter() { return next_writer_++; }

  void EndWriter(WriterId writer);

  // Queues each request on its session, or on a fresh state; or says why not
  // and leaves it where it is.
  void Submit(std::span<Entry> entries);
  void Cancel(RequestId id);
  void Wake(RequestId id);

  void BeginDrain();
  bool WaitIdle(absl::Duration timeout);
  void AbortRequests();

 private:
  absl::Status TakeOut(const SessionKey& key, Shelf::Removed& removed);
  // The session that the request is for; null if that is still to be made.
  absl::StatusOr<Session*> FindFor(const RequestBase& request,
                                   const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  absl::StatusOr<Session*> MakeFor(const RequestBase& request,
                                   const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  absl::Status Accept(Entry& entry, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void TakeUpFor(const Request& repeat)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex);
  absl::Status CheckOpen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex);
  absl::Status CountRefusal(absl::Status status);

  Desk& desk_;
  SessionKeeper& keeper_;
  const Clock& clock_;
  Metrics& metrics_;
  std::atomic<WriterId> next_writer_ = 1;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_ADMISSION_H_
