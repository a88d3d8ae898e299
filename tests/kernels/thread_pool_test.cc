// Goal: every task runs exactly once, by a member of the team, whatever the
// counts and however the calls follow each other; sleepers are woken unless
// bursts of calls are short, as a rule, and for a burst that lasts in any case.
// Method: many calls, meant for ThreadSanitizer; calls at given times.

#include "kernels/thread_pool.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/openmp.h"

namespace steadystate::thread_pool_test {
namespace {

TEST(ThreadPoolTest, RunsEveryTaskOnceForEveryCountAndSize) {
  for (size_t threads = 1; threads <= 5; ++threads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (size_t count = 0; count < 70; ++count) {
      std::vector<int> runs(count, 0);  // plain: each task writes its own
      std::atomic<bool> workers_valid{true};
      pool.ParallelFor(count, [&](size_t i, size_t worker) {
        ++runs[i];
        if (worker >= threads) workers_valid = false;
      });
      EXPECT_EQ(runs, std::vector<int>(count, 1));
      EXPECT_TRUE(workers_valid);
    }
  }
}

TEST(ThreadPoolTest, ManySmallCallsSeeEachOthersWrites) {
  ThreadPool pool(3);
  std::vector<uint64_t> values(6, 0);
  constexpr uint64_t kCalls = 20000;
  for (uint64_t call = 0; call < kCalls; ++call) {
    // Tasks read what tasks of the call before wrote, on other threads.
    pool.ParallelFor(values.size(), [&](size_t i, size_t) { ++values[i]; });
  }
  EXPECT_EQ(values, std::vector<uint64_t>(6, kCalls));
}

TEST(ThreadPoolTest, ASingleTaskRunsOnTheCaller) {
  ThreadPool pool(4);
  std::thread::id runner;
  size_t worker_seen = 99;
  pool.ParallelFor(1, [&](size_t, size_t worker) {
    runner = std::this_thread::get_id();
    worker_seen = worker;
  });
  EXPECT_EQ(runner, std::this_thread::get_id());
  EXPECT_EQ(worker_seen, 0u);
}

TEST(ThreadPoolTest, WorkerIndicesAreNeverSharedAtOneTime) {
  ThreadPool pool(4);
  std::vector<uint64_t> per_worker(4, 0);  // plain: TSan sees any sharing
  for (int call = 0; call < 200; ++call) {
    pool.ParallelFor(37, [&](size_t, size_t worker) { ++per_worker[worker]; });
  }
  EXPECT_EQ(std::accumulate(per_worker.begin(), per_worker.end(), 0ull),
            200u * 37u);
}

// Longer than the workers spin: those that are idle sleep afterwards.
void LetWorkersSleep() {
  const auto later =
      std::chrono::steady_clock::now() + std::chrono::microseconds(300);
  while (std::chrono::steady_clock::now() < later) std::this_thread::yield();
}

TEST(ThreadPoolTest, SleepingWorkersWakeForTheNextCall) {
  ThreadPool pool(2);
  for (int call = 0; call < 20; ++call) {
    // Tasks that the caller alone cannot run both unnoticed.
    LetWorkersSleep();
    std::atomic<int> arrived{0};
    pool.ParallelFor(2, [&](size_t, size_t) {
      ++arrived;
      while (arrived.load() != 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
  }
}

TEST(ThreadPoolTest, ABurstThatLastsWakesSleepers) {
  ThreadPool pool(2);
  // More than it takes until short bursts of calls wake nobody.
  for (int burst = 0; burst < 100; ++burst) {
    LetWorkersSleep();
    pool.ParallelFor(2, [](size_t, size_t) {});
  }
  const auto later =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  pool.ParallelFor(2, [later](size_t, size_t) {
    while (std::chrono::steady_clock::now() < later) std::this_thread::yield();
  });
  std::atomic<int> arrived{0};
  pool.ParallelFor(2, [&](size_t, size_t) {
    ++arrived;
    while (arrived.load() != 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 2);
}

TEST(ThreadPoolTest, CallerSleepsUntilALongTaskEnds) {
  ThreadPool pool(2);
  std::atomic<int> ended{0};
  std::atomic<int> started{0};
  pool.ParallelFor(2, [&](size_t, size_t worker) {
    ++started;
    while (started.load() != 2) std::this_thread::yield();
    const auto later =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    while (worker != 0 && std::chrono::steady_clock::now() < later) {
      std::this_thread::yield();
    }
    ++ended;
  });
  EXPECT_EQ(ended.load(), 2);
}

TEST(ThreadPoolTest, MayBeMadeByAnotherThreadThanItsUser) {
  ThreadPool pool(2);
  std::thread user([&pool] {
    std::vector<int> threads_seen(8, 0);
    pool.ParallelFor(
        8, [&](size_t i, size_t) { threads_seen[i] = omp_get_max_threads(); });
    EXPECT_EQ(threads_seen, std::vector<int>(8, 1));
  });
  user.join();
}

TEST(ThreadPoolTest, ATaskThatFetchesAheadKnowsWhatItsWorkerRunsNext) {
  for (size_t threads = 1; threads <= 5; ++threads) {
    ThreadPool pool(threads);
    for (size_t count = 0; count < 70; ++count) {
      std::vector<int> runs(count, 0);
      std::vector<size_t> expected(threads, count);  // by worker
      std::atomic<size_t> surprises{0};
      std::atomic<size_t> unknown{0};
      pool.ParallelFor(count, [&](size_t i, size_t next, size_t worker) {
        ++runs[i];
        if (next == count) ++unknown;
        if (expected[worker] != count && expected[worker] != i) ++surprises;
        if (threads == 1 && next != i + 1) ++surprises;
        expected[worker] = next;
      });
      EXPECT_EQ(runs, std::vector<int>(count, 1));
      EXPECT_EQ(surprises.load(), 0u);
      // The last few, and what each worker held when only these were left.
      EXPECT_LE(unknown.load(), 3 * threads);
      EXPECT_EQ(expected, std::vector<size_t>(threads, count));
    }
  }
}

// Each of two tasks waits for the other: a thread that held both would wait for
// ever.
TEST(ThreadPoolTest, ATaskThatFetchesAheadLeavesTheLastOnesToOthers) {
  ThreadPool pool(2);
  for (int call = 0; call < 200; ++call) {
    std::atomic<int> arrived{0};
    pool.ParallelFor(2, [&](size_t, size_t, size_t) {
      ++arrived;
      while (arrived.load() != 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
  }
}

// The other worker is parked in its first task, with the next one claimed,
// until the caller has run all that is left.
TEST(ThreadPoolTest, TheCallerWaitsForATaskThatWasClaimedEarly) {
  constexpr size_t kCount = 9;
  for (int call = 0; call < 20; ++call) {
    ThreadPool pool(2);
    std::vector<int> runs(kCount, 0);
    std::atomic<bool> parked{false};
    std::atomic<size_t> done{0};
    pool.ParallelFor(kCount, [&](size_t i, size_t next, size_t worker) {
      if (worker == 1 && !parked.exchange(true)) {
        EXPECT_NE(next, kCount);
        while (done.load() != kCount - 2) std::this_thread::yield();
      }
      while (!parked.load()) std::this_thread::yield();
      ++runs[i];
      ++done;
    });
    EXPECT_EQ(done.load(), kCount);
    EXPECT_EQ(runs, std::vector<int>(kCount, 1));
  }
}

TEST(ThreadPoolTest, EndsWithoutEverHavingRun) {
  for (size_t threads = 1; threads < 6; ++threads) ThreadPool pool(threads);
}

using std::chrono::microseconds;

constexpr microseconds kGap(50);

class BurstsTest : public testing::Test {
 protected:
  // A call after `pause` that takes `time`. Are sleepers woken for it?
  bool Call(microseconds pause, microseconds time) {
    now_ += pause;
    const bool woken = bursts_.WorthWaking(now_);
    bursts_.CallEnded(now_, now_ + time);
    now_ += time;
    return woken;
  }
  // So many bursts of one call.
  void Burst(int count, microseconds time) {
    for (int i = 0; i < count; ++i) Call(10 * kGap, time);
  }

  Bursts::Clock::time_point now_{std::chrono::hours(1)};
  Bursts bursts_{kGap};
};

TEST_F(BurstsTest, WakesUntilManyBurstsWereShort) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Call(10 * kGap, microseconds(5)));
  }
  Burst(100, microseconds(5));
  EXPECT_FALSE(Call(10 * kGap, microseconds(5)));
}

TEST_F(BurstsTest, WakesOnceABurstHasLasted) {
  Burst(100, microseconds(5));
  EXPECT_FALSE(Call(10 * kGap, microseconds(60)));
  EXPECT_FALSE(Call(kGap / 2, microseconds(60)));
  EXPECT_TRUE(Call(kGap / 2, microseconds(60)));
  EXPECT_FALSE(Call(10 * kGap, microseconds(5)));
}

TEST_F(BurstsTest, WakesForEveryBurstWhereLongOnesAreTheRule) {
  Burst(100, microseconds(5));
  Burst(20, microseconds(500));
  EXPECT_TRUE(Call(10 * kGap, microseconds(5)));
}

TEST_F(BurstsTest, ALongOneAmongManyShortOnesChangesNothing) {
  Burst(100, microseconds(5));
  for (int i = 0; i < 10; ++i) {
    Burst(1, microseconds(5000));
    Burst(20, microseconds(5));
    EXPECT_FALSE(Call(10 * kGap, microseconds(5)));
  }
}

}  // namespace
}  // namespace steadystate::thread_pool_test
