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

constexpr BatchPhase kDecode = BatchPhase::kDecode;
constexpr BatchPhase kPrefill = BatchPhase::kPrefill;

std::vector<RequestId> Take(Scheduler& scheduler, BatchPhase phase) {
  std::vector<RequestId> batch = {77};  // overwritten
  scheduler.TakeBatch(phase, batch);
  return batch;
}

TEST(SchedulerTest, IsEmptyWithoutSegments) {
  Scheduler scheduler(8);
  EXPECT_TRUE(scheduler.empty());
  for (const BatchPhase phase : {kDecode, kPrefill}) {
    EXPECT_FALSE(scheduler.waiting(phase));
    EXPECT_THAT(Take(scheduler, phase), IsEmpty());
  }
}

TEST(SchedulerTest, EachPhaseHasBatchesOfItsOwn) {
  Scheduler scheduler(8);
  scheduler.Add(1, 4, kPrefill);
  scheduler.Add(2, 1, kDecode);
  scheduler.Add(3, 1, kPrefill);  // as a bidirectional pass may want
  scheduler.Add(4, 1, kDecode);
  EXPECT_TRUE(scheduler.waiting(kDecode));
  EXPECT_THAT(Take(scheduler, kDecode), ElementsAre(2, 4));
  EXPECT_FALSE(scheduler.waiting(kDecode));
  EXPECT_TRUE(scheduler.waiting(kPrefill));
  EXPECT_FALSE(scheduler.empty());
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(1, 3));
  EXPECT_TRUE(scheduler.empty());
}

TEST(SchedulerTest, ABatchHasAtMostMaxRows) {
  Scheduler scheduler(8);
  for (RequestId id = 1; id <= 10; ++id) scheduler.Add(id, 1, kDecode);
  EXPECT_THAT(Take(scheduler, kDecode), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_FALSE(scheduler.empty());
  EXPECT_THAT(Take(scheduler, kDecode), ElementsAre(9, 10));
}

TEST(SchedulerTest, SessionsTakeTurns) {
  for (const BatchPhase phase : {kDecode, kPrefill}) {
    Scheduler scheduler(2);
    for (RequestId id = 1; id <= 3; ++id) scheduler.Add(id, 1, phase);
    std::vector<std::vector<RequestId>> batches;
    for (int i = 0; i < 3; ++i) {
      batches.push_back(Take(scheduler, phase));
      for (const RequestId id : batches.back()) scheduler.Add(id, 1, phase);
    }
    EXPECT_THAT(batches, ElementsAre(ElementsAre(1, 2), ElementsAre(3, 1),
                                     ElementsAre(2, 3)));
  }
}

TEST(SchedulerTest, SegmentsAreNotCutNorOvertaken) {
  Scheduler scheduler(8);
  scheduler.Add(1, 6, kPrefill);
  scheduler.Add(2, 4, kPrefill);  // does not fit beside 1
  scheduler.Add(3, 2, kPrefill);  // would, but came later
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(1));
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(2, 3));
}

TEST(SchedulerTest, RemovedSegmentsTakeNoPlace) {
  Scheduler scheduler(8);
  for (RequestId id = 1; id <= 9; ++id) scheduler.Add(id, 1, kDecode);
  scheduler.Add(20, 4, kPrefill);
  scheduler.Add(21, 3, kPrefill);
  scheduler.Remove(1);
  scheduler.Remove(5);
  scheduler.Remove(9);
  scheduler.Remove(20);
  EXPECT_THAT(Take(scheduler, kDecode), ElementsAre(2, 3, 4, 6, 7, 8));
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(21));
  EXPECT_TRUE(scheduler.empty());
  scheduler.Add(30, 1, kDecode);
  scheduler.Remove(30);
  EXPECT_TRUE(scheduler.empty());
  EXPECT_THAT(Take(scheduler, kDecode), IsEmpty());
}

}  // namespace
}  // namespace steadystate
