#ifndef STEADYSTATE_SERVER_SESSION_SESSION_REMOVER_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_REMOVER_H_

#include <vector>

#include "server/base/clock.h"
#include "server/session/session_archive.h"
#include "server/session/session_saver.h"
#include "server/session/shelf.h"

namespace steadystate {

// Removes what Shelf::removals names from the store, lets the log say so, and
// tells who asked for it. Of KeeperThread; confined to that thread.
class SessionRemover {
 public:
  // All outlive it. `archive`: null without a store, and then there is nothing
  // to remove.
  SessionRemover(Shelf& shelf, SessionArchive* archive, SessionSaver& saver,
                 const Clock& clock)
      : shelf_(shelf), archive_(archive), saver_(saver), clock_(clock) {}

  // Neither the store nor the log is left alone.
  bool MayRemove() const;
  // False if there were none, or the store has failed, or the log.
  bool RemoveSome();
  // The log is tried again at once.
  void ForgetFailure() { retry_ = SteadyTime::InfinitePast(); }

 private:
  void LogRemoved(std::vector<Shelf::Removal> removals);

  Shelf& shelf_;
  SessionArchive* const archive_;
  SessionSaver& saver_;
  const Clock& clock_;
  // The log has failed: nothing is removed until then.
  SteadyTime retry_ = SteadyTime::InfinitePast();
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_REMOVER_H_
