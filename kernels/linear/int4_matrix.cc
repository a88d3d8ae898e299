#include "kernels/linear/int4_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/linear/call_rows.h"
#include "kernels/linear/int4_weights.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/linear/weight_converter.h"

namespace steadystate {
namespace {

constexpr size_t kWorkerSums = kInt4BlockRows * kInt4BlockColumns;

// One group of 16 columns, turned: [kInt4Group, kInt4Panel], zeros beyond.
//   values  f32[width, in]
void TurnGroup(const float* values, size_t in, size_t width, size_t column,
               size_t input, float* to) {
  std::fill_n(to, kInt4Group * kInt4Panel, 0.0f);
  const size_t columns = std::min(kInt4Panel, width - column);
  const size_t inputs = std::min(kInt4Group, in - input);
  for (size_t j = 0; j < columns; ++j) {
    const float* const from = values + (column + j) * in + input;
    for (size_t k = 0; k < inputs; ++k) to[k * kInt4Panel + j] = from[k];
  }
}

// Where a row of a call is: a tile's rows stand in one piece of memory, which
// is read from begin to end.
struct RowPlace {
  RowPlace(size_t r, size_t all)
      : tile(r / kInt4BlockRows * kInt4BlockRows),
        row(r - tile),
        rows(std::min(kInt4BlockRows, all - tile)) {}
  size_t tile;  // the first row of the tile
  size_t row;   // within the tile
  size_t rows;  // of the tile
};

}  // namespace

Int4Matrix::Int4Matrix(size_t in, std::span<const WeightRows> parts)
    : in_(in), groups_(Int4Groups(in)) {
  size_t column = 0;
  for (const WeightRows& part : parts) {
    size_t left = part.rows;
    while (left > 0) {
      const bool fits = !blocks_.empty() && blocks_.back().wide == part.wide &&
                        blocks_.back().width < kInt4BlockColumns;
      if (!fits) blocks_.push_back({column, 0, part.wide, nullptr});
      Block& block = blocks_.back();
      const size_t taken = std::min(left, kInt4BlockColumns - block.width);
      block.width += taken;
      column += taken;
      left -= taken;
    }
  }
}

size_t Int4Matrix::PlaneBytes(const Block& block) const {
  return RoundUpToLine(groups_ * Int4GroupBytes(block.panels()));
}

size_t Int4Matrix::BlockBytes(const Block& block) const {
  return (block.wide ? 2 : 1) * PlaneBytes(block);
}

std::unique_ptr<Int4Matrix> Int4Matrix::Pack(size_t in,
                                             std::span<const WeightRows> parts,
                                             WeightArena& arena,
                                             ThreadPool& pool) {
  std::unique_ptr<Int4Matrix> matrix(new Int4Matrix(in, parts));
  std::vector<Block>& blocks = matrix->blocks_;
  for (const Block& block : blocks) {
    matrix->bytes_ += matrix->BlockBytes(block);
  }
  matrix->memory_ = arena.Allocate(matrix->bytes_);
  if (matrix->memory_ == nullptr) return nullptr;
  std::byte* place = matrix->memory_.get();
  for (Block& block : blocks) {
    block.planes = place;
    place += matrix->BlockBytes(block);
  }
  std::vector<WeightConverter> converters = WeightConverter::Team(
      pool.size(), DType::kF32, in, parts, kInt4BlockColumns);
  pool.ParallelFor(blocks.size(), [&](size_t i, size_t worker) {
    const Block& block = blocks[i];
    const void* const values =
        converters[worker].Convert(block.first_column, block.width, {});
    matrix->PackBlock(block, static_cast<const float*>(values));
  });
  return matrix;
}

void Int4Matrix::PackBlock(const Block& block, const float* values) const {
  std::array<float, kInt4Group * kInt4Panel> turned;
  const size_t panels = block.panels();
  for (size_t i = 0; i < groups_ * panels; ++i) {
    TurnGroup(values, in_, block.width, i % panels * kInt4Panel,
              i / panels * kInt4Group, turned.data());
    std::byte* group = block.planes + i / panels * Int4GroupBytes(panels);
    for (int n = 0; n < (block.wide ? 2 : 1); ++n) {
      RoundInt4Weights(
          turned.data(),
          reinterpret_cast<uint8_t*>(group + i % panels * kInt4PanelBytes),
          reinterpret_cast<uint16_t*>(group + panels * kInt4PanelBytes) +
              i % panels * kInt4Panel);
      group += PlaneBytes(block);
    }
  }
}

void Int4Matrix::RoundRows(const MatrixCall& call, ThreadPool& pool,
                           Int4Inputs* rows) const {
  ForEachRow(call.rows, in_, pool, [&](size_t r) {
    const RowPlace at(r, call.rows);
    RoundInt4Inputs(in_, call.x + r * call.x_stride,
                    rows + at.tile * groups_ + at.row, at.rows);
  });
}

void Int4Matrix::RunBlock(const MatrixCall& call, const Block& block,
                          const Int4Inputs* rows, const RowRange& range,
                          float* sums) const {
  Int4Product product{};
  product.groups = groups_;
  product.panels = block.panels();
  product.sums = sums;
  const OutputRows output{call.bias, call.y, call.y_stride, nullptr};
  const size_t end = range.first + range.count;
  for (size_t row = range.first; row < end; row += product.rows) {
    const RowPlace at(row, call.rows);
    product.rows = std::min(at.rows - at.row, end - row);
    product.x = rows + at.tile * groups_ + at.row;
    product.x_stride = at.rows;
    std::fill_n(sums, product.rows * kInt4BlockColumns, 0.0f);
    const std::byte* plane = block.planes;
    for (int n = 0; n < (block.wide ? 2 : 1); ++n) {
      product.weights = reinterpret_cast<const uint8_t*>(plane);
      MultiplyInt4(product);
      plane += PlaneBytes(block);
    }
    output.Store(row, product.rows, block.first_column, block.width,
                 reinterpret_cast<const std::byte*>(sums), kInt4BlockColumns);
  }
}

bool Int4Matrix::Run(const MatrixCall& call, ThreadPool& pool,
                     Scratch& scratch) const {
  if (!scratch.rows.Grow(groups_ * call.rows * sizeof(Int4Inputs)) ||
      !scratch.sums.Grow(pool.size() * kWorkerSums * sizeof(float))) {
    return false;
  }
  auto* const rows = reinterpret_cast<Int4Inputs*>(scratch.rows.data());
  auto* const sums = reinterpret_cast<float*>(scratch.sums.data());
  RoundRows(call, pool, rows);
  ForEachBlock(blocks_.size(), bytes_, call.rows, pool,
               [&](size_t block, const RowRange& range, size_t worker) {
                 RunBlock(call, blocks_[block], rows, range,
                          sums + worker * kWorkerSums);
               });
  return true;
}

}  // namespace steadystate
