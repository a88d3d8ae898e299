// Goal: one client leaves room for others, however much it takes.
//
// Goal: large messages stay within their budget, and a connection within its
// share, with those who wait told when there is room. Method: the budget by
// itself.
#include "server/rpc/fair_share.h"

#include <memory>

#include "gtest/gtest.h"
#include "server/base/error.h"

namespace steadystate::fair_share_test {
namespace {

// Takes one unit after the other while there is room.
void TakeAll(FairShare& share, ClientId client) {
  while (share.HasRoom(client, 1)) share.Take(client, 1);
}

TEST(FairShareTest, AClientHasAPartOfWhatIsLeft) {
  FairShare share(170, 0, 16);
  TakeAll(share, 1);
  EXPECT_EQ(share.HeldBy(1), 10u);
  TakeAll(share, 2);
  EXPECT_EQ(share.HeldBy(2), 9u);
  EXPECT_EQ(share.held(), 19u);
}

TEST(FairShareTest, ManyThatTakeAllLeaveRoom) {
  FairShare share(1 << 20, 0, 16);
  for (ClientId client = 1; client <= 40; ++client) TakeAll(share, client);
  TakeAll(share, 41);
  EXPECT_GT(share.HeldBy(41), uint64_t{1 << 20} / 17 / 16);
}

TEST(FairShareTest, AllowancesAreThereWhateverOthersHold) {
  FairShare share(100, 5, 1);
  for (ClientId client = 1; client <= 1000; ++client) {
    TakeAll(share, client);
    EXPECT_GE(share.HeldBy(client), 5u) << client;
  }
  EXPECT_LE(share.held(), 100u + 1000 * 5);
}

TEST(FairShareTest, NeedIsWhatMustBeLeft) {
  FairShare share(100, 10, 4);
  EXPECT_EQ(share.Need(1, 10), 0u);
  EXPECT_EQ(share.Need(1, 12), 4u * 2 + 2);
  share.Take(1, 12);
  EXPECT_EQ(share.Need(1, 3), 4u * 5 + 3);
}

TEST(FairShareTest, ALargeAmountMustLeaveItsParts) {
  FairShare share(100, 0, 4);
  EXPECT_TRUE(share.HasRoom(1, 20));
  EXPECT_FALSE(share.HasRoom(1, 21));
}

TEST(FairShareTest, WhatIsGivenBackIsRoom) {
  FairShare share(100, 10, 1);
  share.Take(1, 60);
  share.Take(2, 35);
  EXPECT_FALSE(share.HasRoom(2, 1));
  share.GiveBack(1, 55);
  EXPECT_EQ(share.HeldBy(1), 5u);
  EXPECT_EQ(share.held(), 40u);
  EXPECT_TRUE(share.HasRoom(2, 25));
  EXPECT_FALSE(share.HasRoom(2, 26));
  share.GiveBack(1, 5);
  share.GiveBack(2, 35);
  EXPECT_EQ(share.held(), 0u);
  EXPECT_TRUE(share.HasRoom(2, 60));
}

TEST(FairShareTest, MoreThanThereIsCanBeTaken) {
  FairShare share(100, 0, 1);
  share.Take(1, 150);
  EXPECT_EQ(share.held(), 150u);
  EXPECT_FALSE(share.HasRoom(2, 1));
  share.GiveBack(1, 150);
  EXPECT_TRUE(share.HasRoom(2, 50));
}

struct Waiter final : public WaitingStream {
  void OnRoom() override { ++told; }
  int told = 0;
};

TEST(InboundBudgetTest, RefusesWhatIsBeyondTheBudget) {
  InboundBudget budget(800, 0);
  EXPECT_TRUE(budget.Add(1, 400).ok());
  EXPECT_TRUE(budget.Add(2, 200).ok());
  const auto details = GetErrorDetails(budget.Add(3, 101));
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->reason, ErrorReason::kQueueFull);
  EXPECT_EQ(details->metadata,
            (ErrorMetadata{{"value", "101"}, {"bounds", "800"}}));
  budget.Remove(1, 400);
  EXPECT_TRUE(budget.Add(3, 101).ok());
}

TEST(InboundBudgetTest, AConnectionLeavesAsMuchAsItHolds) {
  InboundBudget budget(800, 0);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(budget.Add(1, 100).ok()) << i;
  }
  EXPECT_FALSE(budget.Add(1, 100).ok());
  // Others do not notice.
  EXPECT_TRUE(budget.Add(2, 200).ok());
  EXPECT_TRUE(budget.Add(3, 100).ok());
}

TEST(InboundBudgetTest, EachConnectionHasItsAllowance) {
  InboundBudget budget(800, 10);
  for (ClientId client = 1; client < 20; ++client) {
    while (budget.Add(client, 5).ok()) {
    }
  }
  EXPECT_TRUE(budget.Add(20, 10).ok());
  EXPECT_FALSE(budget.Add(20, 10).ok());
}

TEST(InboundBudgetTest, AConnectionBeyondItsShareWaitsUntilItIsTold) {
  InboundBudget budget(800, 0);
  const auto waiter = std::make_shared<Waiter>();
  EXPECT_TRUE(budget.HasRoomForAll());
  EXPECT_TRUE(budget.MayRead(1, waiter));
  ASSERT_TRUE(budget.Add(1, 60).ok());
  ASSERT_TRUE(budget.Add(1, 60).ok());
  EXPECT_FALSE(budget.HasRoomForAll());
  EXPECT_FALSE(budget.MayRead(1, waiter));
  EXPECT_TRUE(budget.MayRead(2, waiter));
  // One that ends meanwhile is forgotten.
  EXPECT_FALSE(budget.MayRead(1, std::make_shared<Waiter>()));
  budget.Remove(1, 60);
  EXPECT_EQ(waiter->told, 1);
  EXPECT_TRUE(budget.MayRead(1, waiter));
  budget.Remove(1, 60);
  EXPECT_EQ(waiter->told, 1);
  EXPECT_TRUE(budget.HasRoomForAll());
}

}  // namespace
}  // namespace steadystate::fair_share_test
