#include "server/session/log_book.h"

#include <algorithm>
#include <iterator>

#include "server/session/session.h"

namespace steadystate {

void LogBook::Note(Session& session, uint64_t round, absl::Duration replay) {
  LogMark& mark = session.log;
  mark.last = round;
  mark.replay += replay;
  if (mark.listed) return;
  mark.first = round;
  mark.listed = true;
  needing_.push_back(&session);
  mark.place = std::prev(needing_.end());
}

void LogBook::Covered(Session& session, uint64_t round, absl::Duration replay) {
  LogMark& mark = session.log;
  mark.covered = std::max(mark.covered, round);
  if (mark.last <= round) {
    Forget(session);
    mark.broken = false;
    return;
  }
  if (!mark.listed) return;
  // Something was noted while the snapshot was written. What it needs from now
  // on is not older: a few others may have come between.
  mark.replay = std::max(mark.replay - replay, absl::ZeroDuration());
  mark.first = std::max(mark.first, round + 1);
  auto next = std::next(mark.place);
  while (next != needing_.end() && (*next)->log.first < mark.first) ++next;
  needing_.splice(next, needing_, mark.place);
}

void LogBook::Forget(Session& session) {
  LogMark& mark = session.log;
  if (mark.listed) needing_.erase(mark.place);
  mark.listed = false;
  mark.replay = absl::ZeroDuration();
}

void LogBook::Break(uint64_t first, uint64_t last) {
  for (Session* const session : needing_) {
    LogMark& mark = session->log;
    if (mark.last >= first && mark.first <= last) mark.broken = true;
  }
}

void LogBook::Break(Session& session) {
  LogMark& mark = session.log;
  mark.broken = true;
  if (mark.listed) return;
  // In front, where it is found soon; it needs no round.
  mark.first = needing_.empty() ? mark.last : needing_.front()->log.first;
  mark.listed = true;
  needing_.push_front(&session);
  mark.place = needing_.begin();
}

Session* LogBook::FirstBroken() const {
  // All that are there are broken together; others come behind them.
  constexpr size_t kLookedAt = 16;
  size_t seen = 0;
  for (Session* const session : needing_) {
    if (session->log.broken && !session->active && !session->moving &&
        session->health != Health::kNotFinite) {
      return session;
    }
    if (++seen == kLookedAt) break;
  }
  return nullptr;
}

uint64_t LogBook::FirstNeeded(uint64_t next) const {
  return needing_.empty() ? next : std::min(needing_.front()->log.first, next);
}

}  // namespace steadystate
