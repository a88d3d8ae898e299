// Goal: memory that the heap keeps without use goes back to the system, and
// what is in use now and then does not. Method: a heap that says what it is
// told to, a look after the other.
#include "server/base/memory_trimmer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <vector>

#include "gtest/gtest.h"

namespace steadystate::memory_trimmer_test {
namespace {

constexpr uint64_t kMuch = MemoryTrimmer::kWorthWhile;

// How often memory is handed back while the heap keeps, from look to look,
// these amounts; 0 before the first.
int TrimsDuring(const std::vector<uint64_t>& unused) {
  std::atomic<int> trims = 0;
  size_t look = 0;
  std::promise<void> over;
  bool trimming = false;
  const MemoryTrimmer trimmer(
      {.unused =
           [&] {
             if (look == unused.size() + 1) over.set_value();
             // The question after a trim is not a look.
             if (trimming) {
               trimming = false;
               return unused[std::min(look, unused.size()) - 1];
             }
             ++look;
             return look > unused.size() ? 0 : unused[look - 1];
           },
       .trim =
           [&] {
             ++trims;
             trimming = true;
           }},
      std::chrono::milliseconds(0));
  over.get_future().wait();
  return trims;
}

TEST(MemoryTrimmerTest, TrimsWhatIsNotUsedFromOneLookToTheNext) {
  EXPECT_EQ(TrimsDuring({kMuch}), 0);
  EXPECT_EQ(TrimsDuring({kMuch, kMuch}), 1);
  EXPECT_EQ(TrimsDuring({kMuch, kMuch - 1, kMuch}), 0);
}

TEST(MemoryTrimmerTest, LeavesAloneWhatIsUsedAgainAndAgain) {
  EXPECT_EQ(TrimsDuring({9 * kMuch, 0, 9 * kMuch, 0, 9 * kMuch, 0}), 0);
}

// The heap counts it as without use all the same.
TEST(MemoryTrimmerTest, DoesNotHandBackTheSameAgain) {
  EXPECT_EQ(TrimsDuring({kMuch, kMuch, kMuch, kMuch, 2 * kMuch - 1,
                         2 * kMuch - 1, 2 * kMuch - 1}),
            1);
  EXPECT_EQ(TrimsDuring({kMuch, kMuch, 2 * kMuch, 2 * kMuch}), 2);
}

// As after a burst that has taken and freed between two looks what was handed
// back before.
TEST(MemoryTrimmerTest, HandsBackTheSameAgainOnceInAWhile) {
  const auto looks = [](int count, uint64_t unused) {
    return std::vector<uint64_t>(static_cast<size_t>(count), unused);
  };
  constexpr int kLooks = MemoryTrimmer::kLooksBetweenTrims;
  EXPECT_EQ(TrimsDuring(looks(2 + kLooks - 1, kMuch)), 1);
  EXPECT_EQ(TrimsDuring(looks(2 + kLooks, kMuch)), 2);
  EXPECT_EQ(TrimsDuring(looks(100 * kLooks, kMuch - 1)), 0);
}

TEST(MemoryTrimmerTest, BeginsAnewWhereItHasBeenUsedAgain) {
  EXPECT_EQ(TrimsDuring({kMuch, kMuch, 0, kMuch, kMuch}), 2);
}

TEST(MemoryTrimmerTest, EndsInTheMidstOfAPause) {
  const MemoryTrimmer trimmer(
      {.unused = [] { return uint64_t{0}; }, .trim = [] {}},
      std::chrono::hours(1));
}

}  // namespace
}  // namespace steadystate::memory_trimmer_test
