// Goal: a bar that fits its terminal, does not flicker and leaves nothing
// behind. Method: a terminal and a clock that belong to the test.
#include "client/cli/progress_bar.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Progress kHalf{"score", "tokens", 500, 1000, absl::Seconds(10)};

TEST(FormatProgressTest, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(FormatProgress(kHalf, 100),
            "score  50% [####################                    ] 500/1000 "
            "tokens  50.0/s  0:10");
}

TEST(FormatProgressTest, IsNeverWiderThanTheTerminal) {
  for (size_t columns = 0; columns < 200; ++columns) {
    EXPECT_LE(FormatProgress(kHalf, columns).size(), columns);
  }
}

TEST(FormatProgressTest, LeavesTheBarOutFirst) {
  EXPECT_EQ(FormatProgress(kHalf, 45),
            "score  50% 500/1000 tokens  50.0/s  0:10");
  EXPECT_EQ(FormatProgress(kHalf, 20), "score  50%");
}

TEST(FormatProgressTest, RatesAndTimesHaveUnits) {
  EXPECT_THAT(
      FormatProgress({"p", "tokens", 25000, 100000000, absl::Seconds(2)}, 80),
      HasSubstr("12.5k/s  2:13:18"));
  EXPECT_THAT(
      FormatProgress({"p", "tokens", 5000000, 5000000, absl::Seconds(2)}, 80),
      HasSubstr("2.5M/s  0:00"));
}

TEST(FormatProgressTest, NothingDoneHasNoRate) {
  EXPECT_THAT(FormatProgress({"p", "tokens", 0, 10, absl::Seconds(1)}, 80),
              testing::EndsWith("0/10 tokens"));
  EXPECT_THAT(FormatProgress({"p", "tokens", 0, 0, absl::Seconds(1)}, 80),
              HasSubstr("100%"));
}

TEST(FormatProgressTest, ANoteStandsInPlaceOfTheRate) {
  Progress progress = kHalf;
  progress.note = "12 errors";
  EXPECT_EQ(FormatProgress(progress, 60),
            "score  50% [#######       ] 500/1000 tokens  12 errors  0:10");
}

TEST(FormatProgressTest, AnEndlessTaskHasNoBar) {
  Progress progress{"load", "s", 12, Progress::kEndless, absl::Seconds(12)};
  EXPECT_EQ(FormatProgress(progress, 80), "load  12 s");
  progress.note = "34 tokens/s";
  EXPECT_EQ(FormatProgress(progress, 80), "load  12 s  34 tokens/s");
  EXPECT_EQ(FormatProgress(progress, 10), "load  12 s");
}

class ProgressBarTest : public testing::Test {
 protected:
  ProgressBar::Terminal Terminal() {
    return {[this](absl::string_view text) { drawn_.emplace_back(text); },
            [] { return size_t{40}; }, [this] { return now_; }};
  }

  std::chrono::steady_clock::time_point now_;
  std::vector<std::string> drawn_;
};

TEST_F(ProgressBarTest, ShortTasksDrawNothing) {
  {
    ProgressBar bar("score", "tokens", 100, Terminal());
    now_ += std::chrono::milliseconds(200);
    bar.Update(100);
  }
  EXPECT_THAT(drawn_, IsEmpty());
}

TEST_F(ProgressBarTest, DrawsAtMostTenTimesASecondAndErasesAtTheEnd) {
  {
    ProgressBar bar("score", "tokens", 1000, Terminal());
    for (size_t i = 0; i <= 1000; ++i) {
      bar.Update(i);
      now_ += std::chrono::milliseconds(1);
    }
  }
  // At 300, 400, ... 1000 ms, and the end.
  EXPECT_THAT(drawn_, SizeIs(9));
  for (const std::string& text : drawn_) {
    EXPECT_THAT(text, testing::StartsWith("\r\033[K"));
    EXPECT_LE(text.size(), 4u + 39u);
  }
  EXPECT_EQ(drawn_.back(), "\r\033[K");
}

TEST_F(ProgressBarTest, WithoutATerminalNothingIsDrawn) {
  {
    ProgressBar::Terminal terminal = Terminal();
    terminal.write = nullptr;
    ProgressBar bar("score", "tokens", 10, terminal);
    now_ += std::chrono::seconds(10);
    bar.Update(5);
  }
  EXPECT_THAT(drawn_, IsEmpty());
}

}  // namespace
}  // namespace steadystate::client
