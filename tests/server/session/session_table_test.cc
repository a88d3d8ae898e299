// Goal: sessions are found, listed and expire as the contract says. Method: the
// time is an argument, so every expiry is exact.
#include "server/session/session_table.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/session/prefix.h"
#include "server/session/session_id.h"

namespace steadystate::session_table_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kTtl = absl::Hours(1);
constexpr absl::Duration kTick = absl::Nanoseconds(1);

SessionOptions Named(const std::string& id) {
  SessionOptions options;
  options.id = id;
  return options;
}

// Time passes by both clocks.
Moment operator+(const Moment& moment, absl::Duration by) {
  return {.steady = moment.steady + by, .wall = moment.wall + by};
}

Moment operator-(const Moment& moment, absl::Duration by) {
  return moment + -by;
}

// Somebody sets the time of day.
Moment Set(const Moment& moment, absl::Duration by) {
  return {.steady = moment.steady, .wall = moment.wall + by};
}

StateLayout MakeLayout() {
  StateLayoutBuilder builder;
  EXPECT_TRUE(builder.AddFixed(0, "S", {4, 4}).ok());
  return std::move(builder).Build();
}

class SessionTableTest : public testing::Test {
 protected:
  Session& Make(const std::string& id, const Moment& now) {
    const absl::Status status = table_.CheckNew(Named(id));
    EXPECT_TRUE(status.ok()) << status;
    return table_.Add(Named(id), now);
  }

  ErrorReason FindError(const std::string& id, const Moment& now) {
    const auto details = GetErrorDetails(table_.Find(id, now).status());
    return details.has_value() ? details->reason : ErrorReason::kInternal;
  }

  std::vector<std::string> TakeExpired(const Moment& now, size_t max = 1000) {
    std::vector<std::string> ids;
    for (const auto& session : table_.TakeExpired(now, max, in_use_)) {
      ids.push_back(session->id);
    }
    return ids;
  }

  const Moment start_ = {.steady = SteadyTime::FromZero(absl::Hours(7)),
                         .wall = absl::FromUnixSeconds(1'780'000'000)};
  StateLayout state_layout_ = MakeLayout();
  SessionLayout layout_{state_layout_, 8, 16};
  SessionTable table_{layout_, kTtl, 2};
  std::vector<Session*> in_use_;  // as TakeExpired tells them
};

TEST_F(SessionTableTest, DescribesWhatItMade) {
  SessionOptions options;
  options.ttl = absl::Minutes(5);
  options.labels = {{"a", "b"}};
  ASSERT_TRUE(table_.CheckNew(options).ok());
  Session& created = table_.Add(options, start_);
  const SessionInfo info = table_.Describe(created, start_);
  EXPECT_EQ(info.id.size(), 26u);
  EXPECT_EQ(info.position, 0u);
  EXPECT_EQ(info.state_bytes, layout_.charge_bytes());
  EXPECT_EQ(info.tier, SessionTier::kElsewhere);
  EXPECT_FALSE(info.active);
  EXPECT_EQ(info.create_time, start_.wall);
  EXPECT_EQ(info.last_step_time, start_.wall);
  EXPECT_EQ(info.ttl, absl::Minutes(5));
  EXPECT_EQ(info.expire_time, start_.wall + absl::Minutes(5));
  EXPECT_THAT(info.labels, ElementsAre(testing::Pair("a", "b")));
  EXPECT_EQ(*table_.Find(info.id, start_), &created);
}

TEST_F(SessionTableTest, RefusesBadOptions) {
  SessionOptions bad_ttl;
  bad_ttl.ttl = absl::ZeroDuration();
  SessionOptions bad_label;
  bad_label.labels = {{"", ""}};
  for (const SessionOptions& options : {Named("A"), bad_ttl, bad_label}) {
    const auto details = GetErrorDetails(table_.CheckNew(options));
    ASSERT_TRUE(details.has_value());
    EXPECT_EQ(details->reason, ErrorReason::kInvalidArgument);
  }
  Make("a", start_);
  const auto taken = GetErrorDetails(table_.CheckNew(Named("a")));
  EXPECT_EQ(taken->reason, ErrorReason::kSessionAlreadyExists);
}

TEST_F(SessionTableTest, CountsSessionsApartFromWhatIsKept) {
  SessionOptions checkpoint;
  checkpoint.id = CheckpointId("c");
  Session& kept = table_.Add(std::move(checkpoint), start_);
  Session& session = Make("a", start_);
  EXPECT_EQ(table_.count(SessionKind::kSession).all, 1u);
  EXPECT_EQ(table_.count(SessionKind::kCheckpoint).all, 1u);
  EXPECT_EQ(table_.count(SessionKind::kKeptPrompt).all, 0u);
  table_.SetActive(session, start_);
  table_.SetActive(kept, start_);
  EXPECT_EQ(table_.count(SessionKind::kSession).active, 1u);
  EXPECT_EQ(table_.count(SessionKind::kCheckpoint).active, 1u);
  table_.SetIdle(kept, start_);
  EXPECT_EQ(table_.count(SessionKind::kCheckpoint).active, 0u);
  table_.Remove(kept);
  table_.Remove(session);
  EXPECT_EQ(table_.count(SessionKind::kSession).all, 0u);
  EXPECT_EQ(table_.count(SessionKind::kSession).active, 0u);
  EXPECT_EQ(table_.count(SessionKind::kCheckpoint).all, 0u);
}

TEST_F(SessionTableTest, OwnersMayUseTheSameId) {
  const Session& nobodys = Make("a", start_);
  SessionOptions options = Named("a");
  options.owner = "ann";
  ASSERT_TRUE(table_.CheckNew(options).ok());
  Session& anns = table_.Add(options, start_);
  EXPECT_EQ(*table_.Find("a", start_), &nobodys);
  EXPECT_EQ(*table_.Find({"a", "ann"}, start_), &anns);
  EXPECT_FALSE(table_.CheckNew(options).ok());
  EXPECT_FALSE(table_.Find({"a", "bob"}, start_).ok());
  EXPECT_EQ(table_.List({.owner = "ann"}, 10, "", start_)->sessions.size(), 1u);
  EXPECT_EQ(table_.List({}, 10, "", start_)->sessions.size(), 1u);
  EXPECT_EQ(table_.List({.owner = "bob"}, 10, "", start_)->sessions.size(), 0u);
  // One that expires leaves the other's alone.
  anns.ttl = kTick;
  EXPECT_THAT(TakeExpired(start_ + kTtl / 2), IsEmpty());
  table_.SetActive(anns, start_);
  table_.SetIdle(anns, start_);
  EXPECT_THAT(TakeExpired(start_ + kTtl / 2), ElementsAre("a"));
  EXPECT_EQ(*table_.Find("a", start_ + kTick), &nobodys);
  const auto expired = table_.Find({"a", "ann"}, start_ + kTtl / 2);
  EXPECT_EQ(GetErrorDetails(expired.status())->reason,
            ErrorReason::kSessionExpired);
}

TEST_F(SessionTableTest, TellsExpiredFromUnknownAndDeleted) {
  Make("a", start_);
  Session& b = Make("b", start_);
  table_.Remove(b);
  EXPECT_EQ(FindError("b", start_), ErrorReason::kSessionNotFound);
  EXPECT_EQ(FindError("never", start_), ErrorReason::kSessionNotFound);
  EXPECT_TRUE(table_.Find("a", start_ + kTtl - kTick).ok());
  // Expired to the tick, whether taken yet or not.
  EXPECT_EQ(FindError("a", start_ + kTtl), ErrorReason::kSessionExpired);
  EXPECT_THAT(TakeExpired(start_ + kTtl), ElementsAre("a"));
  const absl::Status status = table_.Find("a", start_ + 2 * kTtl).status();
  const auto details = GetErrorDetails(status);
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->reason, ErrorReason::kSessionExpired);
  EXPECT_THAT(details->metadata, testing::Contains(testing::Pair(
                                     "expire_time", "2026-05-28T21:26:40Z")))
      << status;
}

TEST_F(SessionTableTest, ExpiryRunsFromTheLastStep) {
  Session& a = Make("a", start_);
  Make("b", start_ + kTick);
  a.last_step = start_ + kTtl / 2;
  EXPECT_LE(table_.NextExpiry(), start_.steady + kTtl + kTick);
  EXPECT_THAT(TakeExpired(start_ + kTtl + kTick), ElementsAre("b"));
  EXPECT_EQ(table_.NextExpiry(), start_.steady + kTtl / 2 + kTtl);
  EXPECT_THAT(TakeExpired(start_ + kTtl + kTtl / 2 - kTick), IsEmpty());
  EXPECT_THAT(TakeExpired(start_ + kTtl + kTtl / 2), ElementsAre("a"));
  EXPECT_EQ(table_.NextExpiry(), SteadyTime::InfiniteFuture());
}

TEST_F(SessionTableTest, SettingTheTimeOfDayMovesNoExpiry) {
  const Session& session = Make("a", start_);
  for (const absl::Duration by : {absl::Hours(2), -absl::Hours(2)}) {
    const Moment before = Set(start_ + kTtl - kTick, by);
    EXPECT_TRUE(table_.Find("a", before).ok());
    EXPECT_EQ(table_.List({}, 10, "", before)->sessions.size(), 1u);
    EXPECT_THAT(TakeExpired(before), IsEmpty());
    EXPECT_EQ(FindError("a", Set(start_ + kTtl, by)),
              ErrorReason::kSessionExpired);
    // What is shown goes by the time as it is now.
    const SessionInfo info = table_.Describe(session, before);
    EXPECT_EQ(info.expire_time, start_.wall + kTtl + by);
    EXPECT_EQ(info.create_time, start_.wall);
  }
  // Clocks that are read one after the other are not taken for set ones.
  EXPECT_EQ(
      table_.Describe(session, Set(start_, absl::Milliseconds(1))).expire_time,
      start_.wall + kTtl);
}

TEST_F(SessionTableTest, TheExpiredCanBeTakenOneByOne) {
  for (int i = 0; i < 3; ++i)
    Make(std::string(1, static_cast<char>('a' + i)), start_ + i * kTick);
  const Moment end = start_ + 2 * kTtl;
  EXPECT_THAT(TakeExpired(end, 1), ElementsAre("a"));
  EXPECT_LE(table_.NextExpiry(), end.steady);
  EXPECT_EQ(FindError("b", end), ErrorReason::kSessionExpired);
  EXPECT_THAT(TakeExpired(end, 2), ElementsAre("b", "c"));
}

// However many were used since they were due: whoever holds the lock meanwhile
// does not hold it for all of them.
TEST_F(SessionTableTest, NoMoreAreLookedAtThanAskedFor) {
  Session& a = Make("a", start_);
  Session& b = Make("b", start_);
  Make("c", start_ + kTick);
  for (Session* used : {&a, &b}) {
    table_.SetActive(*used, start_);
    table_.SetIdle(*used, start_ + 2 * kTick);
  }
  const Moment end = start_ + kTtl + kTick;
  EXPECT_THAT(TakeExpired(end, 1), IsEmpty());
  EXPECT_EQ(table_.NextExpiry(), (start_ + kTtl).steady);
  EXPECT_THAT(TakeExpired(end, 1), IsEmpty());
  EXPECT_EQ(table_.NextExpiry(), end.steady);
  EXPECT_THAT(TakeExpired(end, 1), ElementsAre("c"));
  EXPECT_EQ(table_.NextExpiry(), (start_ + kTtl + 2 * kTick).steady);
}

TEST_F(SessionTableTest, WhoIsActiveDoesNotExpire) {
  Session& a = Make("a", start_);
  table_.SetActive(a, start_);
  EXPECT_EQ(table_.active(), 1u);
  EXPECT_THAT(TakeExpired(start_ + 2 * kTtl), IsEmpty());
  EXPECT_TRUE(table_.Find("a", start_ + 2 * kTtl).ok());
  // Idle from now on, whatever was completed meanwhile.
  table_.SetIdle(a, start_ + 2 * kTtl);
  EXPECT_EQ(table_.active(), 0u);
  EXPECT_EQ(table_.Describe(a, start_ + 2 * kTtl).last_step_time,
            (start_ + 2 * kTtl).wall);
  EXPECT_THAT(TakeExpired(start_ + 3 * kTtl - kTick), IsEmpty());
  EXPECT_TRUE(table_.Find("a", start_ + 3 * kTtl - kTick).ok());
  EXPECT_EQ(FindError("a", start_ + 3 * kTtl), ErrorReason::kSessionExpired);
  EXPECT_THAT(TakeExpired(start_ + 3 * kTtl), ElementsAre("a"));
}

TEST_F(SessionTableTest, WhoIsInUseIsToldAgainAndAgain) {
  SessionTable table(layout_, kTtl, 2, /*stored=*/true);
  Session& a = table.Add(Named("a"), start_);
  const absl::Duration apart = kTtl / SessionTable::kLooksInTtl;
  const auto told = [&](const Moment& now) {
    std::vector<Session*> in_use;
    EXPECT_THAT(table.TakeExpired(now, 1000, in_use), IsEmpty());
    return in_use;
  };
  const Moment used = start_ + kTtl / 2;
  table.SetActive(a, used);
  for (int times = 1; times <= 40; ++times) {
    const Moment due = used + times * apart;
    EXPECT_EQ(table.NextExpiry(), due.steady);
    EXPECT_THAT(told(due + -kTick), IsEmpty());
    EXPECT_THAT(told(due), ElementsAre(&a));
  }
  // Steps that follow each other change no order.
  const Moment end = used + 40 * apart;
  const SteadyTime next = table.NextExpiry();
  for (int steps = 0; steps < 3; ++steps) {
    table.SetIdle(a, end);
    EXPECT_EQ(table.NextExpiry(), next);
    table.SetActive(a, end);
    EXPECT_EQ(table.NextExpiry(), next);
  }
  table.SetIdle(a, end);
  EXPECT_THAT(told(end + kTtl + -kTick), IsEmpty());
  std::vector<Session*> in_use;
  EXPECT_EQ(table.TakeExpired(end + kTtl, 1000, in_use).size(), 1u);
  EXPECT_THAT(in_use, IsEmpty());
}

TEST_F(SessionTableTest, AnIdOfAnExpiredSessionCanBeUsedAgain) {
  Make("a", start_);
  TakeExpired(start_ + kTtl);
  Session& again = Make("a", start_ + kTtl);
  EXPECT_TRUE(table_.Find("a", start_ + kTtl).ok());
  table_.Remove(again);
  EXPECT_EQ(FindError("a", start_ + kTtl), ErrorReason::kSessionNotFound);
}

TEST_F(SessionTableTest, RemembersExpiredIdsUpToItsBound) {
  for (const char* id : {"a", "b", "c"}) Make(id, start_);
  TakeExpired(start_ + kTtl);
  int expired = 0;
  for (const char* id : {"a", "b", "c"}) {
    expired += FindError(id, start_ + kTtl) == ErrorReason::kSessionExpired;
  }
  EXPECT_EQ(expired, 2);
}

TEST_F(SessionTableTest, ListsByIdInPages) {
  for (const char* id : {"e", "b", "d", "a", "c"}) Make(id, start_);
  std::vector<std::string> ids;
  std::string token;
  std::vector<size_t> sizes;
  do {
    auto page = table_.List({}, 2, token, start_);
    ASSERT_TRUE(page.ok());
    sizes.push_back(page->sessions.size());
    for (const SessionInfo& info : page->sessions) ids.push_back(info.id);
    token = page->next_page_token;
  } while (!token.empty());
  EXPECT_THAT(ids, ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(sizes, ElementsAre(2u, 2u, 1u));
}

TEST_F(SessionTableTest, FewMatchesAmongManyComeInSeveralPages) {
  constexpr int kSessions = 10'000;
  for (int i = 0; i < kSessions; ++i) {
    Make(absl::StrCat("s", absl::Dec(i, absl::kZeroPad5)), start_);
  }
  std::vector<std::string> ids;
  std::string token;
  int pages = 0;
  do {
    auto page = table_.List({.pattern = "*777"}, 100, token, start_);
    ASSERT_TRUE(page.ok());
    for (const SessionInfo& info : page->sessions) ids.push_back(info.id);
    token = page->next_page_token;
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(ids.size(), 10u);
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_EQ(pages, 3);
}

TEST_F(SessionTableTest, PagesGoOnAfterTheirLastSessionIsGone) {
  for (const char* id : {"a", "b", "c"}) Make(id, start_);
  const auto first = table_.List({}, 2, "", start_);
  table_.Remove(**table_.Find("b", start_));
  const auto second = table_.List({}, 2, first->next_page_token, start_);
  ASSERT_EQ(second->sessions.size(), 1u);
  EXPECT_EQ(second->sessions[0].id, "c");
  EXPECT_EQ(second->next_page_token, "");
}

TEST_F(SessionTableTest, ListLeavesOutTheExpiredAndChecksItsArguments) {
  Make("a", start_);
  Make("b", start_ + kTick);
  const auto page = table_.List({}, 1000, "", start_ + kTtl);
  ASSERT_EQ(page->sessions.size(), 1u);
  EXPECT_EQ(page->sessions[0].id, "b");
  for (const size_t size : {size_t{0}, kMaxPageSize + 1}) {
    const auto details =
        GetErrorDetails(table_.List({}, size, "", start_).status());
    EXPECT_EQ(details->reason, ErrorReason::kInvalidArgument);
  }
  const auto details =
      GetErrorDetails(table_.List({}, 1, "nonsense", start_).status());
  EXPECT_EQ(details->reason, ErrorReason::kInvalidPageToken);
}

}  // namespace
}  // namespace steadystate::session_table_test
