#include "server/engine/scheduler.h"

namespace steadystate {

// Moves those that wait to the front when at least as many have gone, so that
// each is moved once on average.
void Scheduler::Queue::push_back(const Waiting& waiting) {
  if (waiting_.size() == waiting_.capacity() && 2 * first_ >= waiting_.size()) {
    waiting_.erase(waiting_.begin(),
                   waiting_.begin() + static_cast<ptrdiff_t>(first_));
    first_ = 0;
  }
  waiting_.push_back(waiting);
}

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
