// Goal: a session's bytes are where the layout says. Method: small layouts,
// offsets computed by hand.
#include "server/model/state_layout.h"

#include <cstdint>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/workspace.h"

namespace steadystate::state_layout_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::byte* Bytes(const AlignedFloats& floats) {
  return reinterpret_cast<std::byte*>(floats.data());
}

TEST(StateLayoutTest, FixedSlotsFollowEachOtherOnCacheLines) {
  StateLayoutBuilder builder;
  ASSERT_TRUE(builder.AddFixed(0, "S", {2, 3, 5}).ok());  // 120 bytes
  const auto conv = builder.AddFixed(1, "conv", {3, 4});  // 48 bytes
  ASSERT_TRUE(conv.ok());
  const StateLayout layout = std::move(builder).Build();

  ASSERT_EQ(layout.slots().size(), 2u);
  EXPECT_EQ(layout.slots()[0].offset, 0u);
  EXPECT_EQ(layout.slots()[0].bytes, 120u);
  EXPECT_THAT(layout.slots()[0].shape, ElementsAre(2, 3, 5));
  EXPECT_EQ(layout.slots()[1].layer, 1u);
  EXPECT_EQ(layout.slots()[1].name, "conv");
  EXPECT_EQ(layout.slots()[1].offset, 128u);
  EXPECT_EQ(layout.fixed_bytes(), 192u);
  EXPECT_EQ(layout.bytes(), 192u);
  EXPECT_EQ(layout.token_bytes(), 0u);
  EXPECT_EQ(layout.context_cap(), 0u);
  EXPECT_EQ(layout.used_bytes(0), 192u);
  EXPECT_EQ(layout.used_bytes(UINT64_MAX), 192u);

  const AlignedFloats state(layout.bytes() / sizeof(float));
  EXPECT_EQ(conv->In(Bytes(state)), state.data() + 32);
}

TEST(StateLayoutTest, LayersAddUpToTheWhole) {
  StateLayoutBuilder builder;
  ASSERT_TRUE(builder.AddFixed(0, "S", {2, 3, 5}).ok());      // 120 bytes
  ASSERT_TRUE(builder.AddFixedDoubles(0, "Z", {2, 3}).ok());  // 48 bytes
  ASSERT_TRUE(builder.AddPerToken(1, "kv", 100, {2, 10}).ok());
  const StateLayout layout = std::move(builder).Build();
  EXPECT_EQ(layout.UseOfLayer(0).fixed_bytes, 128u + 64u);
  EXPECT_EQ(layout.UseOfLayer(0).token_bytes, 0u);
  EXPECT_EQ(layout.UseOfLayer(1).fixed_bytes, 0u);
  EXPECT_EQ(layout.UseOfLayer(1).token_bytes, 128u);
  EXPECT_EQ(layout.UseOfLayer(2).fixed_bytes, 0u);
  EXPECT_EQ(layout.dtype(), "f32+f64");
}

TEST(StateLayoutTest, RowsOfOneTokenLieTogether) {
  StateLayoutBuilder builder;
  const auto first = builder.AddPerToken(0, "kv", 100, {2, 10});  // 80 bytes
  ASSERT_TRUE(builder.AddFixed(1, "S", {16}).ok());
  const auto second = builder.AddPerToken(2, "kv", 100, {16});
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(second.ok());
  const StateLayout layout = std::move(builder).Build();

  EXPECT_EQ(layout.fixed_bytes(), 64u);
  EXPECT_EQ(layout.token_bytes(), 128u + 64u);
  EXPECT_EQ(layout.bytes(), 64u + 100 * 192);
  EXPECT_EQ(layout.context_cap(), 100u);
  EXPECT_EQ(layout.used_bytes(0), 64u);
  EXPECT_EQ(layout.used_bytes(7), 64u + 7 * 192);
  EXPECT_EQ(layout.used_bytes(100), layout.bytes());
  EXPECT_EQ(layout.used_bytes(UINT64_MAX), layout.bytes());

  const StateSlot& kv = layout.slots()[2];
  EXPECT_EQ(kv.growth, SlotGrowth::kPerToken);
  EXPECT_THAT(kv.shape, ElementsAre(100, 16));
  EXPECT_EQ(kv.bytes, 100u * 16 * 4);
  EXPECT_EQ(kv.offset, 64u + 128);
  EXPECT_EQ(kv.row_stride, 192u);

  const AlignedFloats state(layout.bytes() / sizeof(float));
  EXPECT_EQ(first->elements.In(Bytes(state)), Bytes(state) + 64);
  EXPECT_EQ(second->elements.In(Bytes(state)), Bytes(state) + 64 + 128);
  EXPECT_EQ(first->elements.stride(), 192u);
  EXPECT_EQ(second->elements.stride(), 192u);
}

TEST(StateLayoutTest, CachesAreOfTheirType) {
  StateLayoutBuilder builder(StateDType::kF32, SlotType::kBfloat16);
  EXPECT_EQ(builder.cache_type(), SlotType::kBfloat16);
  ASSERT_TRUE(builder.AddFixed(0, "S", {16}).ok());
  ASSERT_TRUE(builder.AddRing(1, "kv", {4, 32}).ok());
  ASSERT_TRUE(builder.AddPerToken(2, "kv", 100, {2, 32}).ok());
  const StateLayout layout = std::move(builder).Build();
  EXPECT_EQ(layout.fixed_bytes(), 64u + 4 * 32 * 2);
  EXPECT_EQ(layout.token_bytes(), 2u * 32 * 2);
  EXPECT_EQ(layout.dtype(), "bf16+f32");
}

TEST(StateLayoutTest, CachesInInt8HaveAUnitForEachInnermostRow) {
  StateLayoutBuilder builder(StateDType::kF32, SlotType::kInt8);
  const auto ring = builder.AddRing(0, "kv", {4, 2, 40});
  ASSERT_TRUE(ring.ok());
  const auto rows = builder.AddPerToken(1, "kv", 100, {2, 3, 80});
  ASSERT_TRUE(rows.ok());
  const StateLayout layout = std::move(builder).Build();
  EXPECT_EQ(layout.fixed_bytes(), 4u * 2 * 40 + 64);
  EXPECT_EQ(layout.token_bytes(), 512u + 64);
  EXPECT_EQ(layout.dtype(), "int8");
  ASSERT_EQ(layout.slots().size(), 4u);
  EXPECT_EQ(layout.slots()[1].name, "kv.units");
  EXPECT_EQ(layout.slots()[1].shape, (std::vector<size_t>{4, 2}));
  EXPECT_EQ(layout.slots()[3].name, "kv.units");
  EXPECT_EQ(layout.slots()[3].shape, (std::vector<size_t>{100, 2, 3}));
  EXPECT_EQ(layout.slots()[3].growth, SlotGrowth::kPerToken);
  const AlignedFloats state(layout.bytes() / sizeof(float));
  std::byte* const first = Bytes(state);
  EXPECT_EQ(reinterpret_cast<std::byte*>(ring->units.In(first)), first + 320);
  EXPECT_EQ(rows->elements.In(first), first + 384);
  EXPECT_EQ(rows->units.In(first), first + 384 + 512);
  EXPECT_EQ(rows->units.stride(), 576u);
}

TEST(StateLayoutTest, NoTwoSlotsShareAByte) {
  StateLayoutBuilder builder;
  for (size_t layer = 0; layer < 6; ++layer) {
    ASSERT_TRUE(builder.AddFixed(layer, "S", {layer + 1, 7}).ok());
    ASSERT_TRUE(builder.AddPerToken(layer, "kv", 5, {2, layer + 3}).ok());
  }
  const StateLayout layout = std::move(builder).Build();
  std::set<size_t> taken;
  for (const StateSlot& slot : layout.slots()) {
    EXPECT_EQ(slot.offset % 64, 0u);
    const bool grows = slot.growth == SlotGrowth::kPerToken;
    const size_t rows = grows ? slot.shape[0] : 1;
    const size_t row_bytes = slot.bytes / rows;
    for (size_t row = 0; row < rows; ++row) {
      for (size_t byte = 0; byte < row_bytes; ++byte) {
        const size_t at = slot.offset + row * slot.row_stride + byte;
        EXPECT_TRUE(taken.insert(at).second);
        EXPECT_LT(at,
                  grows ? layout.used_bytes(row + 1) : layout.fixed_bytes());
      }
    }
  }
}

TEST(StateLayoutTest, ImpossibleSizesAreNamed) {
  StateLayoutBuilder builder;
  const auto zero = builder.AddFixed(3, "S", {4, 0});
  EXPECT_EQ(zero.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(zero.status().message(), HasSubstr("layer 3"));
  EXPECT_THAT(zero.status().message(), HasSubstr("'S'"));
  const size_t huge = size_t{1} << 40;
  EXPECT_FALSE(builder.AddFixed(0, "S", {huge, huge}).ok());
  EXPECT_FALSE(builder.AddPerToken(0, "kv", huge, {huge}).ok());
  EXPECT_FALSE(builder.AddPerToken(0, "kv", 0, {4}).ok());
  // Each fits, both together do not.
  ASSERT_TRUE(builder.AddFixed(0, "a", {size_t{1} << 57}).ok());
  EXPECT_FALSE(builder.AddFixed(0, "b", {size_t{1} << 57, 2}).ok());
}

TEST(StateLayoutTest, AllGrowingSlotsHaveOneCap) {
  StateLayoutBuilder builder;
  ASSERT_TRUE(builder.AddPerToken(0, "kv", 10, {4}).ok());
  const auto other = builder.AddPerToken(1, "kv", 11, {4});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(other.status().message(), HasSubstr("11"));
}

TEST(StateLayoutTest, MatricesAreOfTheModelsType) {
  for (const auto& [dtype, bytes, names] :
       {std::tuple(StateDType::kF32, 3 * 5 * 40 * 4, "f32"),
        {StateDType::kBf16, 3 * 5 * 40 * 2, "bf16+f32"},
        {StateDType::kInt16, 3 * 5 * 40 * 2, "f32+int16"}}) {
    StateLayoutBuilder builder(dtype);
    EXPECT_FALSE(builder.has_matrices());
    ASSERT_TRUE(builder.AddMatrices(2, "S", {3, 5, 40}).ok());
    EXPECT_TRUE(builder.has_matrices());
    ASSERT_TRUE(builder.AddFixed(2, "conv", {3, 5}).ok());
    const StateLayout layout = std::move(builder).Build();
    EXPECT_EQ(layout.dtype(), names);
    EXPECT_EQ(layout.slots()[0].bytes, static_cast<size_t>(bytes));
    EXPECT_EQ(layout.slots()[0].name, "S");
  }
}

TEST(StateLayoutTest, Int16HasItsExponentsBesideIt) {
  StateLayoutBuilder builder(StateDType::kInt16);
  const absl::StatusOr<MatrixSlots> slots =
      builder.AddMatrices(0, "S", {3, 5, 70});
  ASSERT_TRUE(slots.ok());
  const StateLayout layout = std::move(builder).Build();
  const StateSlot& exponents = layout.slots()[1];
  EXPECT_EQ(exponents.name, "S.exponents");
  EXPECT_EQ(Name(exponents.type), "u8");
  EXPECT_EQ(exponents.shape, (std::vector<size_t>{3, 5, 2}));
  EXPECT_EQ(exponents.bytes, 30u);
  alignas(64) std::byte state[4096] = {};
  EXPECT_EQ(slots->exponents.In(state),
            reinterpret_cast<uint8_t*>(state + exponents.offset));
}

TEST(StateLayoutTest, MatricesThatNeedDoublesTakeNothingLess) {
  StateLayoutBuilder exact;
  EXPECT_TRUE(exact.AddDoubleMatrices(0, "S", {2, 2, 2}).ok());
  StateLayoutBuilder reduced(StateDType::kInt16);
  const absl::Status refused =
      reduced.AddDoubleMatrices(3, "S", {2, 2, 2}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("layer 3"));
  EXPECT_THAT(refused.message(), HasSubstr("int16"));
}

}  // namespace
}  // namespace steadystate::state_layout_test
