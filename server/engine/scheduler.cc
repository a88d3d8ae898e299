#include "server/engine/scheduler.h"

#include <algorithm>

namespace steadystate {

void Scheduler::Add(RequestId id, size_t rows) {
  (rows == 1 ? decode_ : prefill_).push_back({id, rows});
  ++waiting_;
}

void Scheduler::Remove(RequestId id) {
  removed_.insert(id);
  --waiting_;
}

std::vector<RequestId> Scheduler::TakeBatch() {
  std::vector<RequestId> batch;
  DropRemoved(decode_);
  DropRemoved(prefill_);
  const bool prefill_waits = !prefill_.empty();

  size_t prefill_rows = 0;
  if (prefill_waits && passed_over_ >= kMaxPassedOver) {
    prefill_rows = Take(prefill_, prefill_.front().rows, batch);
  }
  const size_t decode_rows =
      Take(decode_, limits_.max_rows - prefill_rows, batch);
  size_t room = limits_.max_rows - prefill_rows - decode_rows;
  if (decode_rows > 0) {
    const size_t bound = limits_.max_prefill_rows_beside_decode;
    room = std::min(room, bound - std::min(bound, prefill_rows));
  }
  prefill_rows += Take(prefill_, room, batch);

  passed_over_ = prefill_waits && prefill_rows == 0 ? passed_over_ + 1 : 0;
  waiting_ -= batch.size();
  return batch;
}

void Scheduler::DropRemoved(Queue& queue) {
  while (!queue.empty() && removed_.erase(queue.front().id) > 0) {
    queue.pop_front();
  }
}

size_t Scheduler::Take(Queue& queue, size_t rows,
                       std::vector<RequestId>& batch) {
  size_t taken = 0;
  while (!queue.empty() && taken + queue.front().rows <= rows) {
    taken += queue.front().rows;
    batch.push_back(queue.front().id);
    queue.pop_front();
    DropRemoved(queue);
  }
  return taken;
}

}  // namespace steadystate
