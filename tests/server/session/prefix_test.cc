// Goal: two beginnings of prompts have equal digests if and only if everything
// that decides the state after them is equal, and a session's own state is
// known for such a one exactly when it is what a new session's prompt makes.
#include "server/session/prefix.h"

#include <cstdint>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "server/model/state_layout.h"
#include "server/session/session_id.h"

namespace steadystate::prefix_test {
namespace {

constexpr PrefixOrigin kOrigin = {.owner = "o", .numerics = 7, .piece_rows = 4};

std::vector<int32_t> Prompt(size_t size) {
  std::vector<int32_t> prompt(size);
  for (size_t i = 0; i < size; ++i) prompt[i] = static_cast<int32_t>(i % 5);
  return prompt;
}

TEST(PrefixTest, HasADigestForEachPieceAndTheWhole) {
  const std::vector<PrefixDigest> digests = PrefixesOf(kOrigin, Prompt(10));
  ASSERT_EQ(digests.size(), 3u);
  const std::vector<PrefixDigest> eight = PrefixesOf(kOrigin, Prompt(8));
  ASSERT_EQ(eight.size(), 2u);
  EXPECT_EQ(eight[0], digests[0]);
  EXPECT_EQ(eight[1], digests[1]);
  EXPECT_EQ(PrefixesOf(kOrigin, Prompt(10)), digests);
  // What ends within a piece is nothing that goes on.
  EXPECT_NE(PrefixesOf(kOrigin, Prompt(12)).back(), digests.back());
  EXPECT_TRUE(PrefixesOf(kOrigin, {}).empty());
}

TEST(PrefixTest, TellsApartWhateverDecidesTheState) {
  std::set<PrefixDigest> seen;
  const auto differs = [&](const PrefixOrigin& origin,
                           const std::vector<int32_t>& prompt) {
    const std::vector<PrefixDigest> digests = PrefixesOf(origin, prompt);
    return !digests.empty() && seen.insert(digests.back()).second;
  };
  EXPECT_TRUE(differs(kOrigin, Prompt(8)));
  EXPECT_FALSE(differs(kOrigin, Prompt(8)));
  PrefixOrigin other = kOrigin;
  other.owner = "p";
  EXPECT_TRUE(differs(other, Prompt(8)));
  other = kOrigin;
  other.numerics = 8;
  EXPECT_TRUE(differs(other, Prompt(8)));
  other = kOrigin;
  other.piece_rows = 8;
  EXPECT_TRUE(differs(other, Prompt(8)));
  for (size_t i = 0; i < 8; ++i) {
    std::vector<int32_t> prompt = Prompt(8);
    prompt[i] ^= 1 << 20;
    EXPECT_TRUE(differs(kOrigin, prompt)) << i;
  }
}

TEST(PrefixTest, HasNoneWhereNumericsAreNotKnown) {
  PrefixOrigin origin = kOrigin;
  origin.numerics = 0;
  EXPECT_TRUE(PrefixesOf(origin, Prompt(8)).empty());
}

TEST(PrefixTest, IsTheIdOfWhatIsKept) {
  const PrefixDigest digest = PrefixesOf(kOrigin, Prompt(8)).back();
  EXPECT_EQ(PrefixOfId(PrefixId(digest)), digest);
  EXPECT_EQ(PrefixOfId(PrefixId({1, 2})), (PrefixDigest{1, 2}));
  EXPECT_FALSE(PrefixOfId("a").has_value());
  EXPECT_FALSE(PrefixOfId("!a").has_value());
  EXPECT_FALSE(PrefixOfId("#12").has_value());
}

// A session's history, as one that has absorbed these pieces has it.
struct Absorbed {
  size_t rows = 0;
  bool drawn = false;
  bool embedded = false;
};

std::optional<PrefixDigest> DigestAfter(const std::vector<Absorbed>& pieces,
                                        size_t history, uint64_t position) {
  const StateLayout model;
  const SessionLayout layout(model, 1, history);
  StatePool pool(layout.slot(), layout.charge_bytes(),
                 layout.charge_bytes() * 2);
  SessionState state(layout, *pool.Allocate());
  const std::vector<int32_t> prompt = Prompt(100);
  const float hidden = 0;
  size_t at = 0;
  for (const Absorbed& piece : pieces) {
    std::span<const int32_t> tokens = std::span(prompt).subspan(at, piece.rows);
    if (piece.embedded) tokens = {};
    state.WillAbsorb(piece.rows);
    state.Absorbed(piece.rows, tokens, &hidden, piece.drawn);
    at += piece.rows;
  }
  return PrefixAt(kOrigin, state, position);
}

TEST(PrefixTest, IdsTellWhatIsKept) {
  EXPECT_EQ(KindOfId("a"), SessionKind::kSession);
  EXPECT_EQ(KindOfId(NewSessionId()), SessionKind::kSession);
  EXPECT_EQ(KindOfId(CheckpointId("a")), SessionKind::kCheckpoint);
  EXPECT_EQ(KindOfId(PrefixId({1, 2})), SessionKind::kKeptPrompt);
  // Of one that nobody can name.
  EXPECT_EQ(KindOfId(""), SessionKind::kSession);
}

TEST(PrefixTest, IsKnownOfASessionThatHasOnlyHadAPrompt) {
  const auto digest = [](uint64_t size) {
    return PrefixesOf(kOrigin, Prompt(static_cast<size_t>(size))).back();
  };
  const std::vector<Absorbed> prompt = {{4}, {4}, {2}};
  EXPECT_EQ(DigestAfter(prompt, 16, 10), digest(10));
  EXPECT_EQ(DigestAfter(prompt, 16, 8), digest(8));
  EXPECT_EQ(DigestAfter(prompt, 16, 4), digest(4));
  // As it would be had the last piece been cut short.
  EXPECT_EQ(DigestAfter(prompt, 16, 9), digest(9));
  EXPECT_FALSE(DigestAfter(prompt, 16, 0).has_value());
  // Of what came later nothing shows.
  EXPECT_EQ(DigestAfter({{4}, {4}, {1, true}}, 16, 8), digest(8));
  EXPECT_FALSE(DigestAfter({{4}, {4}, {1, true}}, 16, 9).has_value());
  // Cut otherwise; longer than what is remembered; not of tokens.
  EXPECT_FALSE(DigestAfter({{3}, {4}, {1}}, 16, 8).has_value());
  EXPECT_FALSE(DigestAfter({{4}, {2}, {2}}, 16, 8).has_value());
  EXPECT_FALSE(DigestAfter(prompt, 8, 8).has_value());
  EXPECT_FALSE(DigestAfter({{4}, {4, false, true}}, 16, 8).has_value());
}

}  // namespace
}  // namespace steadystate::prefix_test
