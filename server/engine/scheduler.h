#ifndef STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_
#define STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_

#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "server/engine/backlog.h"
#include "server/engine/request.h"
#include "server/metrics/metrics.h"

namespace steadystate {

// The requests that wait for a place in a batch of one phase. Their clients
// take turns, one request a turn: a client that has had its turn comes after
// all others that wait, and so does a client that is new. Each client's own
// requests are first in, first out.
//
// A call takes constant time, however many wait, and allocates nothing: the
// links are Request::place and Client::lines. Thread-compatible.
class TurnQueue {
 public:
  explicit TurnQueue(BatchPhase phase) : phase_(static_cast<size_t>(phase)) {}

  bool empty() const { return last_ == nullptr; }
  // REQUIRES: it waits nowhere; it and its client stay while it is here.
  void Add(Request& request);

  // The first request of the client whose turn it is. REQUIRES: !empty().
  Request& front() const { return *LineOf(*LineOf(*last_).next).first; }
  // Takes it out; the turn passes on.
  void TakeFront();
  // Takes any request out; whose turn it is stays as it is. REQUIRES: it waits
  // here.
  void Remove(Request& request);

 private:
  Client::Line& LineOf(Client& client) const { return client.lines[phase_]; }
  void OpenLine(Client& client);
  void CloseLine(Client& client);

  const size_t phase_;
  // Whose turn is last; the next one's is first.
  Client* last_ = nullptr;
};

// Decides what goes into the next batch of each phase. Pure decisions about
// segments that are ready: no threads, no clock, no states.
//
// Decode and prefill go in batches of their own, since a decode batch runs as a
// whole and a prefill batch may be left half done for decode's sake. In each
// phase clients take turns at the places of its batches (TurnQueue): however
// many segments one has waiting, before another's first go at most one of each
// client. A client's own are first come first served; what was served queues up
// again at the end, so sessions take turns, too. Segments are never cut: what
// does not fit waits, nobody overtakes it, and it is the next batch's first.
//
// Thread-compatible.
class Scheduler {
 public:
  // `max_rows`: of one batch.
  explicit Scheduler(size_t max_rows) : max_rows_(max_rows) {}

  // The request has a segment of `rows` ready for a batch of the phase.
  // REQUIRES: 1 <= rows <= max_rows; it has none waiting; it and its client
  // stay until it is removed or taken.
  void Add(Request& request, size_t rows, BatchPhase phase);

  // Forgets the request's waiting segment. REQUIRES: it has one.
  void Remove(Request& request);

  bool empty() const { return decode_.empty() && prefill_.empty(); }

  // False if no segment of the phase is waiting.
  bool waiting(BatchPhase phase) const {
    return !(phase == BatchPhase::kDecode ? decode_ : prefill_).empty();
  }

  // The requests whose segments form the phase's next batch, in `batch`, those
  // of a client together; none if none is waiting.
  void TakeBatch(BatchPhase phase, std::vector<Request*>& batch);

 private:
  struct Taken {
    ClientId client;
    size_t turn;  // when it was taken
    Request* request;
  };

  TurnQueue& QueueOf(BatchPhase phase) {
    return phase == BatchPhase::kDecode ? decode_ : prefill_;
  }

  const size_t max_rows_;
  TurnQueue decode_{BatchPhase::kDecode};
  TurnQueue prefill_{BatchPhase::kPrefill};
  std::vector<Taken> taken_;  // for one batch
};

// How long the compute thread waits, when it has answered a decode batch, for
// those whom it has answered to come back with their next step.
//
// The client of a stream sends a step when it has the answer to the last one.
// If the first few to be back ran at once, the others would find the next batch
// gone, and from then on there would be two batches where one would do: each
// reads all weights, and each session waits for both.
//
// The window is up to four gaps long, each a sixteenth of the batch's time, 2
// ms at most; a batch of less than 0.8 ms has none. It closes after a gap that
// brought fewer than an eighth of the awaited sessions, as when steps of many
// thinking clients arrive evenly. When the first gap brings too few, the next
// batches are formed without a window: one, then three, then seven, up to 63.
//
// Pure decisions: no threads, no clock. Thread-compatible.
class ReturnWindow {
 public:
  // A decode batch that took `time` has been answered. `wanted`: the sessions
  // that it left without a request, and those that had one waiting by then;
  // none if nobody was answered.
  void Open(absl::Duration time, size_t wanted);

  // `there` have a request waiting. True if the compute thread is to wait until
  // wanted() have, for gap() at most, and to ask again.
  bool StaysOpen(size_t there);

  size_t wanted() const { return wanted_; }
  absl::Duration gap() const { return gap_; }

 private:
  void NoteFirstGap(bool worth_it);

  size_t wanted_ = 0;
  absl::Duration gap_;
  size_t gaps_ = 0;    // since it was opened
  size_t there_ = 0;   // before the last one
  size_t skip_ = 0;    // batches that are not waited for
  size_t misses_ = 0;  // skip_ after the last first gap
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_
