// Goal: what a session counts: latencies from the intended time, only within
// the window; tokens as the server counts them, whatever fails. Method:
// requests played by hand at chosen times.
#include "client/load/load_session.h"

#include <chrono>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"

namespace steadystate::client {
namespace {

using std::chrono::milliseconds;
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
  LoadSession Begun(int ms) {
    LoadSession session(0, options_, model_);
    session.Replace("sessions/a");
    session.Begin(At(ms), tally_);
    session.Sent(10);
    return session;
  }

  LoadOptions options_;
  v1::Model model_;
  Tally tally_;
  Window window_{At(1000), At(2000)};
};

TEST_F(LoadSessionTest, ARequestOfSteps) {
  LoadSession session = Begun(1000);
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
  LoadSession session = Begun(1000);
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
  LoadSession session = Begun(990);
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
  LoadSession session = Begun(1999);
  session.Absorbed(10, 0, tally_);
  session.Received(1, At(5999), window_, tally_);
  session.Complete(At(6999), window_, tally_);
  EXPECT_EQ(tally_.time_to_first_token.max(), milliseconds(4000));
  EXPECT_EQ(tally_.request.max(), milliseconds(5000));
  EXPECT_EQ(tally_.window_drawn_tokens, 0u);
  EXPECT_EQ(tally_.window_completed, 0u);
}

TEST_F(LoadSessionTest, ARefusedStepHasAbsorbedNothing) {
  LoadSession session = Begun(1000);
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
  LoadSession session = Begun(1000);
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
  LoadSession silent = Begun(1000);
  silent.CutShort(At(4000), window_, tally_);
  EXPECT_TRUE(silent.unheard());
  EXPECT_EQ(tally_.given_up, 1u);
  EXPECT_EQ(tally_.time_to_first_token.max(), milliseconds(3000));
  LoadSession slow = Begun(1000);
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
  LoadSession session = Begun(1000);
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
  LoadSession session = Begun(1000);
  EXPECT_EQ(session.Fail(absl::UnavailableError("gone"),
                         /*all_or_nothing=*/false, window_, tally_),
            SessionFate::kRetired);
}

TEST_F(LoadSessionTest, ASessionThatIsFullIsReplacedBeforeItIsRefused) {
  model_.set_context_cap(25);
  LoadSession session = Begun(1000);
  session.Absorbed(12, 0, tally_);
  EXPECT_EQ(session.Complete(At(1001), window_, tally_), SessionFate::kGoesOn);
  session.Begin(At(1001), tally_);
  session.Sent(10);
  session.Absorbed(24, 0, tally_);
  EXPECT_EQ(session.Complete(At(1002), window_, tally_), SessionFate::kBroken);
  EXPECT_TRUE(session.mending().replace);
  EXPECT_EQ(session.mending().rest, absl::ZeroDuration());
}

TEST_F(LoadSessionTest, PromptsAreOfTheVocabularyAndOfTheSeed) {
  LoadSession one(0, options_, model_);
  LoadSession same(0, options_, model_);
  LoadSession other(1, options_, model_);
  int differences = 0;
  for (int i = 0; i < 1000; ++i) {
    const int32_t token = one.DrawPromptToken();
    EXPECT_GE(token, 0);
    EXPECT_LT(token, 5);
    EXPECT_EQ(same.DrawPromptToken(), token);
    differences += other.DrawPromptToken() != token ? 1 : 0;
  }
  EXPECT_GT(differences, 700);
}

}  // namespace
}  // namespace steadystate::client
