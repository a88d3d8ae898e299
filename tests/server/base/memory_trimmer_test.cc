// Goal: memory goes back to the system when the need for much of it is over,
// and not before.
#include "server/base/memory_trimmer.h"

#include <atomic>
#include <future>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

constexpr int64_t kMuch = MemoryTrimmer::kWorthWhile;

TEST(MemoryTrimmerTest, TrimsWhenMuchIsNotUsedAnyMore) {
  std::promise<void> trimmed;
  MemoryTrimmer trimmer([&trimmed] { trimmed.set_value(); });
  trimmer.Use(2 * kMuch);
  trimmer.Use(-kMuch / 2);
  trimmer.Use(-kMuch / 2);
  trimmed.get_future().wait();
}

TEST(MemoryTrimmerTest, BeginsAnewAfterwards) {
  std::atomic<int> count = 0;
  {
    std::promise<void> trimmed;
    MemoryTrimmer trimmer([&] {
      if (++count == 1) trimmed.set_value();
    });
    trimmer.Use(2 * kMuch);
    trimmer.Use(-kMuch);
    trimmed.get_future().wait();
    trimmer.Use(1 - kMuch);
  }
  EXPECT_EQ(count, 1);
}

TEST(MemoryTrimmerTest, LeavesAloneWhatIsUsedAgainAndAgain) {
  std::atomic<int> count = 0;
  {
    MemoryTrimmer trimmer([&count] { ++count; });
    trimmer.Use(10 * kMuch);
    for (int i = 0; i < 1000; ++i) {
      trimmer.Use(-4 * kMuch);
      trimmer.Use(4 * kMuch);
    }
  }
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace steadystate
