// Goal: rounds are written in order and told of in order; those of a log that
// fails fail, and so does what was added behind them until it works again; the
// log is synced in its time, first where that is asked for, and answers wait
// for a sync that is late. Method: a store in memory that fails when it is told
// to, a clock that stands still, a thread held before it syncs.
#include "server/session/journal.h"

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::journal_test {
namespace {

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    journal_.emplace(store_, 5, absl::Seconds(1), clock_, metrics_,
                     [this](uint64_t first, uint64_t last) {
                       const MutexLock lock(mutex_);
                       failed_.emplace_back(first, last);
                     });
  }

  // -> the round's number.
  uint64_t Add(const std::string& content,
               Journal::Sync sync = Journal::Sync::kLater) {
    return journal_->Add(content, sync, [this](const absl::Status& status) {
      const MutexLock lock(mutex_);
      answers_.push_back(status);
      answered_.SignalAll();
    });
  }
  std::vector<absl::Status> Await(size_t answers) {
    const MutexLock lock(mutex_);
    while (answers_.size() < answers) answered_.Wait(mutex_);
    return answers_;
  }
  size_t answers() {
    const MutexLock lock(mutex_);
    return answers_.size();
  }
  std::vector<std::pair<uint64_t, uint64_t>> failed() {
    const MutexLock lock(mutex_);
    return failed_;
  }

  MemoryStore store_;
  ManualClock clock_;
  Metrics metrics_{"tiny"};
  Mutex mutex_;
  CondVar answered_;
  std::vector<absl::Status> answers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<uint64_t, uint64_t>> failed_ ABSL_GUARDED_BY(mutex_);
  std::optional<Journal> journal_;
};

TEST_F(JournalTest, RoundsAreWrittenInOrder) {
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(Add("round"), 5 + i);
  for (const absl::Status& status : Await(100)) EXPECT_TRUE(status.ok());
  EXPECT_EQ(store_.rounds(), 100u);
  EXPECT_EQ(journal_->next_round(), 105u);
  EXPECT_TRUE(journal_->Health().ok());
}

TEST_F(JournalTest, ARoundOfNothingIsNotWritten) {
  Add("something");
  Add("");
  Await(2);
  EXPECT_EQ(store_.rounds(), 1u);
}

TEST_F(JournalTest, WhatWasAddedIsWrittenBeforeTheEnd) {
  {
    ThreadHold hold("Journal::WriteLoop");
    Add("first");
    hold.WaitUntilHeld();
    for (int i = 0; i < 10; ++i) Add("later");
    hold.Release();
    journal_.reset();
  }
  EXPECT_EQ(answers(), 11u);
  EXPECT_EQ(store_.rounds(), 11u);
}

TEST_F(JournalTest, WhatFailsIsToldAndTriedAgainLater) {
  store_.FailLog(true);
  const uint64_t first = Add("lost");
  EXPECT_EQ(Await(1)[0].code(), absl::StatusCode::kUnavailable);
  ASSERT_FALSE(failed().empty());
  EXPECT_EQ(failed()[0].first, 0u);  // what was not synced is in doubt as well
  EXPECT_GE(failed()[0].second, first);
  EXPECT_TRUE(journal_->failing());
  store_.FailLog(false);
  // Not before its time; and whoever has come meanwhile fails, too.
  const uint64_t second = Add("early");
  EXPECT_FALSE(Await(2)[1].ok());
  EXPECT_GE(failed().back().second, second);
  clock_.Advance(absl::Seconds(1));
  while (journal_->failing()) std::this_thread::yield();
  Add("late");
  EXPECT_TRUE(Await(3)[2].ok());
}

TEST_F(JournalTest, KnowsWhatIsSafeFromALossOfPower) {
  const uint64_t first = Add("written");
  Await(1);
  EXPECT_LT(journal_->synced(), first);
  const uint64_t second = Add("synced", Journal::Sync::kFirst);
  Await(2);
  EXPECT_EQ(journal_->synced(), second);
  const uint64_t third = Add("later");
  Await(3);
  EXPECT_EQ(journal_->synced(), second);
  clock_.Advance(absl::Seconds(1));
  while (journal_->synced() < third) std::this_thread::yield();
  // What was not synced when the log failed may be lost, whatever is synced
  // then.
  const uint64_t lost = Add("lost");
  Await(4);
  store_.FailLog(true);
  Add("fails");
  EXPECT_FALSE(Await(5)[4].ok());
  store_.FailLog(false);
  clock_.Advance(absl::Seconds(1));
  while (journal_->failing()) std::this_thread::yield();
  EXPECT_LT(journal_->synced(), lost);
  const uint64_t last = Add("synced", Journal::Sync::kFirst);
  Await(6);
  EXPECT_EQ(journal_->synced(), last);
}

TEST_F(JournalTest, ARoundThatAsksForItIsSyncedFirst) {
  ThreadHold hold("MemoryStore::SyncRounds");
  Add("synced", Journal::Sync::kFirst);
  hold.WaitUntilHeld();
  EXPECT_EQ(answers(), 0u);
  hold.Release();
  Await(1);
  store_.LosePower();
  EXPECT_EQ(store_.rounds(), 1u);
  store_.FailLogSyncs(true);
  Add("not synced", Journal::Sync::kFirst);
  EXPECT_FALSE(Await(2)[1].ok());
  // Nobody knows what is left of what was not synced.
  EXPECT_EQ(failed().back().first, 0u);
}

TEST_F(JournalTest, TheLogIsSyncedInItsTime) {
  Add("round");
  Await(1);
  store_.LosePower();
  EXPECT_EQ(store_.rounds(), 0u);
  Add("round");
  Await(2);
  clock_.Advance(absl::Seconds(1));
  // By what a loss of power leaves.
  size_t left = 0;
  while (left == 0) {
    std::this_thread::yield();
    left = store_.synced_rounds();
  }
  store_.LosePower();
  EXPECT_EQ(store_.rounds(), 1u);
}

TEST_F(JournalTest, AnswersWaitForASyncThatIsLate) {
  ThreadHold hold("MemoryStore::SyncRounds");
  Add("first");
  Await(1);
  clock_.Advance(absl::Seconds(2));
  Add("second");
  Await(2);
  clock_.Advance(absl::Milliseconds(1));
  Add("third");
  hold.WaitUntilHeld();
  while (store_.rounds() < 3) std::this_thread::yield();
  EXPECT_EQ(answers(), 2u);
  hold.Release();
  EXPECT_TRUE(Await(3)[2].ok());
}

}  // namespace
}  // namespace steadystate::journal_test
