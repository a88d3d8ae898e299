#include "kernels/linear/simd_matrix.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/linear/call_rows.h"
#include "kernels/linear/simd_product.h"
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
                                             WeightArena& arena) {
  size_t out = 0;
  for (const WeightRows& part : parts) out += part.rows;
  std::unique_ptr<SimdMatrix> matrix(new SimdMatrix(weights, in, out));
  if (!matrix->PackBlocks(parts, arena)) return nullptr;
  return matrix;
}

bool SimdMatrix::PackBlocks(std::span<const WeightRows> parts,
                            WeightArena& arena) {
  memory_ = arena.Allocate(bytes_);
  if (memory_ == nullptr) return false;
  std::byte* place = memory_.get();
  WeightConverter converter(weights_, in_, parts);
  for (Block& block : blocks_) {
    const void* const rows =
        converter.Convert(block.first_column, block.width, {});
    PackSimdBlock(weights_, in_, block.width, rows, place);
    block.weights = place;
    place += BlockBytes(block);
  }
  return true;
}

void SimdMatrix::RunBlock(const MatrixCall& call, const Block& block,
                          const RowRange& range, float* worker) const {
  SimdProduct product{};
  product.weights = weights_;
  product.in = in_;
  product.panels = SimdPanels(block.width);
  product.x_stride = call.x_stride;
  product.block = block.weights;
  product.sums = worker;
  product.scratch = worker + kSums;
  const OutputRows output{call.bias, call.y, call.y_stride, nullptr};
  const size_t end = range.first + range.count;
  for (size_t row = range.first; row < end; row += product.rows) {
    product.rows = std::min(kSimdBlockRows, end - row);
    product.x = call.x + row * call.x_stride;
    MultiplySimd(product);
    output.Store(row, product.rows, block.first_column, block.width,
                 reinterpret_cast<const std::byte*>(product.sums),
                 kSimdBlockColumns);
  }
}

bool SimdMatrix::Run(const MatrixCall& call, ThreadPool& pool,
                     Scratch& scratch) const {
  if (!scratch.workers.Grow(pool.size() * kWorkerFloats * sizeof(float))) {
    return false;
  }
  auto* const workers = reinterpret_cast<float*>(scratch.workers.data());
  MatrixCall product = call;
  if (weights_ == DType::kBf16) {
    if (!scratch.rows.Grow(call.rows * in_ * sizeof(float))) return false;
    auto* const rounded = reinterpret_cast<float*>(scratch.rows.data());
    ForEachRow(call.rows, in_, pool, [&](size_t r) {
      RoundToBf16(in_, call.x + r * call.x_stride, rounded + r * in_);
    });
    product.x = rounded;
    product.x_stride = in_;
  }
  ForEachBlock(blocks_.size(), bytes_, call.rows, pool,
               [&](size_t block, const RowRange& range, size_t worker) {
                 RunBlock(product, blocks_[block], range,
                          workers + worker * kWorkerFloats);
               });
  return true;
}

}  // namespace steadystate
