// Goal: the norms are those of the elements, and one element that is not finite
// is found wherever it is; what a session has not written is not looked at.
// Method: a layout with a slot of each form, filled by hand.
#include "server/model/state_norms.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/state/packed_matrix.h"

namespace steadystate::state_norms_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kCap = 5;
constexpr size_t kColumns = 70;

// A layout, and a state of it, of zeros.
struct State {
  explicit State(StateDType matrices) {
    StateLayoutBuilder builder(matrices);
    EXPECT_TRUE(builder.AddFixed(0, "conv", {3, 4}).ok());
    EXPECT_TRUE(builder.AddFixedDoubles(0, "Z", {2}).ok());
    EXPECT_TRUE(builder.AddMatrices(1, "S", {2, kColumns}).ok());
    EXPECT_TRUE(builder.AddPerToken(2, "kv", kCap, {3}).ok());
    layout = std::move(builder).Build();
    bytes.resize(layout.bytes() / sizeof(double));
  }

  std::byte* data() { return reinterpret_cast<std::byte*>(bytes.data()); }
  const StateSlot& Slot(const std::string& name) const {
    for (const StateSlot& slot : layout.slots()) {
      if (slot.name == name) return slot;
    }
    ADD_FAILURE() << "no " << name;
    return layout.slots().front();
  }
  template <typename T>
  T* In(const std::string& name) {
    return reinterpret_cast<T*>(data() + Slot(name).offset);
  }
  std::vector<SlotNorm> Norms(uint64_t position) {
    return NormsOf(layout, data(), position);
  }
  bool Finite(uint64_t position) { return IsFinite(layout, data(), position); }

  StateLayout layout;
  std::vector<double> bytes;  // aligned for all
};

class StateNormsTest : public testing::TestWithParam<StateDType> {
 protected:
  StateNormsTest() : state_(GetParam()) {}

  State state_;
};

INSTANTIATE_TEST_SUITE_P(All, StateNormsTest,
                         testing::Values(StateDType::kF32, StateDType::kBf16,
                                         StateDType::kInt16),
                         [](const testing::TestParamInfo<StateDType>& tested) {
                           return std::string(Name(tested.param));
                         });

TEST_P(StateNormsTest, AreOfEachSlotAndOfTheRowsInUse) {
  state_.In<float>("conv")[1] = 3;
  state_.In<float>("conv")[11] = -4;
  state_.In<double>("Z")[1] = -2;
  for (size_t row = 0; row < kCap; ++row) {
    *reinterpret_cast<float*>(state_.data() + state_.Slot("kv").offset +
                              row * state_.Slot("kv").row_stride) = 1;
  }
  const std::vector<SlotNorm> norms = state_.Norms(4);
  ASSERT_EQ(norms.size(), 4u);
  EXPECT_EQ(norms[0].name, "conv");
  EXPECT_EQ(norms[0].l2_norm, 5);
  EXPECT_EQ(norms[0].max_abs, 4);
  EXPECT_EQ(norms[1].name, "Z");
  EXPECT_EQ(norms[1].l2_norm, 2);
  EXPECT_EQ(norms[2].name, "S");
  EXPECT_EQ(norms[2].layer, 1u);
  EXPECT_EQ(norms[2].l2_norm, 0);
  EXPECT_EQ(norms[3].name, "kv");
  EXPECT_EQ(norms[3].layer, 2u);
  EXPECT_EQ(norms[3].l2_norm, 2);
  for (const SlotNorm& norm : state_.Norms(0)) EXPECT_EQ(norm.l2_norm, 0);
  EXPECT_TRUE(state_.Finite(kCap));
}

TEST_P(StateNormsTest, WhatIsNotFiniteIsFoundAndCountsForNothingElse) {
  for (const float bad :
       {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    State state(GetParam());
    state.In<float>("conv")[0] = 2;
    state.In<float>("conv")[11] = bad;
    EXPECT_FALSE(state.Finite(1));
    EXPECT_EQ(state.Norms(1)[0].non_finite, 1u);
    EXPECT_EQ(state.Norms(1)[0].l2_norm, 2);
    EXPECT_TRUE(state.Finite(0));
    state.In<float>("conv")[11] = 0;
    EXPECT_TRUE(state.Finite(1));
    state.In<double>("Z")[1] = double{bad};
    EXPECT_FALSE(state.Finite(1));
    EXPECT_EQ(state.Norms(1)[1].non_finite, 1u);
    state.In<double>("Z")[1] = 0;
    // Row 2 is there from position 3 on.
    *reinterpret_cast<float*>(state.data() + state.Slot("kv").offset +
                              2 * state.Slot("kv").row_stride +
                              2 * sizeof(float)) = bad;
    EXPECT_TRUE(state.Finite(2));
    EXPECT_EQ(state.Norms(2)[3].non_finite, 0u);
    EXPECT_FALSE(state.Finite(3));
    EXPECT_EQ(state.Norms(3)[3].non_finite, 1u);
  }
}

TEST_P(StateNormsTest, AMatrixIsReadAsItIsKept) {
  std::vector<float> matrix(2 * kColumns);
  for (size_t i = 0; i < matrix.size(); ++i) {
    matrix[i] = i % 3 == 0 ? 1 : -0.5f;
  }
  for (const bool finite : {true, false}) {
    if (!finite) matrix.back() = kInfinity;
    uint32_t row_noise[2];
    uint32_t column_noise[kColumns];
    const RoundingNoise noise = MakeRoundingNoise(
        {}, kInt16NoiseBits, 2, kColumns, row_noise, column_noise);
    switch (GetParam()) {
      case StateDType::kF32:
        std::copy(matrix.begin(), matrix.end(), state_.In<float>("S"));
        break;
      case StateDType::kBf16:
        PackBf16(2, kColumns, matrix.data(), noise, state_.In<uint16_t>("S"));
        break;
      case StateDType::kInt16:
        PackInt16(2, kColumns, matrix.data(), noise, state_.In<int16_t>("S"),
                  state_.In<uint8_t>("S.exponents"));
        break;
    }
    const SlotNorm norm = state_.Norms(1)[2];
    EXPECT_EQ(state_.Finite(1), finite);
    // In int16 a group of six columns is lost as a whole.
    const size_t lost = finite ? 0 : GetParam() == StateDType::kInt16 ? 6 : 1;
    EXPECT_EQ(norm.non_finite, lost);
    double sum = 0;
    for (size_t i = 0; i + lost < matrix.size(); ++i) {
      sum += double{matrix[i]} * double{matrix[i]};
    }
    EXPECT_DOUBLE_EQ(norm.l2_norm, std::sqrt(sum));
    EXPECT_EQ(norm.max_abs, 1);
  }
}

TEST(StateNormsOfInt8Test, RowsAreReadInTheirUnits) {
  StateLayoutBuilder builder(StateDType::kF32, SlotType::kInt8);
  ASSERT_TRUE(builder.AddRing(0, "kv", {2, 2, 3}).ok());
  ASSERT_TRUE(builder.AddPerToken(1, "kv", kCap, {2, 2}).ok());
  const StateLayout layout = std::move(builder).Build();
  std::vector<double> bytes(layout.bytes() / sizeof(double));
  auto* const state = reinterpret_cast<std::byte*>(bytes.data());
  const auto at = [&](size_t slot, size_t row) {
    const StateSlot& of = layout.slots()[slot];
    return state + of.offset + row * of.row_stride;
  };
  // The third row of the ring: 3, 0, -4 of a half.
  at(0, 0)[6] = std::byte{3};
  at(0, 0)[8] = std::byte{0xFC};
  reinterpret_cast<float*>(at(1, 0))[2] = 0.5F;
  // Of the token at 1 the second row, of that at 2 the first.
  at(2, 1)[3] = std::byte{2};
  reinterpret_cast<float*>(at(3, 1))[1] = 3.0F;
  at(2, 2)[0] = std::byte{8};
  reinterpret_cast<float*>(at(3, 2))[0] = 1.0F;
  std::vector<SlotNorm> norms = NormsOf(layout, state, 3);
  ASSERT_EQ(norms.size(), 2u);
  EXPECT_EQ(norms[0].l2_norm, 2.5);
  EXPECT_EQ(norms[0].max_abs, 2);
  EXPECT_EQ(norms[1].layer, 1u);
  EXPECT_EQ(norms[1].l2_norm, 10);
  EXPECT_EQ(norms[1].max_abs, 8);
  EXPECT_EQ(NormsOf(layout, state, 2)[1].l2_norm, 6);
  EXPECT_TRUE(IsFinite(layout, state, 3));
  reinterpret_cast<float*>(at(3, 2))[0] = kInfinity;
  EXPECT_TRUE(IsFinite(layout, state, 2));
  EXPECT_FALSE(IsFinite(layout, state, 3));
  norms = NormsOf(layout, state, 3);
  // Infinity times 8, and times the 0 beside it.
  EXPECT_EQ(norms[1].non_finite, 2u);
  EXPECT_EQ(norms[1].l2_norm, 6);
}

TEST_P(StateNormsTest, NoSquareLeavesTheRangeOfDoubles) {
  state_.In<double>("Z")[0] = 3e200;
  state_.In<double>("Z")[1] = -4e200;
  EXPECT_DOUBLE_EQ(state_.Norms(1)[1].l2_norm, 5e200);
  state_.In<double>("Z")[0] = 3e-200;
  state_.In<double>("Z")[1] = 4e-200;
  EXPECT_DOUBLE_EQ(state_.Norms(1)[1].l2_norm, 5e-200);
}

}  // namespace
}  // namespace steadystate::state_norms_test
