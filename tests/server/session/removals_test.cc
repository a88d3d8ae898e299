// Goal: what leaves a store is told to its log first, and to the database when
// that is safe; who waits is told when it is gone, or that it may not be, and
// then the name is nobody else's until it is. Method: the stages, one after the
// other, as the keeper's thread and the journal go through them.
#include "server/session/removals.h"

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/error.h"

namespace steadystate::removals_test {
namespace {

using Removal = Removals::Removal;

const absl::Status& Broken() {
  static const absl::Status status =
      MakeError(ErrorReason::kStoreUnavailable, "broken");
  return status;
}

StateLayout MakeLayout() {
  StateLayoutBuilder builder;
  EXPECT_TRUE(builder.AddFixed(0, "S", {4, 4}).ok());
  return std::move(builder).Build();
}

class RemovalsTest : public testing::Test {
 protected:
  // -> what is told to who waits for it.
  std::vector<bool>& Add(uint64_t uid, const std::string& id, bool logged,
                         uint64_t needs = Removals::kNoRound) {
    removals_.Add({.uid = {uid, 0},
                   .name = NameOf(id),
                   .keeps_name = true,
                   .logged = logged,
                   .needs = needs},
                  Waiter());
    return *answers_.back();
  }
  Removals::Removed Waiter() {
    answers_.push_back(std::make_shared<std::vector<bool>>());
    return [answer = answers_.back()](const absl::Status& status) {
      answer->push_back(status.ok());
    };
  }

  std::vector<uint64_t> Log(uint64_t round, const absl::Status& status) {
    std::vector<uint64_t> uids;
    for (const Removal& one : removals_.BeginLogging(100)) {
      uids.push_back(one.uid[0]);
    }
    removals_.LoggedBy(round);
    EXPECT_FALSE(removals_.may_log());
    removals_.Logged(status, told_);
    told_.Tell();
    return uids;
  }
  std::vector<uint64_t> Drop(uint64_t synced, const absl::Status& status) {
    Removals::Batch batch = removals_.TakeToDrop(100, synced);
    std::vector<uint64_t> uids;
    for (const Removal& one : batch) uids.push_back(one.uid[0]);
    removals_.Dropped(std::move(batch), status, told_);
    told_.Tell();
    return uids;
  }

  const StateLayout state_ = MakeLayout();
  const SessionLayout layout_{state_, 4, 8};
  SessionTable table_{layout_, absl::Hours(1), 4};
  Removals removals_{table_};
  Removals::Told told_;
  std::vector<std::shared_ptr<std::vector<bool>>> answers_;
};

using Uids = std::vector<uint64_t>;
using Answers = std::vector<bool>;

TEST_F(RemovalsTest, TheLogKnowsFirstAndTheDatabaseForgetsWhenThatIsSafe) {
  const Answers& answer = Add(1, "a", /*logged=*/true);
  EXPECT_FALSE(removals_.may_drop(100));
  EXPECT_EQ(Log(5, absl::OkStatus()), Uids{1});
  EXPECT_EQ(answer, Answers{true});
  EXPECT_FALSE(removals_.may_drop(4));
  EXPECT_EQ(Drop(4, absl::OkStatus()), Uids());
  EXPECT_EQ(Drop(5, absl::OkStatus()), Uids{1});
  EXPECT_FALSE(removals_.may_drop(100));
}

TEST_F(RemovalsTest, WhatNoLogKnowsLeavesTheDatabase) {
  const Answers& answer = Add(1, "a", /*logged=*/false);
  EXPECT_FALSE(removals_.may_log());
  EXPECT_EQ(answer, Answers());
  EXPECT_EQ(Drop(0, absl::OkStatus()), Uids{1});
  EXPECT_EQ(answer, Answers{true});
}

TEST_F(RemovalsTest, WhatFailsIsToldTriedAgainAndKeepsItsName) {
  for (const bool logged : {true, false}) {
    const Answers& answer = Add(1, "a", logged);
    EXPECT_TRUE(table_.CheckFree("a").ok());
    logged ? Log(5, Broken()) : Drop(0, Broken());
    EXPECT_EQ(answer, Answers{false});
    for (const absl::Status& status :
         {table_.CheckFree("a"), table_.Find("a", Moment()).status()}) {
      const auto details = GetErrorDetails(status);
      ASSERT_TRUE(details.has_value());
      EXPECT_EQ(details->reason, ErrorReason::kStoreUnavailable);
      EXPECT_TRUE(details->retry_after.has_value());
    }
    EXPECT_TRUE(table_.CheckFree("b").ok());
    // Whoever asks again waits for the next attempt.
    Removals::Removed again = Waiter();
    EXPECT_TRUE(removals_.Join("a", again));
    const Answers& second = *answers_.back();
    EXPECT_EQ(logged ? Log(6, absl::OkStatus()) : Drop(0, absl::OkStatus()),
              Uids{1});
    EXPECT_EQ(second, Answers{true});
    EXPECT_TRUE(table_.CheckFree("a").ok());
    Drop(6, absl::OkStatus());
    again = Waiter();
    EXPECT_FALSE(removals_.Join("a", again));
    EXPECT_TRUE(again);
  }
}

TEST_F(RemovalsTest, WhoDeletesANameWaitsForAllThatHadIt) {
  const Answers& first = Add(1, "a", /*logged=*/false);
  const Answers& second = Add(2, "a", /*logged=*/true);
  Log(5, absl::OkStatus());
  EXPECT_EQ(second, Answers());
  Drop(0, absl::OkStatus());
  EXPECT_EQ(first, Answers{true});
  EXPECT_EQ(second, Answers{true});
  // One that fails fails those who came later, too.
  const Answers& third = Add(3, "a", /*logged=*/false);
  const Answers& fourth = Add(4, "a", /*logged=*/true);
  const Answers& other = Add(5, "b", /*logged=*/true);
  Drop(0, Broken());
  EXPECT_EQ(third, Answers{false});
  EXPECT_EQ(fourth, Answers{false});
  EXPECT_EQ(other, Answers());
}

TEST_F(RemovalsTest, RoundsThatTellOfThemAreNeededUntilTheyAreGone) {
  EXPECT_EQ(removals_.FirstNeeded(), Removals::kNoRound);
  Add(1, "a", /*logged=*/true, /*needs=*/3);
  Add(2, "b", /*logged=*/true);
  EXPECT_EQ(removals_.FirstNeeded(), 3u);
  Log(7, absl::OkStatus());
  EXPECT_EQ(removals_.FirstNeeded(), 7u);
  Drop(7, Broken());
  EXPECT_EQ(removals_.FirstNeeded(), 7u);
  Drop(7, absl::OkStatus());
  EXPECT_EQ(removals_.FirstNeeded(), Removals::kNoRound);
}

// Between the log's writing it and its saying so the log may be cut.
TEST_F(RemovalsTest, ARoundThatTellsOfThemIsNeededAtOnce) {
  Add(1, "a", true);
  Add(2, "b", true, 6);
  ASSERT_EQ(removals_.BeginLogging(1).size(), 1u);
  removals_.LoggedBy(5);
  EXPECT_EQ(removals_.FirstNeeded(), 5u);
  removals_.Logged(Broken(), told_);
  ASSERT_EQ(removals_.BeginLogging(2).size(), 2u);
  removals_.LoggedBy(8);
  removals_.Logged(absl::OkStatus(), told_);
  EXPECT_EQ(removals_.FirstNeeded(), 8u);
  Drop(8, absl::OkStatus());
  EXPECT_EQ(removals_.FirstNeeded(), Removals::kNoRound);
}

TEST_F(RemovalsTest, WhatTheLogMayHaveLostItIsToldAgain) {
  const Answers& first = Add(1, "a", /*logged=*/true);
  Log(5, absl::OkStatus());
  Add(2, "b", /*logged=*/true);
  Log(6, absl::OkStatus());
  removals_.Break(0, 5);
  // That it is told again concerns nobody who has come since.
  const Answers& later = Add(3, "a", /*logged=*/false);
  EXPECT_EQ(Log(8, Broken()), Uids{1});
  EXPECT_EQ(later, Answers());
  EXPECT_EQ(Log(9, absl::OkStatus()), Uids{1});
  EXPECT_EQ(first, Answers{true});
  EXPECT_EQ(Drop(9, absl::OkStatus()), (Uids{3, 2, 1}));
}

TEST_F(RemovalsTest, WhileNothingIsTriedNobodyIsKeptWaiting) {
  const Answers& logged = Add(1, "a", /*logged=*/true);
  const Answers& stored = Add(2, "b", /*logged=*/false);
  EXPECT_TRUE(removals_.new_waiter());
  removals_.FailDropping(Broken(), told_);
  told_.Tell();
  EXPECT_EQ(logged, Answers());
  EXPECT_EQ(stored, Answers{false});
  // What is with the log is being tried.
  removals_.BeginLogging(100);
  removals_.FailLogging(Broken(), told_);
  told_.Tell();
  EXPECT_EQ(logged, Answers());
  removals_.Logged(Broken(), told_);
  removals_.ForgetNewWaiters();
  EXPECT_FALSE(removals_.new_waiter());
}

}  // namespace
}  // namespace steadystate::removals_test
