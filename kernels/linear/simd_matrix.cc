#include "kernels/linear/simd_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/linear/call_rows.h"
#include "kernels/linear/quantize.h"
#include "kernels/linear/simd_product.h"
#include "kernels/linear/weight_packer.h"

namespace steadystate {
namespace {

constexpr size_t kSumsBytes =
    kSimdBlockRows * kSimdBlockColumns * sizeof(float);
constexpr size_t kWorkerBytes = kSumsBytes + kSimdScratchBytes;

// Of int8 rows, which are signed here.
constexpr ByteRange kBytes = {.limit = 127, .zero = 0};

}  // namespace

SimdMatrix::SimdMatrix(DType weights, size_t in, size_t out)
    : weights_(weights), in_(in) {
  for (size_t first = 0; first < out; first += kSimdBlockColumns) {
    blocks_.push_back(
        {first, std::min(kSimdBlockColumns, out - first), nullptr});
    bytes_ += BlockBytes(blocks_.back());
  }
  if (weights != DType::kI8) return;
  scales_.resize(out);
  offsets_.resize(out);
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
  std::array<int32_t, kSimdBlockColumns> sums;  // nobody asks for them
  WeightPacker packer(weights_, in_, parts);
  for (Block& block : blocks_) {
    const void* const rows =
        packer.Convert(block.first_column, block.width,
                       {scales_.data() + block.first_column, sums.data()});
    PackSimdBlock(weights_, in_, block.width, rows, place);
    block.weights = place;
    place += BlockBytes(block);
  }
  return true;
}

float SimdMatrix::WriteRow(const float* x, std::byte* to) const {
  const size_t inputs = SimdInputs(weights_, in_);
  if (weights_ != DType::kI8) {
    std::memcpy(to, x, in_ * sizeof(float));
    std::memset(to + in_ * sizeof(float), 0, (inputs - in_) * sizeof(float));
    return 1.0f;
  }
  // In the upper half of the row's place, from where they become s16: each is
  // read before its place is written to.
  auto* const bytes = reinterpret_cast<int8_t*>(to) + inputs;
  const float scale =
      QuantizeRow(in_, x, kBytes, reinterpret_cast<uint8_t*>(bytes));
  if (inputs != in_) bytes[in_] = 0;
  for (size_t i = 0; i < inputs; ++i) {
    const int16_t value = bytes[i];
    std::memcpy(to + i * sizeof(value), &value, sizeof(value));
  }
  return scale;
}

bool SimdMatrix::Prepare(const MatrixCall& call, ThreadPool& pool,
                         Scratch& scratch, Rows& rows) const {
  const size_t inputs = SimdInputs(weights_, in_);
  if (call.rows == 1 && weights_ != DType::kI8 && inputs == in_) {
    rows = {reinterpret_cast<const std::byte*>(call.x), 0, nullptr};
    return true;
  }
  const size_t element = weights_ == DType::kI8 ? sizeof(int16_t) : 4;
  // Rows a multiple of 4 KiB apart would displace each other in the cache.
  const size_t stride =
      RoundUpToLine(inputs * element) + AlignedBytes::kAlignment;
  if (!scratch.rows.Grow(call.rows * stride) ||
      !scratch.scales.Grow(call.rows * sizeof(float))) {
    return false;
  }
  std::byte* const to = scratch.rows.data();
  auto* const scales = reinterpret_cast<float*>(scratch.scales.data());
  ForEachRow(call.rows, in_, pool, [&](size_t r) {
    scales[r] = WriteRow(call.x + r * call.x_stride, to + r * stride);
  });
  rows = {to, stride, scales};
  return true;
}

void SimdMatrix::RunBlock(const MatrixCall& call, const Block& block,
                          const Rows& rows, const RowRange& range,
                          std::byte* worker) const {
  SimdProduct product{};
  product.weights = weights_;
  product.in = SimdInputs(weights_, in_);
  product.panels = SimdPanels(block.width);
  product.x_stride = rows.stride;
  product.block = block.weights;
  product.sums = worker;
  product.scratch = worker + kSumsBytes;
  const ByteScales scales{rows.scales, scales_.data(), offsets_.data()};
  const OutputRows output{call.bias, call.y, call.y_stride,
                          weights_ == DType::kI8 ? &scales : nullptr};
  const size_t end = range.first + range.count;
  for (size_t row = range.first; row < end; row += product.rows) {
    product.rows = std::min(kSimdBlockRows, end - row);
    product.x = rows.x + row * rows.stride;
    MultiplySimd(product);
    output.Store(row, product.rows, block.first_column, block.width, worker,
                 kSimdBlockColumns);
  }
}

bool SimdMatrix::Run(const MatrixCall& call, ThreadPool& pool,
                     Scratch& scratch) const {
  Rows rows{};
  if (!scratch.workers.Grow(pool.size() * kWorkerBytes) ||
      !Prepare(call, pool, scratch, rows)) {
    return false;
  }
  std::byte* const workers = scratch.workers.data();
  ForEachBlock(blocks_.size(), bytes_, call.rows, pool,
               [&](size_t block, const RowRange& range, size_t worker) {
                 RunBlock(call, blocks_[block], rows, range,
                          workers + worker * kWorkerBytes);
               });
  return true;
}

}  // namespace steadystate
