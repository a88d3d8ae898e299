// Goal: blocks of the usual size go round, up to a bound; others come and go.
// Method: the process is the test's own, so nobody else takes any.
#include "server/rpc/arena_blocks.h"

#include <set>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

TEST(ArenaBlocksTest, TheBlockGivenBackLastIsGivenOutFirst) {
  void* const one = ArenaBlocks::Allocate(ArenaBlocks::kBytes);
  void* const other = ArenaBlocks::Allocate(ArenaBlocks::kBytes);
  EXPECT_NE(one, other);
  ArenaBlocks::Free(one, ArenaBlocks::kBytes);
  ArenaBlocks::Free(other, ArenaBlocks::kBytes);
  EXPECT_EQ(ArenaBlocks::Allocate(ArenaBlocks::kBytes), other);
  EXPECT_EQ(ArenaBlocks::Allocate(ArenaBlocks::kBytes), one);
  ArenaBlocks::Free(one, ArenaBlocks::kBytes);
  ArenaBlocks::Free(other, ArenaBlocks::kBytes);
}

TEST(ArenaBlocksTest, TakesBackMoreThanItKeeps) {
  constexpr size_t kBlocks = 2000;
  std::set<void*> blocks;
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks.insert(ArenaBlocks::Allocate(ArenaBlocks::kBytes));
  }
  EXPECT_EQ(blocks.size(), kBlocks);
  for (void* block : blocks) ArenaBlocks::Free(block, ArenaBlocks::kBytes);
}

TEST(ArenaBlocksTest, OtherSizesAreWhatTheySay) {
  void* const kept = ArenaBlocks::Allocate(ArenaBlocks::kBytes);
  ArenaBlocks::Free(kept, ArenaBlocks::kBytes);
  constexpr size_t kLarge = 10 * ArenaBlocks::kBytes;
  auto* const large = static_cast<char*>(ArenaBlocks::Allocate(kLarge));
  EXPECT_NE(large, kept);
  large[kLarge - 1] = 1;
  ArenaBlocks::Free(large, kLarge);
}

}  // namespace
}  // namespace steadystate
