#include "kernels/linear/simd_matrix.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/linear/quantize.h"
#include "kernels/linear/simd_product.h"
#include "kernels/linear/split_signs.h"
#include "kernels/linear/weight_converter.h"

namespace steadystate {
namespace {

constexpr size_t kSums = kSimdBlockRows * kSimdBlockColumns;
constexpr size_t kWorkerFloats = kSums + kSimdScratch;

//   x, to  f32[n]
void RoundToBf16(size_t n, const float* x, float* to) {
  std::array<uint16_t, 256> halves;
  for (size_t i = 0; i < n; i += halves.size()) {
    const size_t count = std::min(halves.size(), n - i);
    ConvertToBf16(count, x + i, halves.data());
    ConvertToF32({halves.data(), DType::kBf16}, 0, count, to + i);
  }
}

}  // namespace

SimdMatrix::SimdMatrix(DType weights, size_t in, size_t out)
    : weights_(weights), in_(in) {
  if (weights == DType::kI8) scales_.resize(out);
  for (size_t first = 0; first < out; first += kSimdBlockColumns) {
    blocks_.push_back(
        {first, std::min(kSimdBlockColumns, out - first), nullptr});
    bytes_ += BlockBytes(blocks_.back());
  }
}

size_t SimdMatrix::BlockBytes(const Block& block) const {
  return RoundUpToLine(SimdInputs(weights_, in_) * SimdPanels(block.width) *
                       kSimdPanel * SizeOf(weights_));
}

std::unique_ptr<SimdMatrix> SimdMatrix::Pack(DType weights, size_t in,
                                             std::span<const WeightRows> parts,
                                             WeightArena& arena,
                                             ThreadPool& pool) {
  size_t out = 0;
  for (const WeightRows& part : parts) out += part.rows;
  std::unique_ptr<SimdMatrix> matrix(new SimdMatrix(weights, in, out));
  matrix->memory_ = arena.Allocate(matrix->bytes_);
  if (matrix->memory_ == nullptr) return nullptr;
  matrix->PackBlocks(parts, pool);
  return matrix;
}

void SimdMatrix::PackBlocks(std::span<const WeightRows> parts,
                            ThreadPool& pool) {
  std::byte* place = memory_.get();
  for (Block& block : blocks_) {
    block.weights = place;
    place += BlockBytes(block);
  }
  std::vector<WeightConverter> converters = WeightConverter::Team(
      pool.size(), weights_, in_, parts, kSimdBlockColumns);
  pool.ParallelFor(blocks_.size(), [&](size_t i, size_t worker) {
    const Block& block = blocks_[i];
    const void* const rows = converters[worker].Convert(
        block.first_column, block.width, {scales_.data() + block.first_column});
    PackSimdBlock(weights_, in_, block.width, rows, block.weights);
  });
}

SimdMatrix::Rows SimdMatrix::ReadyRows(const MatrixCall& call, ThreadPool& pool,
                                       Scratch& scratch) const {
  if (weights_ == DType::kF32) return {call.x, call.x_stride, nullptr, {}};
  if (weights_ == DType::kI8) return ReadyBytes(call, pool, scratch);
  if (!scratch.rows.Grow(call.rows * in_ * sizeof(float))) return {};
  auto* const rounded = reinterpret_cast<float*>(scratch.rows.data());
  ForEachRow(call.rows, in_, pool, [&](size_t r) {
    RoundToBf16(in_, call.x + r * call.x_stride, rounded + r * in_);
  });
  return {rounded, in_, nullptr, {}};
}

SimdMatrix::Rows SimdMatrix::ReadyBytes(const MatrixCall& call,
                                        ThreadPool& pool,
                                        Scratch& scratch) const {
  const size_t padded = RoundUpToLine(in_);
  if (!scratch.rows.Grow(call.rows * 2 * padded) ||
      !scratch.scales.Grow(call.rows * sizeof(float)) ||
      !scratch.starts.Grow(call.rows * sizeof(int32_t))) {
    return {};
  }
  auto* const rows = reinterpret_cast<uint8_t*>(scratch.rows.data());
  auto* const scales = reinterpret_cast<float*>(scratch.scales.data());
  auto* const starts = reinterpret_cast<int32_t*>(scratch.starts.data());
  ForEachRow(call.rows, in_, pool, [&](size_t r) {
    uint8_t* const row = rows + r * 2 * padded;
    uint8_t* const bytes = row + padded;
    scales[r] = QuantizeRow(in_, call.x + r * call.x_stride, {}, bytes);
    std::memset(bytes + in_, 0, padded - in_);
    starts[r] = SplitSigns(padded, bytes, row);
  });
  return {rows, 2 * padded, starts, {scales, scales_.data()}};
}

void SimdMatrix::RunBlock(const MatrixCall& call, const Rows& rows,
                          const Block& block, const RowRange& range,
                          float* worker) const {
  const bool bytes = weights_ == DType::kI8;
  const size_t row_bytes = rows.stride * (bytes ? 1 : sizeof(float));
  SimdProduct product{};
  product.weights = weights_;
  product.in = in_;
  product.panels = SimdPanels(block.width);
  product.x_stride = rows.stride;
  product.block = block.weights;
  product.sums = worker;
  product.scratch = worker + kSums;
  const OutputRows output{call.bias, call.y, call.y_stride,
                          bytes ? &rows.scales : nullptr};
  const size_t end = range.first + range.count;
  for (size_t row = range.first; row < end; row += product.rows) {
    product.rows = std::min(kSimdBlockRows, end - row);
    product.x = static_cast<const std::byte*>(rows.x) + row * row_bytes;
    if (bytes) product.starts = rows.starts + row;
    MultiplySimd(product);
    output.Store(row, product.rows, block.first_column, block.width,
                 reinterpret_cast<const std::byte*>(worker), kSimdBlockColumns);
  }
}

bool SimdMatrix::Run(const MatrixCall& call, ThreadPool& pool,
                     Scratch& scratch) const {
  if (!scratch.workers.Grow(pool.size() * kWorkerFloats * sizeof(float))) {
    return false;
  }
  auto* const workers = reinterpret_cast<float*>(scratch.workers.data());
  const Rows rows = ReadyRows(call, pool, scratch);
  if (rows.x == nullptr) return false;
  ForEachBlock(blocks_.size(), bytes_, call.rows, pool,
               [&](size_t block, const RowRange& range, size_t worker) {
                 RunBlock(call, rows, blocks_[block], range,
                          workers + worker * kWorkerFloats);
               });
  return true;
}

}  // namespace steadystate
