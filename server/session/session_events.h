#ifndef STEADYSTATE_SERVER_SESSION_SESSION_EVENTS_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/mutex.h"
#include "server/metrics/metrics.h"
#include "server/session/session_id.h"

namespace steadystate {

// Something that has happened to a session that can be named.
struct SessionEvent {
  SessionEventKind kind = SessionEventKind::kCreated;
  std::string owner;
  std::string id;
  SessionUid uid{};
  // What it was made of, a session's id or a checkpoint's (CheckpointId); empty
  // of all others.
  std::string parent;
  uint64_t position = 0;
  absl::Time time;  // of day
};

// The latest things that have happened to sessions, in their order. Events have
// numbers, from 0 on; the oldest are forgotten first. Whoever wants to know
// them reads on from a number, so a reader that is slow, or has gone, costs
// nothing. An event is added in about 0.2 us, and that waits for no reader but
// while one copies a few.
//
// A cursor stands for a number outside the process: opaque text, good until the
// process ends.
//
// Thread-safe. Calls nothing with its lock held but Listener::OnEvent.
class SessionEvents {
 public:
  // So many are remembered: some 10 MB, if as many have happened, and the names
  // of owners.
  static constexpr size_t kCapacity = size_t{1} << 15;

  // Told that there is an event. It must be quick: it is called with locks
  // held, the keeper's and that of SessionEvents.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnEvent() = 0;
  };

  // Whose events are wanted.
  struct Filter {
    std::string owner;  // only of sessions with the same one
    std::string id;     // only of sessions called that; empty: of all
  };

  // What Read has found.
  struct Page {
    std::vector<SessionEvent> events;
    uint64_t next = 0;  // where to read on
    bool more = false;  // there were more events, wanted or not
  };

  // `capacity` is at least 1.
  explicit SessionEvents(size_t capacity = kCapacity);
  SessionEvents(const SessionEvents&) = delete;
  SessionEvents& operator=(const SessionEvents&) = delete;

  void Add(SessionEvent event) ABSL_LOCKS_EXCLUDED(mutex_);

  // The listener outlives the next call of RemoveListener with it; after that
  // no call comes.
  void AddListener(Listener& listener) ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveListener(Listener& listener) ABSL_LOCKS_EXCLUDED(mutex_);

  // The number of the next event.
  uint64_t next() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Up to `most` events that are wanted, from the number `from` on, and looks
  // at no more than `looks`. CURSOR_EXPIRED: some are not remembered.
  // REQUIRES: from <= next().
  absl::StatusOr<Page> Read(const Filter& filter, uint64_t from, size_t most,
                            size_t looks = kCapacity) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The cursor that stands for a number, 32 characters.
  std::string CursorOf(uint64_t number) const;
  // The number that it stands for. INVALID_ARGUMENT about the field "cursor":
  // it is none; CURSOR_EXPIRED: it is of another process.
  absl::StatusOr<uint64_t> Parse(absl::string_view cursor) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Goes on with the page, over the next few events: there are more, there are
  // none, or the next one is forgotten.
  enum class Step : uint8_t { kMore, kEnd, kForgotten };
  Step ReadSome(const Filter& filter, size_t most, size_t looks,
                Page& page) const ABSL_LOCKS_EXCLUDED(mutex_);

  const size_t capacity_;
  const uint64_t run_;  // tells this process from others
  mutable Mutex mutex_;
  std::deque<SessionEvent> events_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Listener*> listeners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_EVENTS_H_
