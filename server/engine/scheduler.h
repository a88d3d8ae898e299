#ifndef STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_
#define STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_

#include <cstddef>
#include <vector>

#include "server/engine/backlog.h"
#include "server/engine/request.h"
#include "server/engine/turn_queue.h"
#include "server/metrics/metrics.h"

namespace steadystate {

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

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_
