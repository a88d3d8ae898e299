// The names are those that ONEDNN_MAX_CPU_ISA takes.

#include "kernels/linear/tile_matmul.h"

#include "gtest/gtest.h"

namespace steadystate::tile_matmul_test {
namespace {

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
