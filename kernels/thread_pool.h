#ifndef STEADYSTATE_KERNELS_THREAD_POOL_H_
#define STEADYSTATE_KERNELS_THREAD_POOL_H_

#include <cstddef>
#include <memory>
#include <type_traits>

namespace steadystate {

// A fixed team of threads that runs numbered tasks for one caller at a time.
//
// The caller is a member of the team (worker 0), so a pool of one thread starts
// none. Which worker runs which task is unspecified: a task's result may depend
// on its number only. Workers spin for a moment after each call, then sleep.
// Inside a task oneDNN sees one OpenMP thread.
//
// Thread-compatible: one ParallelFor at a time, always from the same thread.
class ThreadPool {
 public:
  // REQUIRES: threads >= 1.
  explicit ThreadPool(size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Members of the team, the caller included.
  size_t size() const;

  // Calls task(i, worker) once for each i in [0, count), worker in [0, size()),
  // and returns when all have returned. Tasks must not throw nor call
  // ParallelFor. Does not allocate.
  template <typename Task>
  void ParallelFor(size_t count, const Task& task) {
    static_assert(std::is_invocable_v<const Task&, size_t, size_t>);
    Run(
        count,
        [](const void* context, size_t i, size_t worker) {
          (*static_cast<const Task*>(context))(i, worker);
        },
        &task);
  }

 private:
  using RawTask = void (*)(const void* context, size_t i, size_t worker);
  void Run(size_t count, RawTask task, const void* context);

  struct Team;
  std::unique_ptr<Team> team_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_THREAD_POOL_H_
