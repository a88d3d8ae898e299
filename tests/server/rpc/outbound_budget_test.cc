// Goal: answers stay within the bound, whoever does not read pauses itself and
// nobody else, and whoever waits is told when there is room.
#include "server/rpc/outbound_budget.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/metrics/metrics.h"
#include "server/metrics/scrape_server.h"

namespace steadystate::outbound_budget_test {
namespace {

class CountingWaiter : public OutboundBudget::Waiter {
 public:
  void OnOutboundRoom() override { ++told; }
  std::atomic<int> told = 0;
};

// A call: an account and its waiter.
struct Call {
  Call(OutboundBudget& budget_in, ClientId client)
      : budget(budget_in), account(client) {}
  ~Call() { End(); }

  bool Reserve(uint64_t bytes) {
    return budget.Reserve(account, bytes, waiter);
  }
  void Hold(uint64_t bytes) { Tell(budget.Hold(account, bytes)); }
  // An answer that nobody reads.
  void ReserveAndHold(uint64_t bytes) {
    EXPECT_TRUE(Reserve(bytes));
    Hold(bytes);
  }
  void End() {
    Tell(budget.EndReserve(account));
    Tell(budget.Hold(account, 0));
  }
  int told() const { return waiter->told; }

  OutboundBudget& budget;
  OutboundBudget::Account account;
  const std::shared_ptr<CountingWaiter> waiter =
      std::make_shared<CountingWaiter>();
};

class OutboundBudgetTest : public testing::Test {
 protected:
  Metrics metrics_{"m"};
  OutboundBudget budget_{FairShare(100, 0, 1), {}, metrics_};
};

TEST_F(OutboundBudgetTest, WhatIsReservedIsThenHeld) {
  Call call(budget_, 1);
  EXPECT_TRUE(call.Reserve(10));
  EXPECT_TRUE(call.Reserve(10));
  EXPECT_EQ(budget_.used(), 10u);
  call.Hold(4);
  EXPECT_EQ(budget_.used(), 10u);
  EXPECT_TRUE(call.Reserve(10));
  EXPECT_EQ(budget_.used(), 14u);
  call.Hold(20);  // more than was expected
  EXPECT_EQ(budget_.used(), 20u);
  call.Hold(0);
  EXPECT_EQ(budget_.used(), 0u);
}

TEST_F(OutboundBudgetTest, WhoWaitsIsToldOnceItIsReserved) {
  Call reads(budget_, 1);
  Call waits(budget_, 1);
  reads.ReserveAndHold(40);
  EXPECT_FALSE(waits.Reserve(20));
  EXPECT_FALSE(waits.Reserve(20));
  reads.Hold(35);
  EXPECT_EQ(waits.told(), 0);
  reads.Hold(10);
  EXPECT_EQ(waits.told(), 1);
  EXPECT_EQ(budget_.used(), 30u);
  EXPECT_TRUE(waits.Reserve(20));
  EXPECT_EQ(budget_.used(), 30u);
}

TEST_F(OutboundBudgetTest, AClientThatDoesNotReadLeavesRoomForOthers) {
  Call unread(budget_, 1);
  Call more(budget_, 1);
  Call other(budget_, 2);
  unread.ReserveAndHold(50);
  EXPECT_FALSE(more.Reserve(1));
  for (int i = 0; i < 10; ++i) {
    other.ReserveAndHold(20);
    other.Hold(0);
  }
  EXPECT_EQ(more.told(), 0);
}

TEST_F(OutboundBudgetTest, WhoHoldsMoreThanAShareKeepsOthersWaiting) {
  Call large(budget_, 1);
  Call same(budget_, 1);
  large.ReserveAndHold(100);
  EXPECT_FALSE(same.Reserve(60));
  // They are the same connection's.
  EXPECT_FALSE(budget_.KeepsOthersWaiting(large.account));
  Call other(budget_, 2);
  EXPECT_FALSE(other.Reserve(10));
  EXPECT_TRUE(budget_.KeepsOthersWaiting(large.account));
  EXPECT_FALSE(budget_.KeepsOthersWaiting(same.account));
  large.Hold(0);
  EXPECT_FALSE(budget_.KeepsOthersWaiting(large.account));
}

TEST_F(OutboundBudgetTest, WhoHoldsAShareKeepsNobodyWaiting) {
  Call share(budget_, 1);
  share.ReserveAndHold(40);
  Call holds(budget_, 2);
  Call waits(budget_, 2);
  holds.ReserveAndHold(30);
  EXPECT_FALSE(waits.Reserve(10));
  EXPECT_FALSE(budget_.KeepsOthersWaiting(share.account));
}

TEST_F(OutboundBudgetTest, CallsOfAClientGetRoomInOrder) {
  Call holds(budget_, 1);
  Call large(budget_, 1);
  Call small(budget_, 1);
  holds.ReserveAndHold(40);
  EXPECT_FALSE(large.Reserve(30));
  EXPECT_FALSE(small.Reserve(1));  // there is room, but it was not first
  holds.Hold(15);
  EXPECT_EQ(large.told(), 1);
  EXPECT_EQ(small.told(), 1);
}

TEST_F(OutboundBudgetTest, RoomThatAnotherClientGivesBackCountsToo) {
  Call one(budget_, 1);
  Call two(budget_, 2);
  Call waits(budget_, 2);
  one.ReserveAndHold(50);
  ASSERT_TRUE(two.Reserve(1));
  EXPECT_FALSE(waits.Reserve(40));
  one.Hold(19);
  EXPECT_EQ(waits.told(), 0);
  one.Hold(18);
  EXPECT_EQ(waits.told(), 1);
  EXPECT_EQ(budget_.used(), 59u);
}

TEST_F(OutboundBudgetTest, OneAnswerLargerThanAShareGetsThroughAtATime) {
  Call one(budget_, 1);
  Call same(budget_, 1);
  Call two(budget_, 2);
  one.ReserveAndHold(1000);
  EXPECT_FALSE(same.Reserve(1000));
  EXPECT_FALSE(two.Reserve(1000));
  EXPECT_EQ(budget_.used(), 1000u);
  one.Hold(0);
  EXPECT_EQ(same.told() + two.told(), 1);
  EXPECT_EQ(budget_.used(), 1000u);
  Call& first = same.told() == 1 ? same : two;
  Call& second = same.told() == 1 ? two : same;
  first.Hold(1000);
  first.End();
  EXPECT_EQ(second.told(), 1);
}

// It is first in its turn as soon as that will do.
TEST_F(OutboundBudgetTest, EachCallHasSomethingOfItsOwn) {
  OutboundBudget budget(FairShare(100, 0, 1), {.each = 10, .in_all = 100},
                        metrics_);
  Call unread(budget, 1);
  Call waits(budget, 1);
  Call reads(budget, 1);
  unread.ReserveAndHold(60);
  waits.ReserveAndHold(10);
  EXPECT_FALSE(waits.Reserve(10));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(reads.Reserve(8));
    reads.Hold(8);
    EXPECT_FALSE(reads.Reserve(8));
    EXPECT_EQ(reads.told(), i);
    reads.Hold(2);
    EXPECT_EQ(reads.told(), i + 1);
    reads.Hold(0);
  }
  EXPECT_EQ(waits.told(), 0);
  EXPECT_EQ(budget.used(), 70u + 8u);
}

// What calls have of their own is bounded in all: beyond that the connection's
// share has to do, and who waits for some is told when there is.
TEST_F(OutboundBudgetTest, CallsWithSomethingOfTheirOwnAreBounded) {
  OutboundBudget budget(FairShare(100, 0, 1), {.each = 10, .in_all = 25},
                        metrics_);
  Call own(budget, 1);
  Call more(budget, 1);
  own.ReserveAndHold(10);
  more.ReserveAndHold(10);
  Call charged(budget, 1);
  charged.ReserveAndHold(50);
  EXPECT_EQ(budget.used(), 70u);
  Call waits(budget, 1);
  Call larger(budget, 1);
  EXPECT_FALSE(waits.Reserve(8));
  EXPECT_FALSE(larger.Reserve(20));
  Call other(budget, 2);
  other.ReserveAndHold(25);
  own.Hold(2);
  EXPECT_EQ(waits.told(), 0);
  own.Hold(0);
  EXPECT_EQ(waits.told(), 1);
  EXPECT_EQ(larger.told(), 0);
  EXPECT_EQ(budget.used(), 10u + 50u + 25u + 8u);
}

TEST_F(OutboundBudgetTest, WhoEndsWaitsNoMore) {
  Call holds(budget_, 1);
  Call gone(budget_, 1);
  Call next(budget_, 1);
  holds.ReserveAndHold(50);
  EXPECT_FALSE(gone.Reserve(50));
  EXPECT_FALSE(next.Reserve(10));
  const std::weak_ptr<CountingWaiter> waiter = gone.waiter;
  holds.Hold(20);
  EXPECT_EQ(next.told(), 0);
  EXPECT_EQ(waiter.use_count(), 2);
  gone.End();
  EXPECT_EQ(waiter.use_count(), 1);
  EXPECT_EQ(gone.told(), 0);
  EXPECT_EQ(next.told(), 1);
}

TEST_F(OutboundBudgetTest, MetricsSayWhatIsHeldAndWhoWaits) {
  Call holds(budget_, 1);
  Call waits(budget_, 1);
  ASSERT_TRUE(holds.Reserve(50));
  EXPECT_FALSE(waits.Reserve(7));
  const std::string page = Exposition(metrics_.collectables());
  EXPECT_NE(page.find("steadystate_outbound_bytes{model=\"m\"} 50\n"),
            std::string::npos);
  EXPECT_NE(page.find("steadystate_outbound_waiting{model=\"m\"} 1\n"),
            std::string::npos);
}

// A call that makes answers of changing size and sends them, as often as it is
// let; whoever is told goes on from there, on the thread that tells it.
class Sender : public OutboundBudget::Waiter,
               public std::enable_shared_from_this<Sender> {
 public:
  Sender(OutboundBudget& budget, ClientId client, int answers)
      : budget_(budget), account_(client), left_(answers) {}

  // One answer; false if it waits or none is left.
  bool Send() {
    const uint64_t bytes = 1 + static_cast<uint64_t>(left_) % 60;
    if (left_ == 0 || !budget_.Reserve(account_, bytes, shared_from_this())) {
      return false;
    }
    Tell(budget_.Hold(account_, bytes));
    Tell(budget_.Hold(account_, 0));
    --left_;
    return true;
  }
  void OnOutboundRoom() override { room_ = true; }
  bool TakeRoom() { return room_.exchange(false); }
  int left() const { return left_; }
  void End() { Tell(budget_.EndReserve(account_)); }

 private:
  OutboundBudget& budget_;
  OutboundBudget::Account account_;
  std::atomic<bool> room_ = false;
  std::atomic<int> left_;
};

// Many that want more than there is, on as many threads: were one not told,
// this would not end.
TEST_F(OutboundBudgetTest, NobodyIsForgotten) {
  constexpr int kThreads = 8;
  std::vector<std::shared_ptr<Sender>> senders;
  for (int i = 0; i < kThreads; ++i) {
    const auto client = static_cast<ClientId>(1 + i % 3);
    senders.push_back(std::make_shared<Sender>(budget_, client, 2000));
  }
  std::vector<std::thread> threads;
  for (const auto& sender : senders) {
    threads.emplace_back([&sender] {
      while (sender->left() > 0) {
        if (sender->Send()) continue;
        while (!sender->TakeRoom()) std::this_thread::yield();
      }
      sender->End();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget_.used(), 0u);
}

}  // namespace
}  // namespace steadystate::outbound_budget_test
