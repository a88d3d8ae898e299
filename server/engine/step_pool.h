#ifndef STEADYSTATE_SERVER_ENGINE_STEP_POOL_H_
#define STEADYSTATE_SERVER_ENGINE_STEP_POOL_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "server/base/mutex.h"
#include "server/engine/backlog.h"
#include "server/engine/step_task.h"

namespace steadystate {

// Requests whose tasks are steps for a sink (Request::step), which go round: a
// caller takes them, the compute thread gives them back, and no step costs an
// allocation on one thread that another one has to free. Keeps a bounded number
// of them. Thread-safe.
class StepPool {
 public:
  // As StepTask.
  StepPool(size_t hidden_size, size_t chunk_rows)
      : hidden_size_(hidden_size), chunk_rows_(chunk_rows) {}

  // Adds requests as if made anew, whose tasks have nothing to do yet.
  void Take(size_t count, std::vector<std::unique_ptr<Request>>& to);

  // Empties `requests`, which have been answered.
  void GiveBack(std::vector<std::unique_ptr<Request>>& requests);

 private:
  // As many steps as are under way where throughput is at stake.
  static constexpr size_t kMaxKept = 8192;

  std::unique_ptr<Request> Make() const;

  const size_t hidden_size_;
  const size_t chunk_rows_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Request>> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_STEP_POOL_H_
