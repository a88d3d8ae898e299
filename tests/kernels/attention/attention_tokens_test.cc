// Softmax attention of many tokens against that of one after the other, on
// every target: causal, whatever the width, the block and the type of the
// cache; and what a query gets is its own business.

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "kernels/attention/softmax_attention.h"
#include "kernels/linear/quantize.h"
#include "tests/kernels/numbers.h"

namespace steadystate::attention_tokens_test {
namespace {

class AttentionTokensTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(AttentionTokensTest);

constexpr float kScale = 0.6f;

struct Shape {
  size_t d;
  size_t heads;
  size_t position;  // of the first token
  size_t tokens;
};

// A cache in all types, whose values spread over magnitudes so that a weight
// or a unit in the wrong place shows, and the queries of the last tokens.
class Case {
 public:
  Case(const Shape& shape, uint64_t seed) : Case(shape, Numbers(seed)) {}

  // What the int8 cache of a case stands for, as a case in float32.
  static Case Quantized(const Shape& shape, uint64_t seed) {
    Case of(shape, seed);
    of.Quantize(of.keys_, of.int8_keys_, of.key_units_);
    of.Quantize(of.values_, of.int8_values_, of.value_units_);
    return of;
  }

  size_t stride() const { return shape_.d + 3; }
  size_t q_stride() const { return shape_.heads * shape_.d + 5; }

  // Tokens [first, end) of the case, together.
  std::vector<float> Together(DType dtype, size_t first, size_t end) const {
    const size_t width = shape_.heads * shape_.d;
    const size_t count = end - first;
    Floats scratch(AttentionScratch(count * shape_.heads, shape_.d));
    std::fill(scratch.begin(), scratch.end(), NAN);
    Floats o(count * (width + 1));
    std::fill(o.begin(), o.end(), 77.0f);
    SoftmaxAttentionTokens(CacheOf(dtype, shape_.position + end),
                           {.tokens = count,
                            .heads = shape_.heads,
                            .position = shape_.position + first,
                            .scale = kScale,
                            .q = q_.data() + first * q_stride(),
                            .q_stride = q_stride(),
                            .o = o.data(),
                            .o_stride = width + 1},
                           scratch.data());
    std::vector<float> dense;
    for (size_t t = 0; t < count; ++t) {
      EXPECT_EQ(o[t * (width + 1) + width], 77.0f);
      const float* row = o.begin() + t * (width + 1);
      dense.insert(dense.end(), row, row + width);
    }
    return dense;
  }

  // The same, one after the other.
  std::vector<float> Alone(DType dtype) const {
    const size_t width = shape_.heads * shape_.d;
    Floats o(shape_.tokens * width);
    for (size_t t = 0; t < shape_.tokens; ++t) {
      const size_t n = shape_.position + t + 1;
      Floats scratch(StepScratch(shape_.heads));
      SoftmaxAttentionStep(CacheOf(dtype, n),
                           {.group = shape_.heads,
                            .scale = kScale,
                            .q = q_.data() + t * q_stride(),
                            .o = o.data() + t * width},
                           scratch.data());
    }
    return {o.begin(), o.end()};
  }

 private:
  Case(const Shape& shape, Numbers numbers)
      : shape_(shape),
        keys_(numbers.Uniform(rows() * stride(), -2.0f, 2.0f)),
        values_(numbers.Uniform(rows() * stride(), -1.0f, 1.0f)),
        q_(numbers.Uniform(shape.tokens * q_stride(), -2.0f, 2.0f)) {
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i] *= std::exp2(static_cast<float>(i / stride() % 5) - 2.0f);
    }
    rounded_keys_ = Round(keys_);
    rounded_values_ = Round(values_);
  }

  size_t rows() const { return shape_.position + shape_.tokens; }

  static std::vector<uint16_t> Round(Floats& values) {
    std::vector<uint16_t> rounded(values.size());
    ConvertToBf16(values.size(), values.data(), rounded.data());
    ConvertToF32({rounded.data(), DType::kBf16}, 0, values.size(),
                 values.data());
    return rounded;
  }

  // Units lie apart by more than one.
  static constexpr size_t kUnitStride = 2;

  void Quantize(Floats& values, std::vector<int8_t>& bytes,
                std::vector<float>& units) const {
    bytes.resize(values.size());
    units.assign(rows() * kUnitStride, NAN);
    for (size_t j = 0; j < rows(); ++j) {
      float* const row = values.data() + j * stride();
      int8_t* const to = bytes.data() + j * stride();
      const float unit =
          QuantizeRow(shape_.d, row, {}, reinterpret_cast<uint8_t*>(to));
      units[j * kUnitStride] = unit;
      for (size_t c = 0; c < shape_.d; ++c) {
        row[c] = unit * static_cast<float>(to[c]);
      }
    }
  }

  KeyValueRows CacheOf(DType dtype, size_t n) const {
    if (dtype == DType::kI8) {
      return {.d = shape_.d,
              .n = n,
              .stride = stride(),
              .dtype = dtype,
              .keys = int8_keys_.data(),
              .values = int8_values_.data(),
              .key_units = key_units_.data(),
              .value_units = value_units_.data(),
              .unit_stride = kUnitStride};
    }
    const bool f32 = dtype == DType::kF32;
    return {.d = shape_.d,
            .n = n,
            .stride = stride(),
            .dtype = dtype,
            .keys = f32 ? static_cast<const void*>(keys_.data())
                        : rounded_keys_.data(),
            .values = f32 ? static_cast<const void*>(values_.data())
                          : rounded_values_.data()};
  }

  Shape shape_;
  Floats keys_, values_, q_;
  std::vector<uint16_t> rounded_keys_, rounded_values_;
  std::vector<int8_t> int8_keys_, int8_values_;
  std::vector<float> key_units_, value_units_;
};

TEST_P(AttentionTokensTest, AgreesWithOneTokenAfterTheOther) {
  const uint64_t seed = 71;
  SCOPED_TRACE(seed);
  for (const Shape& shape :
       {Shape{5, 1, 0, 1}, Shape{16, 3, 0, 9}, Shape{8, 2, 60, 10},
        Shape{67, 4, 127, 17}, Shape{32, 1, 1, 150}, Shape{128, 8, 63, 66},
        Shape{4, 70, 64, 2}}) {
    SCOPED_TRACE(testing::Message() << shape.d << " wide, " << shape.heads
                                    << " heads, from " << shape.position);
    const Case of(shape, seed);
    const std::vector<float> alone = of.Alone(DType::kF32);
    const std::vector<float> together =
        of.Together(DType::kF32, 0, shape.tokens);
    ASSERT_EQ(together.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) {
      // Values are up to 4.
      ASSERT_NEAR(together[i], alone[i], 4e-5f) << i;
    }
    EXPECT_EQ(of.Together(DType::kBf16, 0, shape.tokens), together);
  }
}

TEST_P(AttentionTokensTest, RowsInUnitsAreThoseThatTheyStandFor) {
  const uint64_t seed = 73;
  SCOPED_TRACE(seed);
  for (const Shape& shape : {Shape{5, 1, 0, 3}, Shape{67, 4, 127, 17},
                             Shape{128, 9, 63, 66}, Shape{16, 3, 2, 8}}) {
    SCOPED_TRACE(testing::Message() << shape.d << " wide, " << shape.heads
                                    << " heads, from " << shape.position);
    const Case of = Case::Quantized(shape, seed);
    const std::vector<float> floats = of.Alone(DType::kF32);
    const std::vector<float> alone = of.Alone(DType::kI8);
    for (size_t i = 0; i < alone.size(); ++i) {
      ASSERT_NEAR(alone[i], floats[i], 4e-5f) << i;
    }
    // Widened first, and from there on the same.
    EXPECT_EQ(of.Together(DType::kI8, 0, shape.tokens),
              of.Together(DType::kF32, 0, shape.tokens));
  }
}

TEST_P(AttentionTokensTest, AQueryIsItsOwnBusiness) {
  const uint64_t seed = 72;
  SCOPED_TRACE(seed);
  const Shape shape = {20, 3, 50, 90};
  const Case of(shape, seed);
  const std::vector<float> together = of.Together(DType::kF32, 0, shape.tokens);
  const size_t width = shape.d * shape.heads;
  for (const size_t piece : {1u, 7u, 16u, 89u}) {
    std::vector<float> pieces;
    for (size_t first = 0; first < shape.tokens; first += piece) {
      const std::vector<float> some = of.Together(
          DType::kF32, first, std::min(first + piece, shape.tokens));
      pieces.insert(pieces.end(), some.begin(), some.end());
    }
    ASSERT_EQ(pieces.size(), shape.tokens * width);
    EXPECT_EQ(pieces, together) << piece;
  }
}

}  // namespace
}  // namespace steadystate::attention_tokens_test
