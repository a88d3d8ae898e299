#include "kernels/linear/tiling.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace steadystate {
namespace {

// Not ==, for which -0 equals 0.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The position-free sizes up to `most` with the results of `founder`,
// descending.
std::vector<size_t> EqualSizes(std::span<const TileTrial> trials,
                               const TileTrial& founder, size_t most) {
  std::vector<size_t> equals;
  for (const TileTrial& trial : trials) {
    if (trial.rows <= most && trial.position_free &&
        SameBits(trial.results, founder.results)) {
      equals.push_back(trial.rows);
    }
  }
  std::sort(equals.rbegin(), equals.rend());
  return equals;
}

// True if prompts had better take decode's sizes: the other set, which is for
// them alone, would pad the few rows at a prompt's end to a large tile, and
// decode's tiles are no small ones. Both descending.
bool PadsMore(const std::vector<size_t>& prefill,
              const std::vector<size_t>& decode) {
  return prefill.back() > kMaxDecodeTile && !decode.empty() &&
         decode.front() >= kMaxDecodeTile;
}

// True if set `a` is to be preferred. Both descending.
bool Better(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  return a > b;
}

}  // namespace

RowTiles ChooseRowTiles(std::span<const TileTrial> trials) {
  RowTiles tiles;
  std::vector<size_t> joined;  // as decode's, but of any size
  const TileTrial* largest = nullptr;
  for (const TileTrial& trial : trials) {
    if (!trial.position_free) continue;
    if (largest == nullptr || trial.rows > largest->rows) largest = &trial;
    const std::vector<size_t> equals = EqualSizes(trials, trial, SIZE_MAX);
    const std::vector<size_t> small = EqualSizes(trials, trial, kMaxDecodeTile);
    if (Better(small, tiles.decode)) {
      tiles.decode = small;
      joined = equals;
    }
  }
  if (largest == nullptr) return tiles;
  tiles.prefill = EqualSizes(trials, *largest, SIZE_MAX);
  if (PadsMore(tiles.prefill, tiles.decode)) tiles.prefill = joined;
  if (joined.empty() || joined == tiles.prefill) tiles.decode = tiles.prefill;
  std::reverse(tiles.decode.begin(), tiles.decode.end());
  std::reverse(tiles.prefill.begin(), tiles.prefill.end());
  return tiles;
}

size_t TileFor(std::span<const size_t> sizes, size_t left) {
  size_t i = 0;
  while (i + 1 < sizes.size() && sizes[i] < left) ++i;
  return i;
}

RowPlan PlanRows(std::span<const size_t> sizes, size_t rows) {
  const size_t largest = sizes.back();
  const size_t left = rows % largest;
  if (left == 0) return {rows / largest, rows, rows};
  const size_t last = sizes[TileFor(sizes, left)];
  const size_t whole = last == left ? rows : rows - left;
  return {rows / largest + 1, whole, rows - left + last};
}

}  // namespace steadystate
