// Goal: who goes into the next batch. Pure decisions, so no threads and no
// model.
#include "server/engine/scheduler.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr BatchLimits kLimits{.max_rows = 8,
                              .max_prefill_rows_beside_decode = 4};

TEST(SchedulerTest, IsEmptyWithoutSegments) {
  Scheduler scheduler(kLimits);
  EXPECT_TRUE(scheduler.empty());
  EXPECT_THAT(scheduler.TakeBatch(), IsEmpty());
}

TEST(SchedulerTest, DecodeGoesFirstWhateverCameFirst) {
  Scheduler scheduler(kLimits);
  scheduler.Add(1, 4);
  scheduler.Add(2, 1);
  scheduler.Add(3, 1);
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(2, 3, 1));
  EXPECT_TRUE(scheduler.empty());
}

TEST(SchedulerTest, ABatchHasAtMostMaxRows) {
  Scheduler scheduler(kLimits);
  for (RequestId id = 1; id <= 10; ++id) scheduler.Add(id, 1);
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_FALSE(scheduler.empty());
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(9, 10));
}

TEST(SchedulerTest, SessionsTakeTurns) {
  Scheduler scheduler({.max_rows = 2, .max_prefill_rows_beside_decode = 2});
  for (RequestId id = 1; id <= 3; ++id) scheduler.Add(id, 1);
  std::vector<std::vector<RequestId>> batches;
  for (int i = 0; i < 3; ++i) {
    batches.push_back(scheduler.TakeBatch());
    for (const RequestId id : batches.back()) scheduler.Add(id, 1);
  }
  EXPECT_THAT(batches, ElementsAre(ElementsAre(1, 2), ElementsAre(3, 1),
                                   ElementsAre(2, 3)));
}

TEST(SchedulerTest, PrefillFillsABatchOfItsOwn) {
  Scheduler scheduler(kLimits);
  scheduler.Add(1, 4);
  scheduler.Add(2, 4);
  scheduler.Add(3, 2);
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(1, 2));
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(3));
}

TEST(SchedulerTest, PrefillIsBoundedBesideDecode) {
  Scheduler scheduler(kLimits);
  scheduler.Add(1, 1);
  scheduler.Add(2, 4);
  scheduler.Add(3, 2);
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(1, 2));
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(3));
}

TEST(SchedulerTest, SegmentsAreNotCutNorOvertaken) {
  Scheduler scheduler(kLimits);
  scheduler.Add(1, 6);
  scheduler.Add(2, 4);  // does not fit beside 1
  scheduler.Add(3, 2);  // would, but came later
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(1));
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(2, 3));
}

TEST(SchedulerTest, DecodeCannotStarvePrefill) {
  Scheduler scheduler({.max_rows = 4, .max_prefill_rows_beside_decode = 4});
  scheduler.Add(100, 3);
  for (RequestId id = 1; id <= 6; ++id) scheduler.Add(id, 1);
  size_t batches = 0;
  std::vector<RequestId> batch;
  do {
    batch = scheduler.TakeBatch();
    ASSERT_LE(batch.size(), 4u);
    ++batches;
    for (const RequestId id : batch) {
      if (id != 100) scheduler.Add(id, 1);
    }
  } while (batch.front() != 100);
  EXPECT_EQ(batches, Scheduler::kMaxPassedOver + 1);
  EXPECT_EQ(batch.size(), 2u);  // decode fills what is left
}

TEST(SchedulerTest, PrefillCannotStarveDecode) {
  // A prefill segment as large as a batch leaves no room when it goes first.
  Scheduler scheduler({.max_rows = 4, .max_prefill_rows_beside_decode = 4});
  size_t decode_batches = 0;
  scheduler.Add(1, 1);
  scheduler.Add(100, 4);
  for (size_t i = 0; i < 20; ++i) {
    for (const RequestId id : scheduler.TakeBatch()) {
      if (id == 1) ++decode_batches;
      scheduler.Add(id, id == 1 ? 1 : 4);
    }
  }
  EXPECT_GE(decode_batches, 15u);
  EXPECT_LT(decode_batches, 20u);
}

TEST(SchedulerTest, RemovedSegmentsTakeNoPlace) {
  Scheduler scheduler(kLimits);
  for (RequestId id = 1; id <= 9; ++id) scheduler.Add(id, 1);
  scheduler.Add(20, 4);
  scheduler.Add(21, 3);
  scheduler.Remove(1);
  scheduler.Remove(5);
  scheduler.Remove(9);
  scheduler.Remove(20);
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(2, 3, 4, 6, 7, 8));
  EXPECT_THAT(scheduler.TakeBatch(), ElementsAre(21));
  EXPECT_TRUE(scheduler.empty());
  scheduler.Add(30, 1);
  scheduler.Remove(30);
  EXPECT_TRUE(scheduler.empty());
  EXPECT_THAT(scheduler.TakeBatch(), IsEmpty());
}

}  // namespace
}  // namespace steadystate
