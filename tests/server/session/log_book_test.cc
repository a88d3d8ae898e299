// Goal: the book says which rounds somebody needs, whatever is noted, covered
// and forgotten, and breaks those of whom a lost round told. Method: against a
// plain model, by random operations.
#include "server/session/log_book.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/model/state_layout.h"
#include "server/session/session.h"

namespace steadystate::log_book_test {
namespace {

StateLayout MakeLayout() {
  StateLayoutBuilder builder;
  EXPECT_TRUE(builder.AddFixed(0, "S", {4}).ok());
  return std::move(builder).Build();
}

class LogBookTest : public testing::Test {
 protected:
  LogBookTest() {
    for (auto& session : sessions_) {
      session = std::make_unique<Session>(layout_);
    }
  }

  const StateLayout state_ = MakeLayout();
  const SessionLayout layout_{state_, 4, 4};
  std::unique_ptr<Session> sessions_[5];
  LogBook book_;
};

TEST_F(LogBookTest, SaysWhichRoundsAreNeeded) {
  // The rounds that each session needs.
  std::vector<std::vector<uint64_t>> needed(std::size(sessions_));
  std::mt19937 random(4);
  for (uint64_t round = 1; round <= 3000; ++round) {
    const size_t i = random() % std::size(sessions_);
    Session& session = *sessions_[i];
    switch (random() % 4) {
      case 0: {
        // A snapshot that was begun some rounds ago.
        const uint64_t covered =
            round - std::min<uint64_t>(random() % 20, round);
        book_.Covered(session, covered, absl::ZeroDuration());
        std::erase_if(needed[i], [&](uint64_t r) { return r <= covered; });
        break;
      }
      case 1:
        if (random() % 8 > 0) break;
        book_.Forget(session);
        needed[i].clear();
        break;
      default:
        book_.Note(session, round, absl::Seconds(1));
        needed[i].push_back(round);
    }
    uint64_t first = round + 1;
    for (const auto& rounds : needed) {
      if (!rounds.empty()) first = std::min(first, rounds.front());
    }
    const uint64_t said = book_.FirstNeeded(round + 1);
    ASSERT_LE(said, first) << round;
    // It may say less, but no less than what is covered.
    const Session* const oldest = book_.oldest();
    ASSERT_EQ(oldest == nullptr, first == round + 1) << round;
    if (oldest != nullptr) {
      ASSERT_EQ(said, oldest->log.first);
    }
    for (size_t other = 0; other < std::size(sessions_); ++other) {
      const LogMark& mark = sessions_[other]->log;
      ASSERT_EQ(mark.listed, !needed[other].empty());
      if (mark.listed) {
        ASSERT_GE(mark.first, said);
      }
    }
  }
}

TEST_F(LogBookTest, CountsWhatWouldBeComputedAgain) {
  Session& session = *sessions_[0];
  book_.Note(session, 1, absl::Seconds(1));
  book_.Note(session, 2, absl::Seconds(2));
  book_.Covered(session, 1, absl::Seconds(1));
  EXPECT_EQ(session.log.replay, absl::Seconds(2));
  book_.Covered(session, 2, absl::Seconds(2));
  EXPECT_EQ(session.log.replay, absl::ZeroDuration());
  EXPECT_EQ(book_.oldest(), nullptr);
}

TEST_F(LogBookTest, ALostRoundBreaksThoseOfWhomItTold) {
  for (uint64_t i = 0; i < 3; ++i) {
    book_.Note(*sessions_[i], i + 1, absl::ZeroDuration());
  }
  book_.Covered(*sessions_[2], 3, absl::ZeroDuration());
  book_.Break(2, 9);
  EXPECT_FALSE(sessions_[0]->log.broken);
  EXPECT_TRUE(sessions_[1]->log.broken);
  EXPECT_FALSE(sessions_[2]->log.broken);  // a snapshot has it
  // What a snapshot does not have yet keeps it broken.
  book_.Note(*sessions_[1], 10, absl::ZeroDuration());
  book_.Covered(*sessions_[1], 2, absl::ZeroDuration());
  EXPECT_TRUE(sessions_[1]->log.broken);
  book_.Covered(*sessions_[1], 10, absl::ZeroDuration());
  EXPECT_FALSE(sessions_[1]->log.broken);
}

}  // namespace
}  // namespace steadystate::log_book_test
