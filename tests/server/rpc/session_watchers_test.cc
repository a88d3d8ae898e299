// Goal: whoever watches looks when there may be something to see, and at no
// other time, until he is removed. Method: watchers that count; the thread that
// lets them look is held.
#include "server/rpc/session_watchers.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::session_watchers_test {
namespace {

class CountingWatcher final : public SessionWatchers::Watcher {
 public:
  void Look() override { ++looks_; }
  int looks() const { return looks_; }
  void WaitForLooks(int count) const {
    while (looks_ < count) std::this_thread::yield();
  }

 private:
  std::atomic<int> looks_ = 0;
};

class SessionWatchersTest : public testing::Test {
 protected:
  std::shared_ptr<CountingWatcher> Added(ClientId client = 1) {
    auto watcher = std::make_shared<CountingWatcher>();
    const absl::Status added = watchers_.Add(client, watcher);
    EXPECT_TRUE(added.ok()) << added;
    watcher->WaitForLooks(1);
    return watcher;
  }

  Metrics metrics_{"tiny"};
  SessionEvents events_;
  SessionWatchers watchers_{events_, metrics_};
};

TEST_F(SessionWatchersTest, LookAtFirstAndAfterEvents) {
  const auto one = Added();
  const auto other = Added();
  EXPECT_EQ(one->looks(), 1);
  events_.Add({});
  one->WaitForLooks(2);
  other->WaitForLooks(2);
  events_.Add({});
  one->WaitForLooks(3);
  other->WaitForLooks(3);
}

TEST_F(SessionWatchersTest, EventsThatComeTogetherAreOneReasonToLook) {
  const auto one = Added();
  ThreadHold hold("SessionWatchers::Loop");
  events_.Add({});
  hold.WaitUntilHeld();
  for (int i = 0; i < 1000; ++i) events_.Add({});
  hold.Release();
  one->WaitForLooks(3);
  watchers_.Stop();
  EXPECT_EQ(one->looks(), 3);
}

TEST_F(SessionWatchersTest, WhoAsksLooksAlone) {
  const auto one = Added();
  const auto other = Added();
  watchers_.Ask(one);
  one->WaitForLooks(2);
  EXPECT_EQ(other->looks(), 1);
}

TEST_F(SessionWatchersTest, WhoIsRemovedLooksNoMore) {
  const auto one = Added();
  const auto other = Added();
  watchers_.Remove(1, one);
  watchers_.Remove(1, one);
  events_.Add({});
  other->WaitForLooks(2);
  EXPECT_EQ(one->looks(), 1);
  EXPECT_EQ(one.use_count(), 1);
}

TEST_F(SessionWatchersTest, NobodyLooksAfterTheEnd) {
  const auto one = Added();
  watchers_.Stop();
  watchers_.Stop();
  events_.Add({});
  watchers_.Ask(one);
  EXPECT_EQ(one->looks(), 1);
}

TEST_F(SessionWatchersTest, NoConnectionHasThemAll) {
  std::vector<std::shared_ptr<CountingWatcher>> added;
  absl::Status refused;
  for (ClientId client = 1; client <= 200; ++client) {
    const size_t before = added.size();
    while (true) {
      auto watcher = std::make_shared<CountingWatcher>();
      refused = watchers_.Add(client, watcher);
      if (!refused.ok()) break;
      added.push_back(std::move(watcher));
    }
    EXPECT_EQ(GetErrorDetails(refused)->reason, ErrorReason::kQueueFull);
    EXPECT_GT(added.size(), before) << client;
    EXPECT_LT(added.size(), SessionWatchers::kMost + client);
  }
}

// As a server's do, which a call that does not end may keep for longer.
TEST_F(SessionWatchersTest, OutliveTheEventsOnceTheyHaveStopped) {
  auto events = std::make_unique<SessionEvents>();
  SessionWatchers watchers(*events, metrics_);
  watchers.Stop();
  events.reset();
  watchers.Stop();
}

}  // namespace
}  // namespace steadystate::session_watchers_test
