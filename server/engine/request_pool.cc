#include "server/engine/request_pool.h"

#include <algorithm>
#include <iterator>

namespace steadystate {

void RequestPool::Take(size_t count,
                       std::vector<std::unique_ptr<Request>>& to) {
  size_t kept = 0;
  {
    const MutexLock lock(mutex_);
    kept = std::min(count, kept_.size());
    const auto first = kept_.end() - static_cast<ptrdiff_t>(kept);
    to.insert(to.end(), std::make_move_iterator(first),
              std::make_move_iterator(kept_.end()));
    kept_.erase(first, kept_.end());
  }
  for (; kept < count; ++kept) {
    auto request = std::make_unique<Request>();
    request->task = make_task_();
    request->pool = this;
    to.push_back(std::move(request));
  }
}

void RequestPool::GiveBack(std::span<std::unique_ptr<Request>> requests) {
  for (std::unique_ptr<Request>& request : requests) {
    request->task->Forget();
    Request fresh;
    fresh.task = std::move(request->task);
    fresh.pool = this;
    *request = std::move(fresh);
  }
  size_t kept = 0;
  {
    const MutexLock lock(mutex_);
    kept = std::min(kMaxKept - kept_.size(), requests.size());
    const auto end = requests.begin() + static_cast<ptrdiff_t>(kept);
    kept_.insert(kept_.end(), std::make_move_iterator(requests.begin()),
                 std::make_move_iterator(end));
  }
  for (std::unique_ptr<Request>& request : requests.subspan(kept)) {
    request.reset();
  }
}

}  // namespace steadystate
