// Goal: whoever reads events on from a number gets each that is wanted once, in
// order, or is told that some are forgotten. Method: small rings that wrap; one
// that several threads add to and read.
#include "server/session/session_events.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/error.h"

namespace steadystate::session_events_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SessionEvent Of(const std::string& id, uint64_t position = 0,
                const std::string& owner = "") {
  SessionEvent event;
  event.owner = owner;
  event.id = id;
  event.position = position;
  return event;
}

ErrorReason ReasonOf(const absl::Status& status) {
  const auto details = GetErrorDetails(status);
  return details.has_value() ? details->reason : ErrorReason::kInternal;
}

std::string CursorIn(const absl::Status& status) {
  const auto details = GetErrorDetails(status);
  if (!details.has_value() || details->metadata.empty()) return "";
  EXPECT_EQ(details->metadata[0].first, "cursor");
  return details->metadata[0].second;
}

// The ids of a page's events.
std::vector<std::string> Ids(const absl::StatusOr<SessionEvents::Page>& page) {
  EXPECT_TRUE(page.ok()) << page.status();
  std::vector<std::string> ids;
  if (!page.ok()) return ids;
  for (const SessionEvent& event : page->events) ids.push_back(event.id);
  return ids;
}

TEST(SessionEventsTest, AreReadOnFromANumber) {
  SessionEvents events;
  EXPECT_EQ(events.next(), 0u);
  EXPECT_THAT(Ids(events.Read({}, 0, 10)), IsEmpty());
  for (const char* id : {"a", "b", "c"}) events.Add(Of(id));
  auto page = events.Read({}, 0, 2);
  EXPECT_THAT(Ids(page), ElementsAre("a", "b"));
  EXPECT_TRUE(page->more);
  page = events.Read({}, page->next, 2);
  EXPECT_THAT(Ids(page), ElementsAre("c"));
  EXPECT_FALSE(page->more);
  EXPECT_EQ(page->next, 3u);
  EXPECT_THAT(Ids(events.Read({}, page->next, 2)), IsEmpty());
}

TEST(SessionEventsTest, KeepWhatTheyAreGiven) {
  SessionEvents events;
  SessionEvent event = Of("child", 7, "ada");
  event.kind = SessionEventKind::kForked;
  event.parent = "parent";
  event.uid = {1, 2};
  event.time = absl::FromUnixSeconds(3);
  events.Add(event);
  const auto page = events.Read({.owner = "ada", .id = ""}, 0, 10);
  ASSERT_EQ(page->events.size(), 1u);
  const SessionEvent& read = page->events[0];
  EXPECT_EQ(read.kind, SessionEventKind::kForked);
  EXPECT_EQ(read.parent, "parent");
  EXPECT_EQ(read.position, 7u);
  EXPECT_EQ(read.uid, event.uid);
  EXPECT_EQ(read.time, event.time);
}

TEST(SessionEventsTest, OthersAreNotSeen) {
  SessionEvents events;
  events.Add(Of("a", 0, "ada"));
  events.Add(Of("a", 0, "eve"));
  events.Add(Of("b", 0, "ada"));
  events.Add(Of("a"));
  EXPECT_THAT(Ids(events.Read({.owner = "ada", .id = ""}, 0, 10)),
              ElementsAre("a", "b"));
  EXPECT_THAT(Ids(events.Read({.owner = "ada", .id = "b"}, 0, 10)),
              ElementsAre("b"));
  EXPECT_THAT(Ids(events.Read({}, 0, 10)), ElementsAre("a"));
  const auto none = events.Read({.owner = "bob", .id = ""}, 0, 10);
  EXPECT_THAT(Ids(none), IsEmpty());
  EXPECT_EQ(none->next, 4u);
}

TEST(SessionEventsTest, LooksAreBounded) {
  SessionEvents events;
  for (int i = 0; i < 200; ++i) events.Add(Of("other"));
  events.Add(Of("mine"));
  auto page = events.Read({.owner = "", .id = "mine"}, 0, 10, 100);
  EXPECT_THAT(Ids(page), IsEmpty());
  EXPECT_EQ(page->next, 100u);
  EXPECT_TRUE(page->more);
  page = events.Read({.owner = "", .id = "mine"}, page->next, 10);
  EXPECT_THAT(Ids(page), ElementsAre("mine"));
  EXPECT_FALSE(page->more);
}

TEST(SessionEventsTest, TheOldestAreForgotten) {
  SessionEvents events(3);
  for (int i = 0; i < 5; ++i) events.Add(Of(absl::StrCat(i)));
  const absl::Status forgotten = events.Read({}, 1, 10).status();
  EXPECT_EQ(ReasonOf(forgotten), ErrorReason::kCursorExpired);
  EXPECT_EQ(CursorIn(forgotten), events.CursorOf(1));
  EXPECT_THAT(Ids(events.Read({}, 2, 10)), ElementsAre("2", "3", "4"));
  EXPECT_THAT(Ids(events.Read({}, 5, 10)), IsEmpty());
}

TEST(SessionEventsTest, ACursorStandsForANumberOfThisRun) {
  SessionEvents events;
  for (int i = 0; i < 3; ++i) events.Add(Of(absl::StrCat(i)));
  for (uint64_t number = 0; number <= 3; ++number) {
    const std::string cursor = events.CursorOf(number);
    EXPECT_EQ(cursor.size(), 32u);
    const auto parsed = events.Parse(cursor);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, number);
  }
  const absl::Status other = SessionEvents().Parse(events.CursorOf(0)).status();
  EXPECT_EQ(ReasonOf(other), ErrorReason::kCursorExpired);
  EXPECT_EQ(CursorIn(other), events.CursorOf(0));
}

TEST(SessionEventsTest, WhatIsNoCursorIsRefused) {
  SessionEvents events;
  const std::string good = events.CursorOf(0);
  for (const std::string& text :
       {std::string("x"), good.substr(1), good + "0", std::string(32, 'g'),
        std::string(32, ' '), std::string(1000, '0'), std::string(32, '\xff'),
        events.CursorOf(1), "0x" + good.substr(2), "-" + good.substr(1)}) {
    const absl::Status status = events.Parse(text).status();
    EXPECT_EQ(ReasonOf(status), ErrorReason::kInvalidArgument) << text;
    EXPECT_LT(status.message().size(), 500u);
  }
}

class CountingListener final : public SessionEvents::Listener {
 public:
  void OnEvent() override { ++count; }
  std::atomic<int> count = 0;
};

TEST(SessionEventsTest, ListenersAreToldUntilTheyAreRemoved) {
  SessionEvents events;
  CountingListener one;
  CountingListener other;
  events.AddListener(one);
  events.Add(Of("a"));
  events.AddListener(other);
  events.Add(Of("b"));
  events.RemoveListener(one);
  events.Add(Of("c"));
  events.RemoveListener(other);
  events.Add(Of("d"));
  EXPECT_EQ(one.count, 2);
  EXPECT_EQ(other.count, 2);
}

// Of each thread that adds, a reader sees all in order, or is told. -> how many
// it has seen
uint64_t ReadWhileThreadsAdd(SessionEvents& events, int adding, uint64_t each) {
  std::vector<std::thread> threads;
  std::atomic<int> ended = 0;
  for (int thread = 0; thread < adding; ++thread) {
    threads.emplace_back([&events, &ended, thread, each] {
      for (uint64_t i = 0; i < each; ++i) {
        events.Add(Of(absl::StrCat(thread), i));
      }
      ++ended;
    });
  }
  uint64_t seen = 0;
  uint64_t from = 0;
  std::vector<uint64_t> next(static_cast<size_t>(adding), 0);
  while (ended < adding || from < events.next()) {
    const auto page = events.Read({}, from, 32);
    if (!page.ok()) {
      EXPECT_EQ(ReasonOf(page.status()), ErrorReason::kCursorExpired);
      // What lies between is not known: from now on.
      from = events.next();
      for (uint64_t& number : next) number = 0;
      continue;
    }
    for (const SessionEvent& event : page->events) {
      uint64_t& number = next[static_cast<size_t>(event.id[0] - '0')];
      if (number > 0) {
        EXPECT_EQ(event.position, number);
      }
      number = event.position + 1;
      ++seen;
    }
    EXPECT_EQ(page->next, from + page->events.size());
    from = page->next;
  }
  for (std::thread& thread : threads) thread.join();
  return seen;
}

TEST(SessionEventsTest, ReadersSeeWhatThreadsAdd) {
  constexpr int kThreads = 3;
  constexpr uint64_t kEach = 5000;
  SessionEvents all(kThreads * kEach);
  EXPECT_EQ(ReadWhileThreadsAdd(all, kThreads, kEach), kThreads * kEach);
  SessionEvents few(100);
  EXPECT_LE(ReadWhileThreadsAdd(few, kThreads, kEach), kThreads * kEach);
  EXPECT_EQ(few.next(), kThreads * kEach);
}

}  // namespace
}  // namespace steadystate::session_events_test
