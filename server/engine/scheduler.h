#ifndef STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_
#define STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "server/engine/request.h"
#include "server/metrics/metrics.h"

namespace steadystate {

// Decides what goes into the next batch of each phase. Pure decisions about
// segments that are ready: no threads, no clock, no states.
//
// Decode and prefill go in batches of their own, since a decode batch runs as a
// whole and a prefill batch may be left half done for decode's sake. Each phase
// is first come first served; who was served queues up again at the end, so
// sessions take turns. Segments are never cut: what does not fit waits, and
// nobody overtakes it.
//
// Thread-compatible.
class Scheduler {
 public:
  // `max_rows`: of one batch.
  explicit Scheduler(size_t max_rows) : max_rows_(max_rows) {}

  // A request has a segment ready. REQUIRES: 1 <= rows <= max_rows; the request
  // has none waiting.
  void Add(RequestId id, size_t rows, BatchPhase phase);

  // Forgets the request's waiting segment. REQUIRES: it has one.
  void Remove(RequestId id);

  bool empty() const { return waiting_ == 0; }

  // False if no segment of the phase is waiting. May be true for one that was
  // removed.
  bool waiting(BatchPhase phase) const {
    return !(phase == BatchPhase::kDecode ? decode_ : prefill_).empty();
  }

  // The requests whose segments form the phase's next batch, in `batch`; none
  // if none is waiting.
  void TakeBatch(BatchPhase phase, std::vector<RequestId>& batch);

 private:
  struct Waiting {
    RequestId id;
    size_t rows;
  };

  // First in, first out, in memory that is kept.
  class Queue {
   public:
    bool empty() const { return first_ == waiting_.size(); }
    const Waiting& front() const { return waiting_[first_]; }
    void push_back(const Waiting& waiting);
    void pop_front() { ++first_; }

   private:
    std::vector<Waiting> waiting_;
    size_t first_ = 0;  // those before have gone
  };

  void DropRemoved(Queue& queue);

  const size_t max_rows_;
  Queue decode_;
  Queue prefill_;
  absl::flat_hash_set<RequestId> removed_;  // still in a queue, to be skipped
  size_t waiting_ = 0;                      // without those removed
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_
