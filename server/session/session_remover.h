#ifndef STEADYSTATE_SERVER_SESSION_SESSION_REMOVER_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_REMOVER_H_

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/session/removals.h"
#include "server/session/session_archive.h"
#include "server/session/session_saver.h"
#include "server/session/shelf.h"

namespace steadystate {

// Lets the log say that what Shelf::removals has is gone, removes it from the
// database, and tells who asked for it. Lets the database know which sessions
// have expired, before they leave, so that the next process knows. Of
// KeeperThread; confined to that thread.
class SessionRemover {
 public:
  // All outlive it. `archive`: null without a store, and then there is nothing
  // to remove.
  SessionRemover(Shelf& shelf, SessionArchive* archive, SessionSaver& saver,
                 const Clock& clock)
      : shelf_(shelf), archive_(archive), saver_(saver), clock_(clock) {}

  // RemoveSome has something to do. REQUIRES: the caller holds Shelf::mutex,
  // which is another one to the analysis if it is reached by another way.
  bool HasWork() const;
  void RemoveSome() ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  // Removes all that there is, as far as log and database let it be. What is
  // left leaves when the next process begins, or comes back if the log does not
  // know of it.
  void Finish() ABSL_LOCKS_EXCLUDED(shelf_.mutex);

 private:
  uint64_t Synced() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  bool MayLog() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  bool NoteExpired() ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  bool LogSome() ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  bool DropSome() ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  void TellWaiting() ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  void SyncLog() ABSL_LOCKS_EXCLUDED(shelf_.mutex);

  Shelf& shelf_;
  SessionArchive* const archive_;
  SessionSaver& saver_;
  const Clock& clock_;
  // The log has failed: it is not tried until then.
  SteadyTime retry_ = SteadyTime::InfinitePast();
  absl::Status failure_;  // of the log, then
  // Log or database has, since those who wait have been told.
  bool has_failed_ = false;
  uint64_t synced_itself_ = 0;  // beside the journal
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_REMOVER_H_
