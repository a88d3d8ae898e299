// Goal: the shift is the difference from the token before, across calls, from
// zeros at first, for each session by itself. Method: a few numbers by hand.
#include "server/model/parts/rwkv_layer.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/part_harness.h"

namespace steadystate::rwkv_layer_test {
namespace {

constexpr size_t kD = 2;

class TokenShiftTest : public testing::Test {
 protected:
  TokenShiftTest()
      : harness_({.config = {{"model_type", "none"}}, .tensors = {}}, kD) {
    auto shift = TokenShift::Make(harness_.builder(), "shift");
    EXPECT_TRUE(shift.ok()) << shift.status();
    shift_ = *std::move(shift);
    harness_.Start(8, 2);
  }

  // Deltas of rows that are cut into segments.
  std::vector<float> Run(const std::vector<Segment>& segments,
                         const std::vector<float>& x) {
    std::vector<float> delta(x.size());
    shift_.Run(segments, x.data(), delta.data(), harness_.buffers());
    return delta;
  }

  PartHarness harness_;
  TokenShift shift_;
};

TEST_F(TokenShiftTest, FirstTokenFollowsZeros) {
  EXPECT_EQ(Run({harness_.segment(0, 1)}, {3, -5}),
            (std::vector<float>{-3, 5}));
}

TEST_F(TokenShiftTest, LastRowIsRememberedAcrossCalls) {
  EXPECT_EQ(Run({harness_.segment(0, 3)}, {1, 2, 4, 8, 3, 1}),
            (std::vector<float>{-1, -2, -3, -6, 1, 7}));
  EXPECT_EQ(Run({harness_.segment(3, 2)}, {5, 5, 5, 6}),
            (std::vector<float>{-2, -4, 0, -1}));
}

TEST_F(TokenShiftTest, SessionsInABatchDoNotMix) {
  AlignedFloats other(harness_.layout().bytes() / sizeof(float));
  Segment second = harness_.segment(0, 2);
  second.state = reinterpret_cast<std::byte*>(other.data());
  second.first_row = 1;
  EXPECT_EQ(Run({harness_.segment(0, 1), second}, {1, 1, 2, 2, 5, 5}),
            (std::vector<float>{-1, -1, -2, -2, -3, -3}));
  EXPECT_EQ(Run({harness_.segment(1, 1)}, {4, 5}),
            (std::vector<float>{-3, -4}));
}

TEST_F(TokenShiftTest, ShareSaysHowMuchOfTheTokenBeforeIsRead) {
  // Rows (1, 2) and (3, 4); the token before them was (5, 6), then (1, 2).
  const std::vector<float> x = {1, 2, 3, 4};
  const std::vector<float> delta = {4, 4, -2, -2};
  const std::vector<float> share = {0.25f, 1};
  std::vector<float> mixed(4);
  MixInShifts(2, x.data(), delta.data(), share, mixed.data(),
              harness_.buffers());
  EXPECT_EQ(mixed, (std::vector<float>{2, 6, 2.5f, 2}));
}

}  // namespace
}  // namespace steadystate::rwkv_layer_test
