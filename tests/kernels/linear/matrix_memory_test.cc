// Goal: pieces of an arena are aligned, apart from each other, and live as long
// as somebody holds them. Method: pieces of many sizes, filled and read again;
// AddressSanitizer where it is on.

#include "kernels/linear/matrix_memory.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace steadystate::matrix_memory_test {
namespace {

TEST(WeightArenaTest, PiecesAreAlignedAndApart) {
  std::vector<std::pair<std::shared_ptr<std::byte>, size_t>> pieces;
  {
    WeightArena arena;
    for (const size_t bytes : {1u, 64u, 65u, 1000u, 1u << 20, 3u, 5u << 20,
                               (1u << 20) - 1, 64u, 9u << 20, 7u}) {
      pieces.emplace_back(arena.Allocate(bytes), bytes);
      ASSERT_NE(pieces.back().first, nullptr);
    }
  }
  int value = 0;
  for (const auto& [piece, bytes] : pieces) {
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(piece.get()) % AlignedBytes::kAlignment,
        0u);
    std::memset(piece.get(), ++value, bytes);
  }
  value = 0;
  for (const auto& [piece, bytes] : pieces) {
    ++value;
    for (size_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(piece.get()[i], static_cast<std::byte>(value)) << bytes;
    }
  }
}

TEST(WeightArenaTest, SmallPiecesShareAChunk) {
  WeightArena arena;
  const auto first = arena.Allocate(100);
  const auto second = arena.Allocate(100);
  EXPECT_EQ(second.get() - first.get(), 128);
}

TEST(WeightArenaTest, WhatCannotBeHadIsNull) {
  WeightArena arena;
  EXPECT_EQ(arena.Allocate(SIZE_MAX / 2), nullptr);
  EXPECT_NE(arena.Allocate(10), nullptr);
}

}  // namespace
}  // namespace steadystate::matrix_memory_test
