#ifndef STEADYSTATE_KERNELS_LINEAR_TILING_H_
#define STEADYSTATE_KERNELS_LINEAR_TILING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/dtype.h"

namespace steadystate {

// How a projection is cut: its columns into blocks, the rows of a call into
// tiles.

// Columns per block of an [out, in] weight matrix, the last block excepted: a
// function of the shape alone, neither of threads nor of time. Wide enough to
// keep oneDNN busy, narrow enough to give every thread some blocks and to stay
// in the second-level cache while the row tiles pass by.
constexpr size_t ColumnsPerBlock(size_t in, size_t out, DType dtype) {
  constexpr size_t kGrain = 64;
  constexpr size_t kMaxGrains = 4;
  constexpr size_t kWantedBlocks = 8;
  constexpr size_t kBlockBytes = size_t{512} << 10;
  const size_t fitting = kBlockBytes / (kGrain * in * SizeOf(dtype));
  const size_t sharing = out / (kGrain * kWantedBlocks);
  const size_t grains = std::min({fitting, sharing, kMaxGrains});
  return std::max<size_t>(grains, 1) * kGrain;
}

// What the rows of a projection are. Each class has row tiles of its own,
// chosen when the shape is first met, and a row's bits are a function of the
// row, the weights and the class: so the class must follow from a session's own
// request, never from what else is in the batch.
enum class RowClass : uint8_t {
  kDecode,   // one token of each of some sessions: few rows at a time
  kPrefill,  // many tokens of a session: tiles may be large
};

// What a multiplication of `rows` rows at once gave for a fixed set of test
// rows, each of which stood at every position of the tile among other rows.
struct TileTrial {
  size_t rows = 0;
  bool position_free = false;  // a test row's bits were the same everywhere
  std::vector<float> results;  // f32[test rows, columns], all trials alike
};

// The tile sizes of each class of rows, ascending: position-free
// sizes whose results are equal bit for bit. Both empty if there are none.
struct RowTiles {
  std::vector<size_t> decode;
  std::vector<size_t> prefill;
};

// Decode takes, of the sizes up to kMaxDecodeTile, the largest set; of equally
// large sets the one with the larger sizes. Where the largest of all
// position-free sizes equals it, both classes are one, of every size that does.
// Else prefill takes that largest size and those equal to it, if one of them is
// as small as decode's may be, or if decode has no tile of kMaxDecodeTile rows;
// if not, both classes are one, of decode's sizes and those equal to them.
constexpr size_t kMaxDecodeTile = 64;
RowTiles ChooseRowTiles(std::span<const TileTrial> trials);

// Index of the smallest of the ascending `sizes` that holds `left` rows, or of
// the largest if none does: the tile to use where `left` rows are left.
size_t TileFor(std::span<const size_t> sizes, size_t left);

// How the tiles lie on the rows of one call: the largest size as often as it
// fits, then one that holds the rest.
struct RowPlan {
  size_t tiles = 0;
  size_t whole = 0;   // rows in tiles without padding
  size_t padded = 0;  // rows of all tiles, padding included
};
RowPlan PlanRows(std::span<const size_t> sizes, size_t rows);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_TILING_H_
