#ifndef STEADYSTATE_SERVER_SESSION_LOG_BOOK_H_
#define STEADYSTATE_SERVER_SESSION_LOG_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <list>

#include "absl/time/time.h"

namespace steadystate {

struct Session;

// What a session has in the log: the part that its snapshot does not have.
struct LogMark {
  uint64_t first = 0;  // no round before it is needed
  uint64_t last = 0;   // the latest round that tells of it
  // Rounds up to this one are in what the store has of it beside the log.
  uint64_t covered = 0;
  // How long it would take to compute that again.
  absl::Duration replay;
  std::list<Session*>::iterator place{};  // LogBook's
  bool listed = false;                    // there is such a part
  // A round is missing in it: only a snapshot makes the session good again.
  bool broken = false;
  bool in_round = false;  // one that has not been added to the log yet
  // A snapshot of it is wanted when its state is next at rest.
  bool snapshot_due = false;
};

// Which sessions need which rounds of the log: those that have something there
// that no snapshot has, in the order of the first round that each needs.
// Thread-compatible.
class LogBook {
 public:
  // The round tells of the session; computing that again takes so long.
  void Note(Session& session, uint64_t round, absl::Duration replay);
  // A snapshot has what rounds up to this one tell, which took so long.
  void Covered(Session& session, uint64_t round, absl::Duration replay);
  // The session ends, or what it needs is no more the log's.
  void Forget(Session& session);

  // Rounds [first, last] may not be in the log: breaks the sessions of which
  // they tell.
  void Break(uint64_t first, uint64_t last);

  // What the store has of the session may be wrong: only a snapshot makes it
  // good again.
  void Break(Session& session);

  // One that is broken and idle, if one of those that need the oldest rounds
  // is; null if not. Not one that is not finite: nothing of it is to be saved.
  Session* FirstBroken() const;

  // The session that needs the oldest round; null if none needs any.
  Session* oldest() const {
    return needing_.empty() ? nullptr : needing_.front();
  }
  // Rounds below this one are not needed; `next` if none is.
  uint64_t FirstNeeded(uint64_t next) const;
  size_t size() const { return needing_.size(); }

 private:
  std::list<Session*> needing_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_LOG_BOOK_H_
