#ifndef STEADYSTATE_KERNELS_THREAD_POOL_H_
#define STEADYSTATE_KERNELS_THREAD_POOL_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace steadystate {

// Decides whether sleepers are woken for a call. A burst is a run of calls that
// follow each other within `gap`, the time after which the idle sleep. To wake
// somebody for one that is over before he has got anywhere only makes him spin
// beside nothing, on a processor that others could use. Thread-compatible.
class Bursts {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Bursts(Clock::duration gap) : gap_(gap) {}

  // A call begins. True if its burst has lasted, or unless most of those before
  // were short.
  bool WorthWaking(Clock::time_point start) {
    if (start - end_ > gap_) {
      const int change = busy_ < kShortBurst ? 1 : -kLongBurstWeight;
      shortness_ = std::clamp(shortness_ + change, 0, kMaxShortness);
      busy_ = Clock::duration::zero();
    }
    return shortness_ < kShort || busy_ >= kShortBurst;
  }

  // That call has ended.
  void CallEnded(Clock::time_point start, Clock::time_point end) {
    end_ = end;
    busy_ += end - start;
  }

 private:
  // About what it takes until somebody woken has taken a share of the work.
  static constexpr std::chrono::microseconds kShortBurst{100};
  // Some that are long because the caller lost its processor do not outweigh
  // many that are short.
  static constexpr int kLongBurstWeight = 4;
  static constexpr int kShort = 32;
  static constexpr int kMaxShortness = 64;

  const Clock::duration gap_;
  Clock::time_point end_;   // of the last call
  Clock::duration busy_{};  // in calls of the current burst
  int shortness_ = 0;       // of the bursts before
};

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
  //
  // Or task(i, next, worker), for tasks that fetch ahead: the worker will run
  // task `next` behind task i; `count` where nobody knows. So that the worker
  // knows, it claims that task early, but leaves the last few to others.
  template <typename Task>
  void ParallelFor(size_t count, const Task& task) {
    constexpr bool kAhead =
        std::is_invocable_v<const Task&, size_t, size_t, size_t>;
    static_assert(kAhead || std::is_invocable_v<const Task&, size_t, size_t>);
    Run(
        count,
        [](const void* context, size_t i, [[maybe_unused]] size_t next,
           size_t worker) {
          const Task& run = *static_cast<const Task*>(context);
          if constexpr (kAhead) {
            run(i, next, worker);
          } else {
            run(i, worker);
          }
        },
        &task, kAhead);
  }

 private:
  using RawTask = void (*)(const void* context, size_t i, size_t next,
                           size_t worker);
  //   ahead  whether workers are to know the task behind
  void Run(size_t count, RawTask task, const void* context, bool ahead);

  struct Team;
  std::unique_ptr<Team> team_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_THREAD_POOL_H_
