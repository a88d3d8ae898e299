#ifndef STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_
#define STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_set.h"
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
  using Segment = TurnQueue::Segment;

  // `max_rows`: of one batch.
  explicit Scheduler(size_t max_rows) : max_rows_(max_rows) {}

  // A request has a segment ready. REQUIRES: 1 <= rows <= max_rows; the request
  // has none waiting.
  void Add(const Segment& segment, BatchPhase phase);

  // Forgets the request's waiting segment. REQUIRES: it has one.
  void Remove(RequestId id);

  bool empty() const { return waiting_ == 0; }

  // False if no segment of the phase is waiting. May be true for one that was
  // removed.
  bool waiting(BatchPhase phase) const {
    return !(phase == BatchPhase::kDecode ? decode_ : prefill_).empty();
  }

  // The requests whose segments form the phase's next batch, in `batch`, those
  // of a client together; none if none is waiting.
  void TakeBatch(BatchPhase phase, std::vector<RequestId>& batch);

 private:
  struct Taken {
    ClientId client;
    size_t turn;  // when it was taken
    RequestId id;
  };

  void Take(TurnQueue& queue);
  void DropRemoved(TurnQueue& queue);

  const size_t max_rows_;
  TurnQueue decode_;
  TurnQueue prefill_;
  std::vector<Taken> taken_;                // for one batch
  absl::flat_hash_set<RequestId> removed_;  // still in a queue, to be skipped
  size_t waiting_ = 0;                      // without those removed
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_
