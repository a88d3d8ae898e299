// Goal: no call waits for what the keeper's thread does, nobody is refused for
// want of memory that is being cleared, and a session in use stays. Method: the
// thread is held where it would clear memory or work; the clock is the test's.
#include "server/session/session_keeper.h"

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/parked_threads.h"

namespace steadystate {
namespace {

constexpr absl::Duration kTtl = absl::Hours(1);
constexpr size_t kCapacity = 2;

StateLayout MakeLayout() {
  StateLayoutBuilder builder;
  EXPECT_TRUE(builder.AddFixed(0, "S", {4, 4}).ok());
  return std::move(builder).Build();
}

SessionOptions Named(const std::string& id) {
  SessionOptions options;
  options.id = id;
  return options;
}

ErrorReason ReasonOf(const absl::Status& status) {
  const auto details = GetErrorDetails(status);
  return details.has_value() ? details->reason : ErrorReason::kInternal;
}

class SessionKeeperTest : public testing::Test {
 protected:
  // What came back from the thread.
  struct Return {
    Session* session;
    absl::Status status;
    std::thread::id thread;
  };

  SessionInfo Create(const std::string& id) {
    const auto info = keeper_->Create(Named(id));
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *info : SessionInfo();
  }

  // A session of that name, in use.
  Session& CreateInUse(const std::string& id) {
    Create(id);
    const MutexLock lock(keeper_->mutex());
    Session& session = **keeper_->Find(id, clock_.Read());
    keeper_->Use(session);
    return session;
  }

  Session* Delete(const std::string& id) {
    const MutexLock lock(keeper_->mutex());
    const auto session = keeper_->Delete(id, clock_.Read());
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *session : nullptr;
  }

  void LetGo(Session& session) {
    const MutexLock lock(keeper_->mutex());
    keeper_->LetGo(session, clock_.Read());
  }

  void Order(Session& session, SessionKeeper::Work work) {
    const MutexLock lock(keeper_->mutex());
    keeper_->Order(session, std::move(work));
  }

  // Waits for one session to come back.
  Return AwaitReturn() {
    const MutexLock lock(mutex_);
    while (returns_.empty()) changed_.Wait(mutex_);
    Return first = std::move(returns_.front());
    returns_.erase(returns_.begin());
    return first;
  }
  bool NothingReturned() {
    const MutexLock lock(mutex_);
    return returns_.empty();
  }

  // `capacity`: in sessions.
  std::unique_ptr<SessionKeeper> MakeKeeper(size_t capacity) {
    return std::make_unique<SessionKeeper>(
        SessionKeeper::Limits{.memory_bytes = capacity * layout_.charge_bytes(),
                              .default_ttl = kTtl,
                              .max_expired_remembered = 1000},
        layout_, clock_, metrics_,
        [this](Session& session, const absl::Status& status) {
          const MutexLock lock(mutex_);
          returns_.push_back({&session, status, std::this_thread::get_id()});
          changed_.SignalAll();
        });
  }

  ManualClock clock_;
  Metrics metrics_{"tiny"};
  StateLayout state_layout_ = MakeLayout();
  SessionLayout layout_{state_layout_, 8, 16};
  Mutex mutex_;
  CondVar changed_;
  std::vector<Return> returns_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SessionKeeper> keeper_ = MakeKeeper(kCapacity);
};

TEST_F(SessionKeeperTest, AdmitsWhatTheBudgetHoldsAndSaysWhenToTryAgain) {
  EXPECT_EQ(Create("a").tier, SessionTier::kMemory);
  clock_.Advance(kTtl - absl::Seconds(7));
  Create("b");
  const absl::Status refused = keeper_->Create(Named("c")).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kStateBudgetExhausted);
  EXPECT_EQ(GetErrorDetails(refused)->retry_after, absl::Seconds(7));
  {
    const MutexLock lock(keeper_->mutex());
    EXPECT_EQ(ReasonOf(keeper_->CreateUnlisted(clock_.Read()).status()),
              ErrorReason::kStateBudgetExhausted);
  }
  EXPECT_EQ(ReasonOf(keeper_->Create(Named("a")).status()),
            ErrorReason::kSessionAlreadyExists);
  clock_.Advance(absl::Seconds(7));
  Create("c");
}

// One has expired, behind more than are looked at under one lock.
TEST_F(SessionKeeperTest, RoomThatAnExpiredSessionLeavesIsFoundBehindOthers) {
  constexpr size_t kSessions = 100;
  keeper_ = MakeKeeper(kSessions);
  ThreadHold hold("SessionKeeper::ClearOne");
  Create("deleted");
  Delete("deleted");
  hold.WaitUntilHeld();
  std::vector<Session*> used;
  for (size_t i = 1; i < kSessions; ++i) {
    used.push_back(&CreateInUse(absl::StrCat(i)));
  }
  clock_.Advance(absl::Seconds(1));
  Create("expires");
  clock_.Advance(absl::Seconds(1));
  for (Session* session : used) LetGo(*session);
  clock_.Advance(kTtl - absl::Seconds(1));
  Create("new");
  EXPECT_EQ(ReasonOf(keeper_->Create(Named("another")).status()),
            ErrorReason::kStateBudgetExhausted);
}

TEST_F(SessionKeeperTest, NobodyWaitsForMemoryThatIsBeingCleared) {
  ThreadHold hold("SessionKeeper::ClearOne");
  for (const char* id : {"a", "b"}) Create(id);
  EXPECT_EQ(Delete("a"), nullptr);
  hold.WaitUntilHeld();
  EXPECT_EQ(Delete("b"), nullptr);
  // Both slots are on their way; who is admitted has none yet.
  EXPECT_EQ(Create("c").tier, SessionTier::kElsewhere);
  Session& d = CreateInUse("d");
  EXPECT_EQ(keeper_->Get("d")->tier, SessionTier::kElsewhere);
  EXPECT_EQ(ReasonOf(keeper_->Create(Named("e")).status()),
            ErrorReason::kStateBudgetExhausted);
  EXPECT_EQ(keeper_->List("", 10, "")->sessions.size(), 2u);
  Order(d, nullptr);
  EXPECT_TRUE(NothingReturned());
  hold.Release();
  const Return back = AwaitReturn();
  EXPECT_EQ(back.session, &d);
  EXPECT_TRUE(back.status.ok()) << back.status;
  EXPECT_TRUE(d.state.in_memory());
  EXPECT_EQ(keeper_->Get("d")->tier, SessionTier::kMemory);
  LetGo(d);
}

TEST_F(SessionKeeperTest, AFreeSlotBelongsToTheSessionThatIsChargedForIt) {
  ThreadHold hold("SessionKeeper::ClearOne");
  Create("a");
  Session& b = CreateInUse("b");
  Delete("a");
  hold.WaitUntilHeld();
  Session& c = CreateInUse("c");
  EXPECT_EQ(keeper_->Get("c")->tier, SessionTier::kElsewhere);
  // When the thread comes to this, it has cleared a's slot, which c has not
  // asked for yet.
  Order(b, nullptr);
  hold.Release();
  EXPECT_EQ(AwaitReturn().session, &b);
  EXPECT_EQ(ReasonOf(keeper_->Create(Named("d")).status()),
            ErrorReason::kStateBudgetExhausted);
  Order(c, nullptr);
  EXPECT_TRUE(AwaitReturn().status.ok());
  EXPECT_EQ(keeper_->Get("c")->tier, SessionTier::kMemory);
  LetGo(b);
  LetGo(c);
}

TEST_F(SessionKeeperTest, AnEndedSessionLeavesNothingToTheNext) {
  Session& a = CreateInUse("a");
  Session& b = CreateInUse("b");
  for (Session* const session : {&a, &b}) {
    session->state.WillAbsorb(1);
    std::memset(session->state.model_state(), 0xff, state_layout_.bytes());
    LetGo(*session);
  }
  for (const char* id : {"a", "b"}) Delete(id);
  for (const char* id : {"c", "d"}) {
    Session& session = CreateInUse(id);
    Order(session, nullptr);
    EXPECT_TRUE(AwaitReturn().status.ok());
    for (size_t i = 0; i < state_layout_.bytes(); ++i) {
      ASSERT_EQ(session.state.model_state()[i], std::byte{0}) << id << i;
    }
    LetGo(session);
  }
}

TEST_F(SessionKeeperTest, ADeletedSessionStaysUntilItIsLetGo) {
  Session& a = CreateInUse("a");
  Create("b");
  EXPECT_EQ(Delete("a"), &a);
  EXPECT_EQ(ReasonOf(keeper_->Get("a").status()),
            ErrorReason::kSessionNotFound);
  // Charged as long as it is there.
  EXPECT_FALSE(keeper_->Create(Named("c")).ok());
  // It can be worked on, and its name be used again by then.
  Order(a, [](SessionState& state) {
    state.WillAbsorb(1);
    return absl::OkStatus();
  });
  EXPECT_EQ(AwaitReturn().session, &a);
  LetGo(a);
  Create("a");
}

TEST_F(SessionKeeperTest, UnlistedSessionsEndWhenLetGoInAnyOrder) {
  Session* sessions[kCapacity];
  for (int round = 0; round < 3; ++round) {
    {
      const MutexLock lock(keeper_->mutex());
      for (Session*& session : sessions) {
        session = *keeper_->CreateUnlisted(clock_.Read());
      }
      EXPECT_EQ(keeper_->active(), 0u);
    }
    EXPECT_FALSE(keeper_->Create(Named("a")).ok());
    LetGo(*sessions[round % 2]);
    LetGo(*sessions[1 - round % 2]);
  }
  EXPECT_TRUE(keeper_->List("", 10, "")->sessions.empty());
}

TEST_F(SessionKeeperTest, WorkIsDoneElsewhereAndHoldsNobodyUp) {
  Session& a = CreateInUse("a");
  Session& b = CreateInUse("b");
  std::promise<void> go;
  Order(a, [&go](SessionState&) {
    go.get_future().wait();
    return MakeError(ErrorReason::kInternal, "it went wrong");
  });
  Order(b, [](SessionState&) { return absl::OkStatus(); });
  // While it works all of this goes on.
  EXPECT_TRUE(keeper_->Get("a")->active);
  EXPECT_EQ(Delete("a"), &a);
  EXPECT_EQ(keeper_->List("", 10, "")->sessions.size(), 1u);
  EXPECT_TRUE(NothingReturned());
  go.set_value();
  const Return first = AwaitReturn();
  EXPECT_EQ(first.session, &a);
  EXPECT_EQ(ReasonOf(first.status), ErrorReason::kInternal);
  EXPECT_NE(first.thread, std::this_thread::get_id());
  const Return second = AwaitReturn();
  EXPECT_EQ(second.session, &b);
  EXPECT_TRUE(second.status.ok());
  EXPECT_EQ(second.thread, first.thread);
  LetGo(a);
  LetGo(b);
}

TEST_F(SessionKeeperTest, ExpiryEndsTheIdleAndSparesWhoIsInUse) {
  ThreadHold hold("SessionKeeper::ClearOne");
  Create("idle");
  Session& busy = CreateInUse("busy");
  clock_.Advance(kTtl);
  EXPECT_EQ(ReasonOf(keeper_->Get("idle").status()),
            ErrorReason::kSessionExpired);
  EXPECT_TRUE(keeper_->Get("busy").ok());
  EXPECT_EQ(Create("next").tier, SessionTier::kElsewhere);
  LetGo(busy);
  EXPECT_EQ(keeper_->Get("busy")->expire_time, clock_.WallNow() + kTtl);
  clock_.Advance(kTtl);
  EXPECT_EQ(ReasonOf(keeper_->Get("busy").status()),
            ErrorReason::kSessionExpired);
}

}  // namespace
}  // namespace steadystate
