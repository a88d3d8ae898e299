#include "server/engine/scheduler.h"

#include <algorithm>
#include <tuple>

namespace steadystate {

void Scheduler::Add(const Segment& segment, BatchPhase phase) {
  (phase == BatchPhase::kDecode ? decode_ : prefill_).Add(segment);
  ++waiting_;
}

void Scheduler::Remove(RequestId id) {
  removed_.insert(id);
  --waiting_;
}

// Steps of one message are answered together where they lie together.
void Scheduler::TakeBatch(BatchPhase phase, std::vector<RequestId>& batch) {
  Take(phase == BatchPhase::kDecode ? decode_ : prefill_);
  std::sort(taken_.begin(), taken_.end(), [](const Taken& a, const Taken& b) {
    return std::tie(a.client, a.turn) < std::tie(b.client, b.turn);
  });
  batch.clear();
  for (const Taken& taken : taken_) batch.push_back(taken.id);
  waiting_ -= batch.size();
}

// What goes into the next batch, in taken_.
void Scheduler::Take(TurnQueue& queue) {
  taken_.clear();
  size_t rows = 0;
  DropRemoved(queue);
  while (!queue.empty() && rows + queue.front().rows <= max_rows_) {
    const Segment& segment = queue.front();
    rows += segment.rows;
    taken_.push_back({segment.client, taken_.size(), segment.id});
    queue.TakeFront();
    DropRemoved(queue);
  }
}

void Scheduler::DropRemoved(TurnQueue& queue) {
  while (!queue.empty() && removed_.erase(queue.front().id) > 0) {
    queue.DropFront();
  }
}

}  // namespace steadystate
