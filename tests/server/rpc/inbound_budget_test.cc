// Goal: large messages stay within their budget, and a connection within its
// share, with those who wait told when there is room. Method: the budget by
// itself.
#include "server/rpc/inbound_budget.h"

#include <memory>

#include "gtest/gtest.h"
#include "server/base/error.h"

namespace steadystate {
namespace {

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
}  // namespace steadystate
