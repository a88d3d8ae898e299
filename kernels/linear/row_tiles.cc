#include "kernels/linear/row_tiles.h"

#include <algorithm>
#include <cstring>

namespace steadystate {
namespace {

// Not ==, for which -0 equals 0.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// True if set `a` is to be preferred. Both descending.
bool Better(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  return a > b;
}

}  // namespace

std::vector<size_t> ChooseRowTiles(std::span<const TileTrial> trials) {
  std::vector<size_t> best;
  for (const TileTrial& founder : trials) {
    if (!founder.position_free) continue;
    std::vector<size_t> equals;
    for (const TileTrial& trial : trials) {
      if (trial.position_free && SameBits(trial.results, founder.results)) {
        equals.push_back(trial.rows);
      }
    }
    std::sort(equals.rbegin(), equals.rend());
    if (Better(equals, best)) best = equals;
  }
  std::reverse(best.begin(), best.end());
  return best;
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
