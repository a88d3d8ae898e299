#include "server/engine/scheduler.h"

namespace steadystate {

void Scheduler::Add(RequestId id, size_t rows, BatchPhase phase) {
  (phase == BatchPhase::kDecode ? decode_ : prefill_).push_back({id, rows});
  ++waiting_;
}

void Scheduler::Remove(RequestId id) {
  removed_.insert(id);
  --waiting_;
}

void Scheduler::TakeBatch(BatchPhase phase, std::vector<RequestId>& batch) {
  Queue& queue = phase == BatchPhase::kDecode ? decode_ : prefill_;
  batch.clear();
  size_t rows = 0;
  DropRemoved(queue);
  while (!queue.empty() && rows + queue.front().rows <= max_rows_) {
    rows += queue.front().rows;
    batch.push_back(queue.front().id);
    queue.pop_front();
    DropRemoved(queue);
  }
  waiting_ -= batch.size();
}

void Scheduler::DropRemoved(Queue& queue) {
  while (!queue.empty() && removed_.erase(queue.front().id) > 0) {
    queue.pop_front();
  }
}

}  // namespace steadystate
