// Goal: what a session counts: latencies from the intended time, only within
// the window; tokens as the server counts them, whatever fails. Requests begin
// when they should and on what they should, and none is lost or begun twice.
// Method: requests played by hand at chosen times; the pool by hand, and under
// many threads.
#include "client/load/session_pool.h"

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"

namespace steadystate::client::session_pool_test {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Lt;
using Doubt = LoadSession::Doubt;

absl::Status ServerError(absl::StatusCode code, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_domain("steadystate");
  info.set_reason(reason);
  absl::Status status(code, "text");
  status.SetPayload("type.googleapis.com/google.rpc.ErrorInfo",
                    absl::Cord(info.SerializeAsString()));
  return status;
}

class LoadSessionTest : public testing::Test {
 protected:
  LoadSessionTest() {
    options_.prompt_tokens = 10;
    options_.generate_tokens = 3;
    model_.set_vocab_size(5);
  }

  static LoadTime At(int ms) { return LoadTime(milliseconds(ms)); }

  // A fresh session that has sent a prompt to be sent at `ms`.
  LoadSession& Begun(int ms) {
    plan_.emplace(options_);
    LoadSession& session = sessions_.emplace_back(0, *plan_, model_);
    session.Replace("sessions/a");
    session.Begin({&session, At(ms), 0}, tally_);
    session.Sent(10);
    return session;
  }

  LoadOptions options_;
  std::optional<RequestPlan> plan_;
  v1::Model model_;
  Tally tally_;
  Window window_{At(1000), At(2000)};
  std::deque<LoadSession> sessions_;
};

TEST_F(LoadSessionTest, ARequestOfSteps) {
  LoadSession& session = Begun(1000);
  session.Absorbed(10, 0, tally_);
  session.Received(1, At(1030), window_, tally_);
  for (int i = 1; i < 3; ++i) {
    EXPECT_FALSE(session.complete());
    session.Sent(1);
    session.Absorbed(10 + static_cast<uint64_t>(i), 0, tally_);
    session.Received(1, At(1030 + 4 * i), window_, tally_);
  }
  EXPECT_TRUE(session.complete());
  EXPECT_EQ(session.Complete(At(1038), window_, tally_), SessionFate::kGoesOn);
  EXPECT_EQ(session.position(), 12u);
  EXPECT_EQ(tally_.begun, 1u);
  EXPECT_EQ(tally_.completed, 1u);
  EXPECT_EQ(tally_.drawn_tokens, 3u);
  EXPECT_EQ(tally_.absorbed.prompt, 12u);
  EXPECT_EQ(tally_.absorbed.generated, 0u);
  EXPECT_EQ(tally_.window_prompt_tokens, 10u);
  EXPECT_EQ(tally_.window_drawn_tokens, 3u);
  EXPECT_EQ(tally_.time_to_first_token.max(), milliseconds(30));
  EXPECT_EQ(tally_.inter_token.count(), 2u);
  EXPECT_EQ(tally_.inter_token.max(), milliseconds(4));
  EXPECT_EQ(tally_.request.max(), milliseconds(38));
}

TEST_F(LoadSessionTest, TokensThatArriveTogetherShareTheTime) {
  LoadSession& session = Begun(1000);
  session.Absorbed(11, 1, tally_);
  session.Received(1, At(1001), window_, tally_);
  session.Absorbed(13, 2, tally_);
  session.Received(2, At(1007), window_, tally_);
  EXPECT_TRUE(session.complete());
  EXPECT_EQ(tally_.inter_token.count(), 2u);
  EXPECT_EQ(tally_.inter_token.max(), milliseconds(3));
  EXPECT_EQ(tally_.absorbed.prompt, 10u);
  EXPECT_EQ(tally_.absorbed.generated, 3u);
}

TEST_F(LoadSessionTest, TheWarmUpIsLeftOutOfLatenciesButNotOfCounts) {
  LoadSession& session = Begun(990);
  session.Absorbed(10, 0, tally_);
  session.Received(1, At(1030), window_, tally_);
  session.Complete(At(1040), window_, tally_);
  EXPECT_EQ(tally_.time_to_first_token.count(), 0u);
  EXPECT_EQ(tally_.request.count(), 0u);
  // What arrives in the window counts for the rates.
  EXPECT_EQ(tally_.window_drawn_tokens, 1u);
  EXPECT_EQ(tally_.window_completed, 1u);
  EXPECT_EQ(tally_.absorbed.prompt, 10u);
}

TEST_F(LoadSessionTest, LateAnswersAreNotLeftOut) {
  LoadSession& session = Begun(1999);
  session.Absorbed(10, 0, tally_);
  session.Received(1, At(5999), window_, tally_);
  session.Complete(At(6999), window_, tally_);
  EXPECT_EQ(tally_.time_to_first_token.max(), milliseconds(4000));
  EXPECT_EQ(tally_.request.max(), milliseconds(5000));
  EXPECT_EQ(tally_.window_drawn_tokens, 0u);
  EXPECT_EQ(tally_.window_completed, 0u);
}

TEST_F(LoadSessionTest, ARefusedStepHasAbsorbedNothing) {
  LoadSession& session = Begun(1000);
  EXPECT_EQ(
      session.Fail(ServerError(absl::StatusCode::kAborted, "POSITION_MISMATCH"),
                   /*all_or_nothing=*/true, window_, tally_),
      SessionFate::kBroken);
  EXPECT_EQ(session.doubt(), Doubt::kPosition);
  EXPECT_FALSE(session.mending().replace);
  session.Reconcile(500, tally_);
  EXPECT_EQ(session.position(), 500u);
  EXPECT_EQ(tally_.absorbed.prompt, 0u);
  EXPECT_EQ(tally_.failed, 1u);
  EXPECT_EQ(tally_.server_errors.at("POSITION_MISMATCH"), 1u);
}

TEST_F(LoadSessionTest, WhatAFailedRequestAbsorbedIsCountedOnceItIsKnown) {
  LoadSession& session = Begun(1000);
  session.Fail(absl::DeadlineExceededError("late"), /*all_or_nothing=*/false,
               window_, tally_);
  EXPECT_EQ(session.doubt(), Doubt::kAbsorbed);
  EXPECT_EQ(tally_.client_errors.at("DEADLINE_EXCEEDED"), 1u);
  session.Reconcile(12, tally_);
  EXPECT_EQ(tally_.absorbed.prompt, 10u);
  EXPECT_EQ(tally_.absorbed.generated, 2u);
  EXPECT_EQ(session.doubt(), Doubt::kNone);
  EXPECT_EQ(tally_.of_unknown_extent, 0u);
}

TEST_F(LoadSessionTest, WhatIsCutHasWaitedAtLeastUntilThen) {
  LoadSession& silent = Begun(1000);
  silent.CutShort(At(4000), window_, tally_);
  EXPECT_TRUE(silent.unheard());
  EXPECT_EQ(tally_.given_up, 1u);
  EXPECT_EQ(tally_.time_to_first_token.max(), milliseconds(3000));
  LoadSession& slow = Begun(1000);
  slow.Absorbed(10, 0, tally_);
  slow.Received(1, At(1001), window_, tally_);
  slow.Cut(At(5001), window_, tally_);
  EXPECT_FALSE(slow.unheard());
  EXPECT_EQ(tally_.inter_token.max(), milliseconds(4000));
  EXPECT_EQ(tally_.request.max(), milliseconds(4001));
  EXPECT_EQ(tally_.window_unanswered, 2u);
  // Nothing of the warm-up.
  Begun(999).Cut(At(5000), window_, tally_);
  EXPECT_EQ(tally_.cut, 3u);
  EXPECT_EQ(tally_.window_unanswered, 2u);
}

TEST_F(LoadSessionTest, ADeletedSessionIsReplaced) {
  LoadSession& session = Begun(1000);
  EXPECT_EQ(session.Fail(
                ServerError(absl::StatusCode::kNotFound, "SESSION_NOT_FOUND"),
                /*all_or_nothing=*/false, window_, tally_),
            SessionFate::kBroken);
  EXPECT_TRUE(session.mending().replace);
  EXPECT_FALSE(session.exists());
  session.GiveUpReconciling(tally_);
  EXPECT_EQ(tally_.of_unknown_extent, 1u);
  session.Replace("sessions/b");
  EXPECT_TRUE(session.exists());
  EXPECT_EQ(session.position(), 0u);
}

TEST_F(LoadSessionTest, WithoutAServerASessionIsOfNoUse) {
  LoadSession& session = Begun(1000);
  EXPECT_EQ(session.Fail(absl::UnavailableError("gone"),
                         /*all_or_nothing=*/false, window_, tally_),
            SessionFate::kRetired);
}

TEST_F(LoadSessionTest, ASessionThatIsFullIsReplacedBeforeItIsRefused) {
  model_.set_context_cap(25);
  LoadSession& session = Begun(1000);
  session.Absorbed(12, 0, tally_);
  EXPECT_EQ(session.Complete(At(1001), window_, tally_), SessionFate::kGoesOn);
  session.Begin({&session, At(1001), 1}, tally_);
  session.Sent(10);
  session.Absorbed(24, 0, tally_);
  EXPECT_EQ(session.Complete(At(1002), window_, tally_), SessionFate::kBroken);
  EXPECT_TRUE(session.mending().replace);
  EXPECT_EQ(session.mending().rest, absl::ZeroDuration());
}

TEST_F(LoadSessionTest, PromptsAreOfTheVocabularyAndOfTheSeed) {
  options_.prompt_tokens = 1000;
  const RequestPlan plan(options_);
  std::vector<std::vector<int32_t>> prompts;
  for (const size_t index : {0u, 0u, 1u}) {
    LoadSession session(index, plan, model_);
    session.Begin({&session, At(1000), 0}, tally_);
    prompts.push_back(session.TakePrompt(1000));
    ASSERT_EQ(prompts.back().size(), 1000u);
    EXPECT_THAT(prompts.back(), Each(AllOf(Ge(0), Lt(5))));
  }
  EXPECT_EQ(prompts[0], prompts[1]);
  EXPECT_NE(prompts[0], prompts[2]);
}

TEST_F(LoadSessionTest, PromptsOfAFileAreSentAsTheyAreInPieces) {
  options_.prompts = std::make_shared<std::vector<std::string>>(
      std::vector<std::string>{"a", "b"});
  const RequestPlan plan(options_, {{1, 2, 3, 4, 5}, {6}});
  LoadSession session(0, plan, model_);
  session.Begin({&session, At(1000), 2}, tally_);
  EXPECT_THAT(session.TakePrompt(2), ElementsAre(1, 2));
  EXPECT_THAT(session.TakePrompt(2), ElementsAre(3, 4));
  EXPECT_TRUE(session.has_prompt());
  EXPECT_THAT(session.TakePrompt(2), ElementsAre(5));
  EXPECT_FALSE(session.has_prompt());
  session.Begin({&session, At(1000), 3}, tally_);
  EXPECT_THAT(session.TakePrompt(2), ElementsAre(6));
}

TEST_F(LoadSessionTest, TimePerOutputTokenLeavesTheFirstOneOut) {
  options_.slo.time_per_output_token = absl::Milliseconds(10);
  LoadSession& session = Begun(1000);
  session.Received(1, At(1100), window_, tally_);
  session.Received(1, At(1104), window_, tally_);
  session.Received(1, At(1120), window_, tally_);
  session.Complete(At(1121), window_, tally_);
  EXPECT_EQ(tally_.time_per_output_token.count(), 1u);
  EXPECT_EQ(tally_.time_per_output_token.max(), milliseconds(10));
  EXPECT_EQ(tally_.window_good, 1u);
  // A request of one token has none.
  session.Begin({&session, At(1200), 1}, tally_);
  session.Received(1, At(1201), window_, tally_);
  session.Complete(At(1201), window_, tally_);
  EXPECT_EQ(tally_.time_per_output_token.count(), 1u);
  EXPECT_EQ(tally_.window_good, 2u);
}

TEST_F(LoadSessionTest, ARequestIsGoodIfItWasDueInTheWindowAndInTime) {
  options_.slo.time_to_first_token = absl::Milliseconds(50);
  for (const int begin : {999, 1000, 1000}) {
    LoadSession& session = Begun(begin);
    const int late = tally_.begun == 3 ? 51 : 50;
    session.Received(3, At(begin + late), window_, tally_);
    session.Complete(At(begin + late), window_, tally_);
  }
  EXPECT_EQ(tally_.completed, 3u);
  EXPECT_EQ(tally_.window_good, 1u);
}

class SessionPoolTest : public testing::Test {
 protected:
  SessionPoolTest() {
    model_.set_vocab_size(256);
    for (size_t i = 0; i < 3; ++i) {
      sessions_.push_back(std::make_unique<LoadSession>(i, plan_, model_));
    }
  }

  LoadSession& Session(size_t i) { return *sessions_[i]; }
  static LoadTime At(int ms) { return LoadTime(milliseconds(ms)); }

  LoadOptions options_;
  const RequestPlan plan_{options_};
  v1::Model model_;
  std::vector<std::unique_ptr<LoadSession>> sessions_;
};

TEST_F(SessionPoolTest, ClosedLoopBeginsTheNextRequestWhenOneEnds) {
  SessionPool pool(/*open_loop=*/false);
  const auto first = pool.Add(Session(0), At(1));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->session, &Session(0));
  EXPECT_EQ(first->intended, At(1));
  const auto next = pool.Finish(Session(0), SessionFate::kGoesOn, At(5));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->intended, At(5));
  pool.Stop(/*cut=*/false);
  EXPECT_FALSE(pool.Finish(Session(0), SessionFate::kGoesOn, At(6)));
  EXPECT_EQ(pool.counts().busy, 0u);
  EXPECT_EQ(pool.counts().alive, 1u);
}

TEST_F(SessionPoolTest, OpenLoopKeepsTheIntendedTimeOfWhatWaits) {
  SessionPool pool(/*open_loop=*/true);
  EXPECT_FALSE(pool.Add(Session(0), At(0)));
  ASSERT_TRUE(pool.Arrive(At(1)));
  EXPECT_FALSE(pool.Arrive(At(2)));
  EXPECT_FALSE(pool.Arrive(At(3)));
  EXPECT_EQ(pool.counts().backlog, 2u);
  const auto next = pool.Finish(Session(0), SessionFate::kGoesOn, At(50));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->intended, At(2));
  EXPECT_EQ(pool.peak_backlog(), 2u);
  EXPECT_EQ(pool.unsent(), 0u);
}

TEST_F(SessionPoolTest, RequestsHaveNumbersInTheOrderInWhichTheyBegin) {
  SessionPool pool(/*open_loop=*/true);
  pool.Add(Session(0), At(0));
  pool.Add(Session(1), At(0));
  EXPECT_EQ(pool.Arrive(At(1))->number, 0u);
  EXPECT_EQ(pool.Arrive(At(2))->number, 1u);
  EXPECT_FALSE(pool.Arrive(At(3)));
  EXPECT_EQ(pool.Finish(Session(1), SessionFate::kGoesOn, At(4))->number, 2u);
  pool.Finish(Session(0), SessionFate::kGoesOn, At(5));
  pool.Finish(Session(1), SessionFate::kGoesOn, At(5));
  EXPECT_EQ(pool.counts().busy, 0u);
  EXPECT_EQ(pool.peak_busy(), 2u);
}

TEST_F(SessionPoolTest, OpenLoopTakesTheSessionThatWasFreeForLongest) {
  SessionPool pool(/*open_loop=*/true);
  for (size_t i = 0; i < 3; ++i) pool.Add(Session(i), At(0));
  EXPECT_EQ(pool.Arrive(At(1))->session, &Session(0));
  pool.Finish(Session(0), SessionFate::kGoesOn, At(2));
  EXPECT_EQ(pool.Arrive(At(3))->session, &Session(1));
  EXPECT_EQ(pool.Arrive(At(4))->session, &Session(2));
  EXPECT_EQ(pool.Arrive(At(5))->session, &Session(0));
}

TEST_F(SessionPoolTest, TheBacklogIsBounded) {
  SessionPool pool(/*open_loop=*/true, /*max_backlog=*/2);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(pool.Arrive(At(i)));
  EXPECT_EQ(pool.counts().backlog, 2u);
  EXPECT_EQ(pool.unsent(), 3u);
}

TEST_F(SessionPoolTest, WhatWaitsMayBeginAfterStopButNotAfterCut) {
  SessionPool pool(/*open_loop=*/true);
  pool.Add(Session(0), At(0));
  for (int i = 0; i < 4; ++i) pool.Arrive(At(i));
  pool.Stop(/*cut=*/false);
  EXPECT_FALSE(pool.Arrive(At(9)));
  EXPECT_FALSE(pool.cut());
  EXPECT_TRUE(pool.Finish(Session(0), SessionFate::kGoesOn, At(10)));
  pool.Stop(/*cut=*/true);
  EXPECT_TRUE(pool.cut());
  EXPECT_FALSE(pool.Finish(Session(0), SessionFate::kGoesOn, At(11)));
  EXPECT_EQ(pool.unsent(), 2u);
  EXPECT_EQ(pool.counts().backlog, 0u);
}

TEST_F(SessionPoolTest, BrokenSessionsComeBackWhenMended) {
  SessionPool pool(/*open_loop=*/false);
  pool.Add(Session(0), At(0));
  pool.Add(Session(1), At(0));
  EXPECT_EQ(pool.TakeBroken(), nullptr);
  EXPECT_FALSE(pool.Finish(Session(0), SessionFate::kBroken, At(1)));
  EXPECT_EQ(pool.TakeBroken(), &Session(0));
  EXPECT_EQ(pool.counts().busy, 1u);
  EXPECT_EQ(pool.GiveBack(Session(0), At(2))->intended, At(2));
  EXPECT_FALSE(pool.Finish(Session(1), SessionFate::kRetired, At(3)));
  EXPECT_EQ(pool.counts().alive, 1u);
  pool.Finish(Session(0), SessionFate::kBroken, At(4));
  pool.TakeBroken();
  pool.Retire();
  EXPECT_EQ(pool.counts().alive, 0u);
}

TEST_F(SessionPoolTest, WaitingEndsWhenThereIsSomethingToDo) {
  SessionPool pool(/*open_loop=*/false);
  pool.Add(Session(0), At(0));
  std::thread other(
      [&] { pool.Finish(Session(0), SessionFate::kBroken, LoadClock::now()); });
  // Far beyond the time that this test may take.
  EXPECT_TRUE(pool.WaitForBroken(LoadClock::now() + std::chrono::hours(1)));
  EXPECT_EQ(pool.TakeBroken(), &Session(0));
  pool.StopMending();
  EXPECT_FALSE(pool.WaitForBroken(LoadClock::now() + std::chrono::hours(1)));
  other.join();
}

TEST_F(SessionPoolTest, NoRequestIsLostBetweenThreads) {
  constexpr int kRequests = 20000;
  SessionPool pool(/*open_loop=*/true);
  std::vector<std::thread> threads;
  std::atomic<int> done = 0;
  // Each session works on what it is given, on a thread of its own.
  struct Desk {
    std::mutex mutex;
    std::condition_variable changed;
    int turns = 0;
    bool closed = false;
  };
  std::vector<Desk> desks(sessions_.size());
  for (size_t i = 0; i < desks.size(); ++i) {
    pool.Add(Session(i), At(0));
    threads.emplace_back([&, i] {
      Desk& desk = desks[i];
      std::unique_lock<std::mutex> lock(desk.mutex);
      while (true) {
        desk.changed.wait(lock, [&] { return desk.turns > 0 || desk.closed; });
        if (desk.turns == 0) return;
        --desk.turns;
        lock.unlock();
        do {
          ++done;
        } while (pool.Finish(Session(i), SessionFate::kGoesOn, At(0)));
        lock.lock();
      }
    });
  }
  for (int i = 0; i < kRequests; ++i) {
    const auto turn = pool.Arrive(At(i));
    if (!turn) continue;
    Desk& desk = desks[turn->session->index()];
    const std::lock_guard<std::mutex> lock(desk.mutex);
    ++desk.turns;
    desk.changed.notify_one();
  }
  pool.Stop(/*cut=*/false);
  pool.WaitUntil(LoadClock::now() + std::chrono::hours(1));
  for (Desk& desk : desks) {
    const std::lock_guard<std::mutex> lock(desk.mutex);
    desk.closed = true;
    desk.changed.notify_one();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, kRequests);
  EXPECT_EQ(pool.counts().busy, 0u);
}

}  // namespace
}  // namespace steadystate::client::session_pool_test
