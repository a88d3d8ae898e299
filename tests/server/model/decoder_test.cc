// Goal: rows come out as the checkpoint stores them, or rounded to bf16 where
// the weights are. Method: one small table in every element type.
#include "server/model/decoder.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/checkpoint_writer.h"

namespace steadystate::decoder_test {
namespace {

using testing::ElementsAre;

// 1 + 2^-9 lies between two bf16 numbers, and is exact in f16.
constexpr float kBetween = 1 + 0x1p-9f;

std::vector<float> RowOne(DType stored, DType weights) {
  const TensorContents table{stored, {2, 3}, {0, 0, 0, kBetween, -2, 0.5f}};
  const std::string bytes = EncodeTensor(table);
  const Embedding embedding({bytes.data(), stored}, 2, 3, weights);
  std::vector<float> row(3);
  embedding.Row(1, row.data());
  return row;
}

TEST(EmbeddingTest, WithF32WeightsRowsAreExact) {
  for (const DType stored : {DType::kF32, DType::kF16}) {
    EXPECT_THAT(RowOne(stored, DType::kF32),
                ElementsAre(kBetween, -2.0f, 0.5f));
  }
}

TEST(EmbeddingTest, WithBf16WeightsRowsAreRounded) {
  for (const DType stored : {DType::kF32, DType::kF16, DType::kBf16}) {
    EXPECT_THAT(RowOne(stored, DType::kBf16), ElementsAre(1.0f, -2.0f, 0.5f));
  }
}

TEST(EmbeddingTest, TheTableIsACopy) {
  std::vector<float> table = {1, 2};
  const Embedding embedding({table.data(), DType::kF32}, 2, 1, DType::kF32);
  table[1] = 7;
  float row = 0;
  embedding.Row(1, &row);
  EXPECT_EQ(row, 2.0f);
  EXPECT_EQ(embedding.table().dtype, DType::kF32);
}

}  // namespace
}  // namespace steadystate::decoder_test
