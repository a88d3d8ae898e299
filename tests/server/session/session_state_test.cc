// Goal: what a session keeps beside the model's state, and what it costs.
#include "server/session/session_state.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "server/model/sampler.h"

namespace steadystate::session_state_test {
namespace {

constexpr size_t kHidden = 24;
constexpr size_t kHistory = 100;

StateLayout MakeLayout() {
  StateLayoutBuilder builder;
  EXPECT_TRUE(builder.AddFixed(0, "S", {2, 3, 5}).ok());
  return std::move(builder).Build();
}

StateLayout MakeGrowingLayout(uint64_t cap) {
  StateLayoutBuilder builder;
  EXPECT_TRUE(builder.AddFixed(0, "S", {4}).ok());
  EXPECT_TRUE(builder.AddPerToken(1, "kv", cap, {2, 256}).ok());
  return std::move(builder).Build();
}

class SessionStateTest : public testing::Test {
 protected:
  SessionStateTest()
      : state_layout_(MakeLayout()),
        layout_(state_layout_, kHidden, kHistory),
        pool_(layout_.slot(), layout_.charge_bytes(),
              8 * layout_.charge_bytes()) {}

  std::vector<int32_t> Recent(const SessionState& session) {
    std::array<int32_t, kMaxPenaltyWindow> recent;
    const size_t count = session.CopyRecent(recent);
    return {recent.begin(), recent.begin() + static_cast<ptrdiff_t>(count)};
  }

  StateLayout state_layout_;
  SessionLayout layout_;
  StatePool pool_;
  std::vector<float> hidden_ = std::vector<float>(kHidden, 0.5f);
};

TEST_F(SessionStateTest, ChargesEverythingItHolds) {
  EXPECT_GE(layout_.charge_bytes(),
            state_layout_.bytes() + kHidden * sizeof(float) +
                kMaxPenaltyWindow * sizeof(int32_t) + sizeof(SessionState));
  EXPECT_EQ(layout_.slot().bytes % 64, 0u);
  EXPECT_EQ(layout_.slot().bytes, layout_.slot().fixed_bytes);
}

TEST_F(SessionStateTest, CopiesAsManyRecentTokensAsAreWanted) {
  SessionState session(layout_, *pool_.Allocate());
  const std::vector<int32_t> tokens = {1, 2, 3, 4};
  session.Absorbed(tokens.size(), tokens, hidden_.data());
  std::array<int32_t, 2> two;
  EXPECT_EQ(session.CopyRecent(two), 2u);
  EXPECT_EQ(two[0], 3);
  EXPECT_EQ(two[1], 4);
  EXPECT_EQ(session.CopyRecent({}), 0u);
}

TEST_F(SessionStateTest, BeginsWithNothing) {
  const SessionState session(layout_, *pool_.Allocate());
  EXPECT_EQ(session.position(), 0u);
  EXPECT_EQ(session.pending_hidden(), nullptr);
  EXPECT_TRUE(Recent(session).empty());
  EXPECT_EQ(session.unfinished_text(), "");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(session.model_state()) % 64, 0u);
}

TEST_F(SessionStateTest, KeepsTheLatestTokensInOrder) {
  SessionState session(layout_, *pool_.Allocate());
  std::vector<int32_t> tokens(kMaxPenaltyWindow * 2 + 7);
  std::iota(tokens.begin(), tokens.end(), 0);
  size_t absorbed = 0;
  for (const size_t rows : {size_t{5}, kMaxPenaltyWindow, tokens.size()}) {
    const size_t count = std::min(rows, tokens.size() - absorbed);
    session.Absorbed(count, std::span(tokens).subspan(absorbed, count),
                     hidden_.data());
    absorbed += count;
    const size_t kept = std::min(absorbed, kMaxPenaltyWindow);
    EXPECT_EQ(Recent(session),
              std::vector<int32_t>(
                  tokens.begin() + static_cast<ptrdiff_t>(absorbed - kept),
                  tokens.begin() + static_cast<ptrdiff_t>(absorbed)));
  }
  EXPECT_EQ(session.position(), tokens.size());
}

TEST_F(SessionStateTest, EmbeddingsAdvanceButAreNoTokens) {
  SessionState session(layout_, *pool_.Allocate());
  session.Absorbed(1, std::array{7}, hidden_.data());
  session.Absorbed(3, {}, hidden_.data());
  EXPECT_EQ(session.position(), 4u);
  EXPECT_EQ(Recent(session), std::vector<int32_t>{7});
}

TEST_F(SessionStateTest, KeepsTheLastHiddenVectorUntilItIsNotFinite) {
  SessionState session(layout_, *pool_.Allocate());
  session.Absorbed(1, std::array{7}, hidden_.data());
  ASSERT_NE(session.pending_hidden(), nullptr);
  EXPECT_TRUE(
      std::equal(hidden_.begin(), hidden_.end(), session.pending_hidden()));
  session.Absorbed(1, std::array{7}, nullptr);
  EXPECT_EQ(session.pending_hidden(), nullptr);
  EXPECT_EQ(session.position(), 2u);
}

TEST_F(SessionStateTest, AbsorbingDropsTheUnfinishedCharacter) {
  SessionState session(layout_, *pool_.Allocate());
  session.set_unfinished_text("\xe2\x82");
  EXPECT_EQ(session.unfinished_text(), "\xe2\x82");
  session.Absorbed(1, std::array{7}, hidden_.data());
  EXPECT_EQ(session.unfinished_text(), "");
}

TEST_F(SessionStateTest, AnEndedSessionLeavesNothingBehind) {
  const std::byte* slot = nullptr;
  {
    SessionState session(layout_, *pool_.Allocate());
    session.WillAbsorb(3);
    std::fill_n(session.model_state(), state_layout_.bytes(), std::byte{0xa5});
    session.Absorbed(3, std::array{7, 8, 9}, hidden_.data());
    slot = reinterpret_cast<const std::byte*>(session.pending_hidden());
  }
  const StateLease reused = *pool_.Allocate();
  ASSERT_EQ(reused.bytes(), slot);
  EXPECT_TRUE(std::all_of(slot, slot + layout_.slot().bytes,
                          [](std::byte b) { return b == std::byte{0}; }));
}

// That is what most memory is: a session's own is in the slot.
TEST_F(SessionStateTest, ASessionThatNeverAdvancedLeavesItsSlotUntouched) {
  const std::byte* slot = nullptr;
  {
    const SessionState session(layout_, *pool_.Allocate());
    slot = session.model_state();
    EXPECT_EQ(session.pending_hidden(), nullptr);
    std::array<int32_t, 4> recent;
    EXPECT_EQ(session.CopyRecent(recent), 0u);
  }
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(slot) / page * page;
  unsigned char resident = 0;
  ASSERT_EQ(mincore(reinterpret_cast<void*>(address), page, &resident), 0);
  EXPECT_EQ(resident & 1, 0);
}

TEST(GrowingSessionStateTest, AnEndedSessionLeavesNothingBehind) {
  constexpr uint64_t kCap = 64;
  const StateLayout state_layout = MakeGrowingLayout(kCap);
  const SessionLayout layout(state_layout, kHidden, kHistory);
  EXPECT_EQ(layout.context_cap(), kCap);
  EXPECT_LT(layout.slot().fixed_bytes, layout.slot().bytes);
  for (const size_t rows : {size_t{1}, size_t{7}, size_t{kCap}}) {
    StatePool pool(layout.slot(), layout.charge_bytes(), layout.charge_bytes());
    {
      SessionState session(layout, *pool.Allocate());
      session.WillAbsorb(rows);
      std::fill_n(session.model_state(), state_layout.used_bytes(rows),
                  std::byte{0xa5});
    }
    const StateLease reused = *pool.Allocate();
    EXPECT_TRUE(std::all_of(reused.bytes(),
                            reused.bytes() + layout.slot().bytes,
                            [](std::byte b) { return b == std::byte{0}; }));
  }
}

}  // namespace
}  // namespace steadystate::session_state_test
