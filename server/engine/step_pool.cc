#include "server/engine/step_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace steadystate {

void StepPool::Take(size_t count, std::vector<std::unique_ptr<Request>>& to) {
  size_t kept = 0;
  {
    const MutexLock lock(mutex_);
    kept = std::min(count, kept_.size());
    const auto first = kept_.end() - static_cast<ptrdiff_t>(kept);
    to.insert(to.end(), std::make_move_iterator(first),
              std::make_move_iterator(kept_.end()));
    kept_.erase(first, kept_.end());
  }
  for (; kept < count; ++kept) to.push_back(Make());
}

void StepPool::GiveBack(std::vector<std::unique_ptr<Request>>& requests) {
  for (std::unique_ptr<Request>& request : requests) {
    request->step->Forget();
    Request fresh;
    fresh.step = request->step;
    fresh.task = std::move(request->task);
    *request = std::move(fresh);
  }
  const MutexLock lock(mutex_);
  const size_t room = kMaxKept - kept_.size();
  const auto end = requests.begin() +
                   static_cast<ptrdiff_t>(std::min(room, requests.size()));
  kept_.insert(kept_.end(), std::make_move_iterator(requests.begin()),
               std::make_move_iterator(end));
  requests.clear();
}

std::unique_ptr<Request> StepPool::Make() const {
  auto task = std::make_unique<StepTask>(hidden_size_, chunk_rows_);
  auto request = std::make_unique<Request>();
  request->step = task.get();
  request->task = std::move(task);
  return request;
}

}  // namespace steadystate
