// Goal: requests begin when they should and on what they should, and none is
// lost or begun twice. Method: the pool by hand, and under many threads.
#include "client/load/session_pool.h"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace steadystate::client {
namespace {

using std::chrono::milliseconds;

class SessionPoolTest : public testing::Test {
 protected:
  SessionPoolTest() {
    model_.set_vocab_size(256);
    for (size_t i = 0; i < 3; ++i) {
      sessions_.push_back(std::make_unique<LoadSession>(i, options_, model_));
    }
  }

  LoadSession& Session(size_t i) { return *sessions_[i]; }
  static LoadTime At(int ms) { return LoadTime(milliseconds(ms)); }

  LoadOptions options_;
  v1::Model model_;
  std::vector<std::unique_ptr<LoadSession>> sessions_;
};

TEST_F(SessionPoolTest, ClosedLoopBeginsTheNextRequestWhenOneEnds) {
  SessionPool pool(/*open_loop=*/false);
  const auto first = pool.Add(Session(0), At(1));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->session, &Session(0));
  EXPECT_EQ(first->intended, At(1));
  const auto next = pool.Finish(Session(0), SessionFate::kGoesOn, At(5));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->intended, At(5));
  pool.Stop(/*cut=*/false);
  EXPECT_FALSE(pool.Finish(Session(0), SessionFate::kGoesOn, At(6)));
  EXPECT_EQ(pool.counts().busy, 0u);
  EXPECT_EQ(pool.counts().alive, 1u);
}

TEST_F(SessionPoolTest, OpenLoopKeepsTheIntendedTimeOfWhatWaits) {
  SessionPool pool(/*open_loop=*/true);
  EXPECT_FALSE(pool.Add(Session(0), At(0)));
  ASSERT_TRUE(pool.Arrive(At(1)));
  EXPECT_FALSE(pool.Arrive(At(2)));
  EXPECT_FALSE(pool.Arrive(At(3)));
  EXPECT_EQ(pool.counts().backlog, 2u);
  const auto next = pool.Finish(Session(0), SessionFate::kGoesOn, At(50));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->intended, At(2));
  EXPECT_EQ(pool.peak_backlog(), 2u);
  EXPECT_EQ(pool.unsent(), 0u);
}

TEST_F(SessionPoolTest, OpenLoopTakesTheSessionThatWasFreeForLongest) {
  SessionPool pool(/*open_loop=*/true);
  for (size_t i = 0; i < 3; ++i) pool.Add(Session(i), At(0));
  EXPECT_EQ(pool.Arrive(At(1))->session, &Session(0));
  pool.Finish(Session(0), SessionFate::kGoesOn, At(2));
  EXPECT_EQ(pool.Arrive(At(3))->session, &Session(1));
  EXPECT_EQ(pool.Arrive(At(4))->session, &Session(2));
  EXPECT_EQ(pool.Arrive(At(5))->session, &Session(0));
}

TEST_F(SessionPoolTest, TheBacklogIsBounded) {
  SessionPool pool(/*open_loop=*/true, /*max_backlog=*/2);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(pool.Arrive(At(i)));
  EXPECT_EQ(pool.counts().backlog, 2u);
  EXPECT_EQ(pool.unsent(), 3u);
}

TEST_F(SessionPoolTest, WhatWaitsMayBeginAfterStopButNotAfterCut) {
  SessionPool pool(/*open_loop=*/true);
  pool.Add(Session(0), At(0));
  for (int i = 0; i < 4; ++i) pool.Arrive(At(i));
  pool.Stop(/*cut=*/false);
  EXPECT_FALSE(pool.Arrive(At(9)));
  EXPECT_FALSE(pool.cut());
  EXPECT_TRUE(pool.Finish(Session(0), SessionFate::kGoesOn, At(10)));
  pool.Stop(/*cut=*/true);
  EXPECT_TRUE(pool.cut());
  EXPECT_FALSE(pool.Finish(Session(0), SessionFate::kGoesOn, At(11)));
  EXPECT_EQ(pool.unsent(), 2u);
  EXPECT_EQ(pool.counts().backlog, 0u);
}

TEST_F(SessionPoolTest, BrokenSessionsComeBackWhenMended) {
  SessionPool pool(/*open_loop=*/false);
  pool.Add(Session(0), At(0));
  pool.Add(Session(1), At(0));
  EXPECT_EQ(pool.TakeBroken(), nullptr);
  EXPECT_FALSE(pool.Finish(Session(0), SessionFate::kBroken, At(1)));
  EXPECT_EQ(pool.TakeBroken(), &Session(0));
  EXPECT_EQ(pool.counts().busy, 1u);
  EXPECT_EQ(pool.GiveBack(Session(0), At(2))->intended, At(2));
  EXPECT_FALSE(pool.Finish(Session(1), SessionFate::kRetired, At(3)));
  EXPECT_EQ(pool.counts().alive, 1u);
  pool.Finish(Session(0), SessionFate::kBroken, At(4));
  pool.TakeBroken();
  pool.Retire();
  EXPECT_EQ(pool.counts().alive, 0u);
}

TEST_F(SessionPoolTest, WaitingEndsWhenThereIsSomethingToDo) {
  SessionPool pool(/*open_loop=*/false);
  pool.Add(Session(0), At(0));
  std::thread other(
      [&] { pool.Finish(Session(0), SessionFate::kBroken, LoadClock::now()); });
  // Far beyond the time that this test may take.
  EXPECT_TRUE(pool.WaitForBroken(LoadClock::now() + std::chrono::hours(1)));
  EXPECT_EQ(pool.TakeBroken(), &Session(0));
  pool.StopMending();
  EXPECT_FALSE(pool.WaitForBroken(LoadClock::now() + std::chrono::hours(1)));
  other.join();
}

TEST_F(SessionPoolTest, NoRequestIsLostBetweenThreads) {
  constexpr int kRequests = 20000;
  SessionPool pool(/*open_loop=*/true);
  std::vector<std::thread> threads;
  std::atomic<int> done = 0;
  // Each session works on what it is given, on a thread of its own.
  struct Desk {
    std::mutex mutex;
    std::condition_variable changed;
    int turns = 0;
    bool closed = false;
  };
  std::vector<Desk> desks(sessions_.size());
  for (size_t i = 0; i < desks.size(); ++i) {
    pool.Add(Session(i), At(0));
    threads.emplace_back([&, i] {
      Desk& desk = desks[i];
      std::unique_lock<std::mutex> lock(desk.mutex);
      while (true) {
        desk.changed.wait(lock, [&] { return desk.turns > 0 || desk.closed; });
        if (desk.turns == 0) return;
        --desk.turns;
        lock.unlock();
        do {
          ++done;
        } while (pool.Finish(Session(i), SessionFate::kGoesOn, At(0)));
        lock.lock();
      }
    });
  }
  for (int i = 0; i < kRequests; ++i) {
    const auto turn = pool.Arrive(At(i));
    if (!turn) continue;
    Desk& desk = desks[turn->session->index()];
    const std::lock_guard<std::mutex> lock(desk.mutex);
    ++desk.turns;
    desk.changed.notify_one();
  }
  pool.Stop(/*cut=*/false);
  pool.WaitUntil(LoadClock::now() + std::chrono::hours(1));
  for (Desk& desk : desks) {
    const std::lock_guard<std::mutex> lock(desk.mutex);
    desk.closed = true;
    desk.changed.notify_one();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, kRequests);
  EXPECT_EQ(pool.counts().busy, 0u);
}

}  // namespace
}  // namespace steadystate::client
