#ifndef STEADYSTATE_KERNELS_LINEAR_ROW_TILES_H_
#define STEADYSTATE_KERNELS_LINEAR_ROW_TILES_H_

#include <cstddef>
#include <span>
#include <vector>

namespace steadystate {

// What a multiplication of `rows` rows at once gave for a fixed set of test
// rows, each of which stood at every position of the tile among other rows.
struct TileTrial {
  size_t rows = 0;
  bool position_free = false;  // a test row's bits were the same everywhere
  std::vector<float> results;  // f32[test rows, columns], all trials alike
};

// The tile sizes of each class of rows (row_class.h), ascending: position-free
// sizes whose results are equal bit for bit. Both empty if there are none.
struct RowTiles {
  std::vector<size_t> decode;
  std::vector<size_t> prefill;
};

// Decode takes, of the sizes up to kMaxDecodeTile, the largest set; of equally
// large sets the one with the larger sizes. Where the largest of all
// position-free sizes equals it, both classes are one, of every size that does.
// Else prefill takes that largest size and those equal to it.
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

#endif  // STEADYSTATE_KERNELS_LINEAR_ROW_TILES_H_
