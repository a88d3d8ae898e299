#include "kernels/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "hwy/cache_control.h"
#include "kernels/openmp.h"

namespace steadystate {
namespace {

// How long a member looks for news before it sleeps: longer than the serial
// stretches between two projections of a decode step, shorter than a time
// slice, so that an idle server leaves its cores to others.
constexpr std::chrono::microseconds kSpinTime(50);
constexpr int kPausesPerLook = 32;

// Returns when `ready()` holds, or after kSpinTime; true if it holds.
template <typename Ready>
bool SpinUntil(const Ready& ready) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (ready()) return true;
      hwy::Pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return ready();
}

}  // namespace

// A call is published in `ticket`: the call's number in the upper half, the
// tasks nobody has claimed yet in the lower. To claim some is to subtract them.
// A claim pins the call: the caller cannot return before `unfinished` is zero,
// so `call` is stable while a claimed task runs, and a member that wakes late
// finds nothing to claim and touches nothing. Nobody waits for sleepers.
struct ThreadPool::Team {
  struct Call {
    RawTask task = nullptr;
    const void* context = nullptr;
    uint32_t count = 0;
    bool ahead = false;
  };

  // Tasks that follow each other.
  struct Claim {
    uint32_t first = 0;
    uint32_t end = 0;
    uint32_t size() const { return end - first; }
  };

  explicit Team(size_t size_in) : size(size_in) {
    for (size_t worker = 1; worker < size; ++worker) {
      threads.emplace_back([this, worker] { WorkerLoop(worker); });
    }
  }

  ~Team() {
    stop.store(true, std::memory_order_relaxed);
    Signal(/*wake=*/true);
    for (std::thread& thread : threads) thread.join();
  }

  // A thread that looks for news sees it in any case.
  void Signal(bool wake) {
    signal.fetch_add(1, std::memory_order_release);
    if (wake) signal.notify_all();
  }

  // How many tasks to claim where `unclaimed` are left: a share, so that many
  // small tasks cost few claims and neighbours, which mostly lie together in
  // memory, run one after the other; but the last ones one by one, so that all
  // members finish at about the same time.
  uint32_t Share(uint32_t unclaimed) const {
    const auto members = static_cast<uint32_t>(size);
    return std::max(unclaimed / (4 * members), uint32_t{1});
  }

  // Claims a share of the current call's tasks, or none if only `kept` are
  // left.
  Claim TakeShare(uint32_t kept) {
    uint64_t seen = ticket.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(seen) > kept) {
      const uint32_t unclaimed = static_cast<uint32_t>(seen);
      const uint32_t claimed = Share(unclaimed);
      if (ticket.compare_exchange_weak(seen, seen - claimed,
                                       std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
        const uint32_t first = call.count - unclaimed;
        return {first, first + claimed};
      }
    }
    return {};
  }

  // Runs what is claimed, and returns what is claimed meanwhile.
  Claim RunClaimed(const Claim& claim, size_t worker) {
    const auto kept = static_cast<uint32_t>(2 * size);
    Claim behind;
    for (uint32_t i = claim.first; i < claim.end; ++i) {
      uint32_t next = i + 1;
      if (next == claim.end) {
        if (call.ahead) behind = TakeShare(kept);
        next = behind.size() == 0 ? call.count : behind.first;
      }
      call.task(call.context, i, next, worker);
    }
    if (unfinished.fetch_sub(claim.size(), std::memory_order_acq_rel) ==
        claim.size()) {
      unfinished.notify_one();
    }
    return behind;
  }

  // Runs tasks of the current call until none is left to claim.
  void Drain(size_t worker) {
    Claim claim = TakeShare(0);
    while (claim.size() != 0) {
      claim = RunClaimed(claim, worker);
      if (claim.size() == 0) claim = TakeShare(0);
    }
  }

  void WorkerLoop(size_t worker) {
    omp_set_num_threads(1);
    while (true) {
      const uint32_t seen = signal.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_relaxed)) return;
      Drain(worker);
      const auto news = [this, seen] {
        return signal.load(std::memory_order_acquire) != seen;
      };
      if (!SpinUntil(news)) signal.wait(seen, std::memory_order_acquire);
    }
  }

  // Runs one call of at most 2^32 - 1 tasks.
  void RunCall(const Call& next) {
    const Bursts::Clock::time_point start = Bursts::Clock::now();
    call = next;
    ++call_number;
    unfinished.store(next.count, std::memory_order_relaxed);
    ticket.store(call_number << 32 | next.count, std::memory_order_release);
    Signal(bursts.WorthWaking(start));
    Drain(0);
    AwaitUnfinished();
    bursts.CallEnded(start, Bursts::Clock::now());
  }

  void AwaitUnfinished() {
    const auto done = [this] {
      return unfinished.load(std::memory_order_acquire) == 0;
    };
    if (SpinUntil(done)) return;
    uint32_t left = unfinished.load(std::memory_order_acquire);
    while (left != 0) {
      unfinished.wait(left, std::memory_order_acquire);
      left = unfinished.load(std::memory_order_acquire);
    }
  }

  const size_t size;
  Call call;
  uint64_t call_number = 0;  // of the caller alone
  Bursts bursts{kSpinTime};  // likewise
  alignas(64) std::atomic<uint64_t> ticket{0};
  alignas(64) std::atomic<uint32_t> unfinished{0};
  alignas(64) std::atomic<uint32_t> signal{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
};

ThreadPool::ThreadPool(size_t threads) {
  if (threads == 0) std::abort();
  omp_set_num_threads(1);
  team_ = std::make_unique<Team>(threads);
}

ThreadPool::~ThreadPool() = default;

size_t ThreadPool::size() const { return team_->size; }

void ThreadPool::Run(size_t count, RawTask task, const void* context,
                     bool ahead) {
  // The pool may have been made by another thread than the one that uses it.
  omp_set_num_threads(1);
  if (count == 1 || team_->size == 1) {
    for (size_t i = 0; i < count; ++i) task(context, i, i + 1, 0);
    return;
  }
  if (count == 0) return;
  if (count > UINT32_MAX) std::abort();
  team_->RunCall({task, context, static_cast<uint32_t>(count), ahead});
}

}  // namespace steadystate
