// Goal: blocks of weights can be packed by any thread; instruction sets have
// the names that ONEDNN_MAX_CPU_ISA takes. Method: many threads at once and
// one; numbers that both versions report.

#include "kernels/linear/tile_matmul.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/thread_pool.h"
#include "tests/kernels/numbers.h"

namespace steadystate::tile_matmul_test {
namespace {

// Threads that pack at once, one primitive made by another thread: each block
// is what it is when it is packed alone.
TEST(TileMatmulTest, ThreadsPackAtOnce) {
  constexpr size_t kIn = 301;
  constexpr size_t kWidth = 130;
  constexpr size_t kBlocks = 48;
  constexpr size_t kSizes[] = {1, 8};
  for (const DType dtype : {DType::kF32, DType::kI8}) {
    const auto matmul = TileMatmul::Create(dtype, kIn, kWidth, kSizes);
    ASSERT_TRUE(matmul.ok()) << matmul.status();
    const size_t bytes = (*matmul)->packed_bytes();
    std::vector<std::vector<float>> rows(kBlocks);
    std::vector<AlignedBytes> alone(kBlocks);
    std::vector<AlignedBytes> at_once(kBlocks);
    Numbers numbers(89);
    const auto pack = [&](size_t block, AlignedBytes& to) {
      return (*matmul)->Pack(rows[block].data(), to.data()).status();
    };
    for (size_t i = 0; i < kBlocks; ++i) {
      for (size_t k = 0; k < kIn * kWidth; ++k) {
        rows[i].push_back(numbers.Uniform(-1.0f, 1.0f));
      }
      for (AlignedBytes* place : {&alone[i], &at_once[i]}) {
        ASSERT_TRUE(place->Allocate(bytes));
        std::memset(place->data(), 0, bytes);
      }
      ASSERT_TRUE(pack(i, alone[i]).ok());
    }
    std::vector<absl::Status> results(kBlocks);
    ThreadPool pool(4);
    pool.ParallelFor(
        kBlocks, [&](size_t i, size_t) { results[i] = pack(i, at_once[i]); });
    for (size_t i = 0; i < kBlocks; ++i) {
      ASSERT_TRUE(results[i].ok()) << results[i];
      EXPECT_EQ(0, std::memcmp(alone[i].data(), at_once[i].data(), bytes));
    }
  }
}

TEST(IsaNameTest, NamesWhatBothVersionsReport) {
  EXPECT_EQ(IsaName(0x7), "avx2");
  EXPECT_EQ(IsaName(0xe7), "avx512_core_bf16");
  EXPECT_EQ(IsaName(0x3e7), "avx512_core_amx");
  EXPECT_EQ(IsaName(0xfef), "avx512_core_amx");
}

TEST(IsaNameTest, ShowsTheNumberOfWhatItDoesNotKnow) {
  EXPECT_EQ(IsaName(0x12345), "isa_0x12345");
}

}  // namespace
}  // namespace steadystate::tile_matmul_test
