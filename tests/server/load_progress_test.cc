// Goal: a long load is heard of now and then, a short one never. Method: a
// clock that the test sets.
#include "server/load_progress.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/manual_clock.h"

namespace steadystate::load_progress_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(LoadProgressTest, IsSaidEveryFewSeconds) {
  ManualClock clock;
  std::vector<std::pair<int, absl::Duration>> said;
  LoadProgress progress(clock, [&said](int percent, absl::Duration since) {
    said.emplace_back(percent, since);
  });
  progress.Note(0, 200);
  clock.Advance(LoadProgress::kEvery - absl::Milliseconds(1));
  progress.Note(50, 200);
  EXPECT_THAT(said, IsEmpty());
  clock.Advance(absl::Milliseconds(1));
  progress.Note(51, 200);
  progress.Note(52, 200);
  EXPECT_THAT(said, ElementsAre(Pair(25, LoadProgress::kEvery)));
  clock.Advance(LoadProgress::kEvery);
  // More than a 64-bit integer holds in hundredths.
  progress.Note(uint64_t{1} << 62, (uint64_t{1} << 62) + 1);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_THAT(said.back(), Pair(100, 2 * LoadProgress::kEvery));
}

}  // namespace
}  // namespace steadystate::load_progress_test
