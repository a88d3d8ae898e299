#ifndef STEADYSTATE_SERVER_ENGINE_REQUEST_POOL_H_
#define STEADYSTATE_SERVER_ENGINE_REQUEST_POOL_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "server/base/mutex.h"
#include "server/engine/backlog.h"
#include "server/engine/task.h"

namespace steadystate {

// Requests of one kind, with their tasks, which go round: a caller takes them,
// the compute thread gives them back, and no request costs an allocation on one
// thread that another one has to free. Keeps a bounded number. Thread-safe.
class RequestPool {
 public:
  // Makes a task of the kind, one that has no request.
  using MakeTask = std::function<std::unique_ptr<Task>()>;

  explicit RequestPool(MakeTask make_task) : make_task_(std::move(make_task)) {}

  // Adds requests as if made anew, whose tasks have nothing to do yet.
  void Take(size_t count, std::vector<std::unique_ptr<Request>>& to);

  // Empties `requests`, which have been answered or not been used, and lets go
  // of them. They are of this kind.
  void GiveBack(std::span<std::unique_ptr<Request>> requests);

 private:
  // As many steps as are under way where throughput is at stake.
  static constexpr size_t kMaxKept = 8192;

  const MakeTask make_task_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Request>> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_REQUEST_POOL_H_
