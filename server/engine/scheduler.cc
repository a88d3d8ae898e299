#include "server/engine/scheduler.h"

#include <algorithm>
#include <tuple>

namespace steadystate {

void Scheduler::Add(Request& request, size_t rows, BatchPhase phase) {
  request.place.rows = rows;
  request.place.phase = phase;
  QueueOf(phase).Add(request);
}

void Scheduler::Remove(Request& request) {
  QueueOf(request.place.phase).Remove(request);
}

// Steps of one message are answered together where they lie together.
void Scheduler::TakeBatch(BatchPhase phase, std::vector<Request*>& batch) {
  TurnQueue& queue = QueueOf(phase);
  taken_.clear();
  size_t rows = 0;
  while (!queue.empty() && rows + queue.front().place.rows <= max_rows_) {
    Request& request = queue.front();
    rows += request.place.rows;
    taken_.push_back({request.client->id, taken_.size(), &request});
    queue.TakeFront();
  }
  std::sort(taken_.begin(), taken_.end(), [](const Taken& a, const Taken& b) {
    return std::tie(a.client, a.turn) < std::tie(b.client, b.turn);
  });
  batch.clear();
  for (const Taken& taken : taken_) batch.push_back(taken.request);
}

}  // namespace steadystate
