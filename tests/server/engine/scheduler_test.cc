// Goal: who goes into the next batch, and how long the compute thread waits for
// those it has answered: exactly as long as ReturnWindow says. Pure decisions,
// gap by gap, so no threads and no model.
#include "server/engine/scheduler.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::scheduler_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr BatchPhase kDecode = BatchPhase::kDecode;
constexpr BatchPhase kPrefill = BatchPhase::kPrefill;
constexpr ClientId kClient = 5;

// A Scheduler whose requests and clients are numbers.
class NumberedScheduler {
 public:
  explicit NumberedScheduler(size_t max_rows) : scheduler_(max_rows) {}

  struct Segment {
    RequestId id;
    ClientId client;
    size_t rows;
  };
  void Add(const Segment& segment, BatchPhase phase) {
    Client& client = clients_[segment.client];
    client.id = segment.client;
    Request& request = requests_[segment.id];
    request.id = segment.id;
    request.client = &client;
    scheduler_.Add(request, segment.rows, phase);
  }
  void Remove(RequestId id) { scheduler_.Remove(requests_.at(id)); }
  std::vector<RequestId> Take(BatchPhase phase) {
    std::vector<Request*> batch = {nullptr};  // overwritten
    scheduler_.TakeBatch(phase, batch);
    std::vector<RequestId> ids;
    for (const Request* request : batch) ids.push_back(request->id);
    return ids;
  }
  bool empty() const { return scheduler_.empty(); }
  bool waiting(BatchPhase phase) const { return scheduler_.waiting(phase); }

 private:
  std::map<ClientId, Client> clients_;
  std::map<RequestId, Request> requests_;
  Scheduler scheduler_;
};

// One row of kClient.
void Add(NumberedScheduler& scheduler, RequestId id, BatchPhase phase) {
  scheduler.Add({id, kClient, 1}, phase);
}

std::vector<RequestId> Take(NumberedScheduler& scheduler, BatchPhase phase) {
  return scheduler.Take(phase);
}

TEST(SchedulerTest, IsEmptyWithoutSegments) {
  NumberedScheduler scheduler(8);
  EXPECT_TRUE(scheduler.empty());
  for (const BatchPhase phase : {kDecode, kPrefill}) {
    EXPECT_FALSE(scheduler.waiting(phase));
    EXPECT_THAT(Take(scheduler, phase), IsEmpty());
  }
}

TEST(SchedulerTest, EachPhaseHasBatchesOfItsOwn) {
  NumberedScheduler scheduler(8);
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
  NumberedScheduler scheduler(8);
  for (RequestId id = 1; id <= 10; ++id) Add(scheduler, id, kDecode);
  EXPECT_THAT(Take(scheduler, kDecode), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_FALSE(scheduler.empty());
  EXPECT_THAT(Take(scheduler, kDecode), ElementsAre(9, 10));
}

TEST(SchedulerTest, SessionsTakeTurns) {
  for (const BatchPhase phase : {kDecode, kPrefill}) {
    NumberedScheduler scheduler(2);
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
  NumberedScheduler scheduler(8);
  scheduler.Add({1, kClient, 6}, kPrefill);
  scheduler.Add({2, kClient, 4}, kPrefill);  // does not fit beside 1
  scheduler.Add({3, kClient, 2}, kPrefill);  // would, but came later
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(1));
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(2, 3));
}

TEST(SchedulerTest, ClientsTakeTurns) {
  NumberedScheduler scheduler(8);
  for (RequestId id = 1; id <= 6; ++id) scheduler.Add({id, 1, 4}, kPrefill);
  scheduler.Add({20, 2, 1}, kPrefill);
  scheduler.Add({30, 3, 4}, kPrefill);  // does not fit: first the next time
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(1, 20));
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(2, 30));
  EXPECT_THAT(Take(scheduler, kPrefill), ElementsAre(3, 4));
}

TEST(SchedulerTest, ANewClientWaitsForOneSegmentOfEachOther) {
  for (const BatchPhase phase : {kDecode, kPrefill}) {
    NumberedScheduler scheduler(4);
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
  NumberedScheduler scheduler(8);
  for (RequestId id = 1; id <= 8; ++id) {
    scheduler.Add({id, id % 2, 1}, kDecode);
  }
  EXPECT_THAT(Take(scheduler, kDecode), ElementsAre(2, 4, 6, 8, 1, 3, 5, 7));
}

TEST(SchedulerTest, EachSegmentIsTakenOnceInItsClientsOrder) {
  NumberedScheduler scheduler(16);
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
  NumberedScheduler scheduler(8);
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
  EXPECT_FALSE(scheduler.waiting(kDecode));
  scheduler.Add({30, kClient, 1}, kDecode);
  scheduler.Remove(30);
  EXPECT_TRUE(scheduler.empty());
  EXPECT_THAT(Take(scheduler, kDecode), IsEmpty());
}

// Takes clients out of the middle of the order of turns, and its end.
TEST(SchedulerTest, ARemovedClientLosesItsTurnAndNobodyElseDoes) {
  for (ClientId gone = 1; gone <= 4; ++gone) {
    NumberedScheduler scheduler(1);
    for (ClientId client = 1; client <= 4; ++client) {
      scheduler.Add({client, client, 1}, kDecode);
      scheduler.Add({10 + client, client, 1}, kDecode);
    }
    scheduler.Remove(gone);
    scheduler.Remove(10 + gone);
    std::vector<RequestId> taken;
    while (!scheduler.empty()) taken.push_back(Take(scheduler, kDecode)[0]);
    std::vector<RequestId> expected;
    for (const RequestId first : {RequestId{0}, RequestId{10}}) {
      for (ClientId client = 1; client <= 4; ++client) {
        if (client != gone) expected.push_back(first + client);
      }
    }
    EXPECT_EQ(taken, expected) << gone;
  }
}

constexpr absl::Duration kBatch = absl::Milliseconds(16);

// Opens it after a batch and lets nobody come. Returns the gaps waited.
int GapsWithoutReturns(ReturnWindow& window) {
  window.Open(kBatch, 64);
  int gaps = 0;
  while (window.StaysOpen(0)) ++gaps;
  return gaps;
}

TEST(ReturnWindowTest, WaitsForAllASixteenthOfTheBatchAtATime) {
  ReturnWindow window;
  window.Open(kBatch, 64);
  ASSERT_TRUE(window.StaysOpen(10));
  EXPECT_EQ(window.wanted(), 64u);
  EXPECT_EQ(window.gap(), kBatch / 16);
  ASSERT_TRUE(window.StaysOpen(40));
  EXPECT_FALSE(window.StaysOpen(64));
}

TEST(ReturnWindowTest, DoesNotWaitForThoseWhoAreThere) {
  ReturnWindow window;
  window.Open(kBatch, 64);
  EXPECT_FALSE(window.StaysOpen(64));
  window.Open(kBatch, 1);
  EXPECT_FALSE(window.StaysOpen(2));
}

TEST(ReturnWindowTest, WaitsForNobodyWhenNobodyWasAnswered) {
  ReturnWindow window;
  window.Open(kBatch, 0);
  EXPECT_FALSE(window.StaysOpen(0));
}

TEST(ReturnWindowTest, ClosesWhenTooFewCome) {
  ReturnWindow window;
  window.Open(kBatch, 64);
  ASSERT_TRUE(window.StaysOpen(10));
  ASSERT_TRUE(window.StaysOpen(18));
  EXPECT_FALSE(window.StaysOpen(25));
}

TEST(ReturnWindowTest, ClosesAfterAQuarterOfTheTimeOfTheBatch) {
  ReturnWindow window;
  window.Open(kBatch, 64);
  size_t there = 0;
  for (int gap = 0; gap < 4; ++gap, there += 9) {
    ASSERT_TRUE(window.StaysOpen(there)) << gap;
  }
  EXPECT_FALSE(window.StaysOpen(there));
}

TEST(ReturnWindowTest, WaitsNotForBatchesTooShortAndNotLongerThanTwoMs) {
  ReturnWindow window;
  window.Open(absl::Microseconds(700), 64);
  EXPECT_FALSE(window.StaysOpen(0));
  window.Open(absl::Seconds(1), 64);
  ASSERT_TRUE(window.StaysOpen(0));
  EXPECT_EQ(window.gap(), absl::Milliseconds(2));
}

TEST(ReturnWindowTest, WaitsMoreSeldomWhileNobodyReturns) {
  ReturnWindow window;
  for (const int skipped : {1, 3, 7, 15, 31, 63, 63}) {
    ASSERT_EQ(GapsWithoutReturns(window), 1);
    for (int i = 0; i < skipped; ++i) {
      ASSERT_EQ(GapsWithoutReturns(window), 0) << i << " of " << skipped;
    }
  }
}

TEST(ReturnWindowTest, WaitsEachTimeAgainOnceSomeHaveReturned) {
  ReturnWindow window;
  ASSERT_EQ(GapsWithoutReturns(window), 1);
  ASSERT_EQ(GapsWithoutReturns(window), 0);
  window.Open(kBatch, 64);
  ASSERT_TRUE(window.StaysOpen(0));
  ASSERT_TRUE(window.StaysOpen(8));
  ASSERT_FALSE(window.StaysOpen(9));
  EXPECT_EQ(GapsWithoutReturns(window), 1);
  EXPECT_EQ(GapsWithoutReturns(window), 0);
  EXPECT_EQ(GapsWithoutReturns(window), 1);
}

}  // namespace
}  // namespace steadystate::scheduler_test
