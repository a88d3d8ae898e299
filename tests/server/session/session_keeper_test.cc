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

namespace steadystate::session_keeper_test {
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
    keeper_->Use(session, clock_.Read());
    return session;
  }

  Session* Delete(const std::string& id) {
    const MutexLock lock(keeper_->mutex());
    Shelf::Removed nobody_asks;
    const auto session = keeper_->Find({id, ""}, clock_.Read());
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) return nullptr;
    return keeper_->Delete(**session, clock_.Read(), nobody_asks) ? *session
                                                                  : nullptr;
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
        SessionLimits{.memory_bytes = capacity * layout_.charge_bytes(),
                      .default_ttl = kTtl,
                      .max_expired_remembered = 1000},
        layout_, /*archive=*/nullptr, clock_, metrics_,
        [this](Session& session, absl::Status status) {
          const MutexLock lock(mutex_);
          returns_.push_back(
              {&session, std::move(status), std::this_thread::get_id()});
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
  EXPECT_EQ(keeper_->List({}, 10, "")->sessions.size(), 2u);
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
  Order(a, [](Session& session) {
    session.state.WillAbsorb(1);
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
  EXPECT_TRUE(keeper_->List({}, 10, "")->sessions.empty());
}

TEST_F(SessionKeeperTest, WorkIsDoneElsewhereAndHoldsNobodyUp) {
  Session& a = CreateInUse("a");
  Session& b = CreateInUse("b");
  std::promise<void> go;
  Order(a, [&go](Session&) {
    go.get_future().wait();
    return MakeError(ErrorReason::kInternal, "it went wrong");
  });
  Order(b, [](Session&) { return absl::OkStatus(); });
  // While it works all of this goes on.
  EXPECT_TRUE(keeper_->Get("a")->active);
  EXPECT_EQ(Delete("a"), &a);
  EXPECT_EQ(keeper_->List({}, 10, "")->sessions.size(), 1u);
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

class SessionKeeperForkTest : public SessionKeeperTest {
 protected:
  static constexpr size_t kSessions = 5;
  static constexpr char kUnfinished = '\xe2';  // begins a character

  SessionKeeperForkTest() {
    keeper_ = MakeKeeper(kSessions);
    parent_ = &CreateInUse("parent");
    Order(*parent_, [this](Session& session) {
      Fill(session.state, 7);
      return absl::OkStatus();
    });
    AwaitReturn();
  }

  // Lets the session absorb an input, after which every byte of the model's
  // state is `value`.
  void Fill(SessionState& state, int32_t value) {
    state.WillAbsorb(1);
    std::memset(state.model_state(), value, state_layout_.bytes());
    const std::vector<float> hidden(layout_.hidden_size(),
                                    static_cast<float>(value));
    state.Absorbed(1, {{value}}, hidden.data());
    state.set_unfinished_text(std::string(1, kUnfinished));
  }
  void ExpectFilled(const SessionState& state, int32_t value) {
    ASSERT_TRUE(state.in_memory());
    EXPECT_EQ(state.position(), 1u);
    EXPECT_EQ(state.unfinished_text(), std::string(1, kUnfinished));
    ASSERT_NE(state.pending_hidden(), nullptr);
    EXPECT_EQ(state.pending_hidden()[0], static_cast<float>(value));
    int32_t token = 0;
    state.CopyHistory(0, {&token, 1});
    EXPECT_EQ(token, value);
    EXPECT_EQ(state.CopyRecent({&token, 1}), 1u);
    EXPECT_EQ(token, value);
    for (size_t i = 0; i < state_layout_.bytes(); ++i) {
      ASSERT_EQ(state.model_state()[i], static_cast<std::byte>(value)) << i;
    }
  }

  // Has the keeper's thread make copies of the parent.
  absl::Status OrderFork(const std::vector<std::string>& ids) {
    ForkOptions options;
    options.ids = ids;
    options.count = ids.size();
    Order(*parent_, [this, options](Session& session) {
      const auto forks =
          keeper_->Fork(session, options, session.state.position(), "");
      if (!forks.ok()) return forks.status();
      EXPECT_EQ(forks->position, session.state.position());
      EXPECT_EQ(forks->ids, options.ids);
      return absl::OkStatus();
    });
    return AwaitReturn().status;
  }

  // The session, in use and in memory.
  Session& Bring(const std::string& id) {
    Session* session = nullptr;
    {
      const MutexLock lock(keeper_->mutex());
      session = *keeper_->Find(id, clock_.Read());
      keeper_->Use(*session, clock_.Read());
    }
    Order(*session, nullptr);
    EXPECT_TRUE(AwaitReturn().status.ok());
    return *session;
  }

  // As many sessions as there is room for, beside those that exist.
  void ExpectRoomFor(size_t count) {
    for (size_t i = 0; i < count; ++i) Create(absl::StrCat("room", i));
    EXPECT_EQ(ReasonOf(keeper_->Create(Named("more")).status()),
              ErrorReason::kStateBudgetExhausted);
    for (size_t i = 0; i < count; ++i) LetGo(Bring(absl::StrCat("room", i)));
  }

  Session* parent_ = nullptr;
};

// The budget is full, so the last fork must have the slot of the copy that
// served them all.
TEST_F(SessionKeeperForkTest, ForksAreWhatTheParentWasAndTakeMemoryWhenUsed) {
  const std::vector<std::string> ids = {"x", "y", "z"};
  ASSERT_TRUE(OrderFork(ids).ok());
  Create("other");
  EXPECT_EQ(ReasonOf(keeper_->Create(Named("more")).status()),
            ErrorReason::kStateBudgetExhausted);
  Order(*parent_, [this](Session& session) {
    Fill(session.state, 8);
    return absl::OkStatus();
  });
  AwaitReturn();
  for (const std::string& id : ids) {
    EXPECT_EQ(keeper_->Get(id)->tier, SessionTier::kElsewhere);
    EXPECT_EQ(keeper_->Get(id)->position, 1u);
  }
  for (const std::string& id : ids) {
    Session& fork = Bring(id);
    EXPECT_EQ(keeper_->Get(id)->tier, SessionTier::kMemory);
    ExpectFilled(fork.state, 7);
    // What one does is not seen by the others.
    std::memset(fork.state.model_state(), 9, state_layout_.bytes());
    LetGo(fork);
  }
  LetGo(*parent_);
}

// None may want more than is there, whichever is filled first.
TEST_F(SessionKeeperForkTest, ForksThatAreUsedAtOnceHaveRoom) {
  Create("other");
  ASSERT_TRUE(OrderFork({"x", "y", "z"}).ok());
  std::vector<Session*> forks;
  {
    const MutexLock lock(keeper_->mutex());
    for (const char* id : {"x", "y", "z"}) {
      forks.push_back(*keeper_->Find(id, clock_.Read()));
      keeper_->Use(*forks.back(), clock_.Read());
      keeper_->Order(*forks.back(), nullptr);
    }
  }
  for (size_t i = 0; i < forks.size(); ++i) {
    const absl::Status status = AwaitReturn().status;
    EXPECT_TRUE(status.ok()) << status;
  }
  for (Session* fork : forks) {
    ExpectFilled(fork->state, 7);
    LetGo(*fork);
  }
  LetGo(*parent_);
}

// The forks before it have slots and not been filled when it wants one.
TEST_F(SessionKeeperForkTest, ACopyHasRoomBesideForksThatAreBeingFilled) {
  ASSERT_TRUE(OrderFork({"x", "y"}).ok());
  Create("other");
  ThreadHold hold("SessionKeeper::DoJob");
  Session* other = nullptr;
  std::vector<Session*> forks;
  {
    const MutexLock lock(keeper_->mutex());
    other = *keeper_->Find("other", clock_.Read());
    keeper_->Use(*other, clock_.Read());
    keeper_->Order(*other, nullptr);
  }
  hold.WaitUntilHeld();
  {
    const MutexLock lock(keeper_->mutex());
    keeper_->Order(*parent_, [this](Session& session) {
      ForkOptions options;
      options.ids = {"w"};
      return keeper_->Fork(session, options, session.state.position(), "")
          .status();
    });
    for (const char* id : {"x", "y"}) {
      forks.push_back(*keeper_->Find(id, clock_.Read()));
      keeper_->Use(*forks.back(), clock_.Read());
      keeper_->Order(*forks.back(), nullptr);
    }
  }
  hold.Release();
  for (size_t i = 0; i < forks.size() + 2; ++i) {
    const absl::Status status = AwaitReturn().status;
    EXPECT_TRUE(status.ok()) << status;
  }
  for (Session* fork : forks) {
    ExpectFilled(fork->state, 7);
    LetGo(*fork);
  }
  LetGo(*other);
  LetGo(*parent_);
}

TEST_F(SessionKeeperForkTest, AllAreMadeOrNone) {
  Create("taken");
  EXPECT_EQ(ReasonOf(OrderFork({"x", "taken"})),
            ErrorReason::kSessionAlreadyExists);
  EXPECT_EQ(ReasonOf(OrderFork({"x", "x"})), ErrorReason::kInvalidArgument);
  EXPECT_EQ(ReasonOf(OrderFork({"w", "x", "y", "z"})),
            ErrorReason::kStateBudgetExhausted);
  EXPECT_FALSE(keeper_->Get("x").ok());
  ExpectRoomFor(kSessions - 2);
  LetGo(*parent_);
}

TEST_F(SessionKeeperForkTest, ForksThatAreNeverUsedGiveTheirMemoryBack) {
  ASSERT_TRUE(OrderFork({"x", "y", "z"}).ok());
  LetGo(Bring("y"));
  for (const char* id : {"x", "y", "z"}) Delete(id);
  ExpectRoomFor(kSessions - 1);
  LetGo(*parent_);
}

TEST_F(SessionKeeperForkTest, AForkOfAForkIsOneOfItsParent) {
  ASSERT_TRUE(OrderFork({"x"}).ok());
  LetGo(*parent_);
  parent_ = &Bring("x");
  ASSERT_TRUE(OrderFork({"y"}).ok());
  LetGo(*parent_);
  Delete("x");
  Session& fork = Bring("y");
  ExpectFilled(fork.state, 7);
  LetGo(fork);
}

TEST_F(SessionKeeperForkTest, TheCopyWaitsForMemoryThatIsBeingCleared) {
  for (size_t i = 1; i < kSessions; ++i) Create(absl::StrCat(i));
  ThreadHold hold("SessionKeeper::DoJob");
  Order(*parent_, nullptr);
  hold.WaitUntilHeld();
  for (size_t i = 1; i < kSessions; ++i) Delete(absl::StrCat(i));
  hold.Release();
  AwaitReturn();
  ASSERT_TRUE(OrderFork({"w", "x", "y", "z"}).ok());
  for (const char* id : {"w", "x", "y", "z"}) {
    Session& fork = Bring(id);
    ExpectFilled(fork.state, 7);
    LetGo(fork);
  }
  LetGo(*parent_);
}

TEST_F(SessionKeeperForkTest, TheirIdsAreTakenWhileTheCopyIsMade) {
  ThreadHold hold("SessionKeeper::Fork");
  absl::Status ended;
  std::thread forks([this, &ended] { ended = OrderFork({"x", "y"}); });
  hold.WaitUntilHeld();
  EXPECT_EQ(ReasonOf(keeper_->Create(Named("y")).status()),
            ErrorReason::kSessionAlreadyExists);
  EXPECT_EQ(ReasonOf(keeper_->Get("y").status()),
            ErrorReason::kSessionNotFound);
  hold.Release();
  forks.join();
  EXPECT_TRUE(ended.ok()) << ended;
  EXPECT_TRUE(keeper_->Get("y").ok());
  ExpectRoomFor(kSessions - 3);
  LetGo(*parent_);
}

TEST_F(SessionKeeperForkTest, WhatIsNotSaidIsAsOfTheParent) {
  SessionOptions options = Named("labelled");
  options.labels[std::string("a")] = std::string("b");
  options.ttl = absl::Minutes(7);
  ASSERT_TRUE(keeper_->Create(options).ok());
  LetGo(*parent_);
  parent_ = &Bring("labelled");
  ASSERT_TRUE(OrderFork({"x"}).ok());
  const auto fork = keeper_->Get("x");
  ASSERT_TRUE(fork.ok());
  EXPECT_EQ(fork->labels, options.labels);
  EXPECT_EQ(fork->ttl, absl::Minutes(7));
  EXPECT_EQ(fork->position, 0u);
  LetGo(*parent_);
}

}  // namespace
}  // namespace steadystate::session_keeper_test
