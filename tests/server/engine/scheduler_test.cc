// Goal: who goes into the next batch. Pure decisions, so no threads and no
// model.
#include "server/engine/scheduler.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr BatchPhase kDecode = BatchPhase::kDecode;
constexpr BatchPhase kPrefill = BatchPhase::kPrefill;
constexpr ClientId kClient = 5;

// One row of kClient.
void Add(Scheduler& scheduler, RequestId id, BatchPhase phase) {
  scheduler.Add({id, kClient, 1}, phase);
}

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
  scheduler.Add({1, kClient, 4}, kPrefill);
  scheduler.Add({2, kClient, 1}, kDecode);
  scheduler.Add({3, kClient, 1}, kPrefill);  // as a bidirectional pass may want
  scheduler.Add({4, kClient, 1}, kDecode);
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
  for (RequestId id = 1; id <= 10; ++id) Add(scheduler, id, kDecode);
  EXPECT_THAT(Take(scheduler, kDecode), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_FALSE(scheduler.empty());
  EXPECT_THAT(Take(scheduler, kDecode), ElementsAre(9, 10));
}

TEST(SchedulerTest, SessionsTakeTurns) {
  for (const BatchPhase phase : {kDecode, kPrefill}) {
    Scheduler scheduler(2);
    for (RequestId id = 1; id <= 3; ++id) Add(scheduler, id, phase);
    std::vector<std::vector<RequestId>> batches;
    for (int i = 0; i < 3; ++i) {
      batches.push_back(Take(scheduler, phase));
      for (const RequestId id : batches.back()) Add(scheduler, id, phase);
    }
    EXPECT_THAT(batches, ElementsAre(ElementsAre(1, 2), ElementsAre(3, 1),
                                     ElementsAre(2, 3)));
  }
}

TEST(SchedulerTest, SegmentsAreNotCutNorOvertaken) {
  Scheduler scheduler(8);
  scheduler.Add({1, kClient, 6}, kPrefill);
  scheduler.Add({2, kClient, 4}, kPrefill);  // does not fit beside 1
  scheduler.Add({3, kClient, 2}, kPrefill);  // would, but came later
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(1));
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(2, 3));
}

TEST(SchedulerTest, ClientsTakeTurns) {
  Scheduler scheduler(8);
  for (RequestId id = 1; id <= 6; ++id) scheduler.Add({id, 1, 4}, kPrefill);
  scheduler.Add({20, 2, 1}, kPrefill);
  scheduler.Add({30, 3, 4}, kPrefill);  // does not fit: first the next time
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(1, 20));
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(2, 30));
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(3, 4));
}

TEST(SchedulerTest, ANewClientWaitsForOneSegmentOfEachOther) {
  for (const BatchPhase phase : {kDecode, kPrefill}) {
    Scheduler scheduler(4);
    for (RequestId id = 1; id <= 300; ++id) {
      scheduler.Add({id, 1 + id % 3, 1}, phase);
    }
    for (RequestId fresh = 1000; fresh < 1010; ++fresh) {
      Take(scheduler, phase);
      scheduler.Add({fresh, fresh, 1}, phase);
      EXPECT_THAT(Take(scheduler, phase), Contains(fresh));
    }
  }
}

TEST(SchedulerTest, SegmentsOfAClientLieTogetherInABatch) {
  Scheduler scheduler(8);
  for (RequestId id = 1; id <= 8; ++id) {
    scheduler.Add({id, id % 2, 1}, kDecode);
  }
  EXPECT_THAT(Take(scheduler, kDecode), ElementsAre(2, 4, 6, 8, 1, 3, 5, 7));
}

TEST(SchedulerTest, EachSegmentIsTakenOnceInItsClientsOrder) {
  Scheduler scheduler(16);
  std::mt19937 random(1);
  std::map<ClientId, std::deque<RequestId>> waiting;
  RequestId next = 1;
  for (int round = 0; round < 2000; ++round) {
    for (size_t i = random() % 12; i > 0; --i) {
      const ClientId client = random() % 9;
      scheduler.Add({next, client, 1 + random() % 8}, kPrefill);
      waiting[client].push_back(next++);
    }
    std::deque<RequestId>& some = waiting[random() % 9];
    if (!some.empty()) {
      scheduler.Remove(some.back());
      some.pop_back();
    }
    for (const RequestId id : Take(scheduler, kPrefill)) {
      const auto of =
          std::find_if(waiting.begin(), waiting.end(), [id](const auto& line) {
            return !line.second.empty() && line.second.front() == id;
          });
      ASSERT_NE(of, waiting.end());
      of->second.pop_front();
    }
    const bool none =
        std::all_of(waiting.begin(), waiting.end(),
                    [](const auto& line) { return line.second.empty(); });
    ASSERT_EQ(scheduler.empty(), none);
  }
}

TEST(SchedulerTest, RemovedSegmentsTakeNoPlace) {
  Scheduler scheduler(8);
  for (RequestId id = 1; id <= 9; ++id) Add(scheduler, id, kDecode);
  scheduler.Add({20, kClient, 4}, kPrefill);
  scheduler.Add({21, kClient, 3}, kPrefill);
  scheduler.Remove(1);
  scheduler.Remove(5);
  scheduler.Remove(9);
  scheduler.Remove(20);
  EXPECT_THAT(Take(scheduler, kDecode), ElementsAre(2, 3, 4, 6, 7, 8));
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(21));
  EXPECT_TRUE(scheduler.empty());
  scheduler.Add({30, kClient, 1}, kDecode);
  scheduler.Remove(30);
  EXPECT_TRUE(scheduler.empty());
  EXPECT_THAT(Take(scheduler, kDecode), IsEmpty());
}

}  // namespace
}  // namespace steadystate
