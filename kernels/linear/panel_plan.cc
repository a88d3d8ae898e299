#include "kernels/linear/panel_plan.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/linear/matrix_memory.h"

namespace steadystate {
namespace {

// Rows of the trials: of vectors more than one pass; of AMX's tiles some that
// one tile holds, and some that take two bands of two tiles.
constexpr size_t kVectorTrials[] = {8};
constexpr size_t kAmxTrials[] = {8, 40};

std::span<const size_t> TrialRows(const PanelLoop& loop) {
  if (loop.amx) return kAmxTrials;
  return kVectorTrials;
}

// Elements that oneDNN adds up by themselves: 512 or 1024 in what has been
// seen, or all of them.
constexpr size_t kAllElements = SIZE_MAX;
constexpr size_t kChunks[] = {512, 1024, 256, 2048, kAllElements};

// In steps; a multiple of kPanelSlab, or 0 if it is none.
size_t StepsOf(size_t elements, DType dtype) {
  if (elements == kAllElements) return SIZE_MAX / kPanelSlab * kPanelSlab;
  const size_t steps = elements / ElementsPerStep(dtype);
  return steps % kPanelSlab == 0 ? steps : 0;
}

// Multiplies as trials want it: `rows` rows to results of four bytes each,
// [rows, width].
auto MultiplyBy(const PanelPlan& plan, const PanelBlock& block, size_t rows,
                std::byte* scratch) {
  return [plan, block, rows, scratch](const void* x, void* y) {
    const auto store = [&](size_t row, size_t count, size_t column,
                           size_t width, const std::byte* sums) {
      for (size_t r = 0; r < count; ++r) {
        std::memcpy(
            static_cast<std::byte*>(y) + ((row + r) * block.width + column) * 4,
            sums + r * kPanelColumns * 4, width * 4);
      }
    };
    MultiplyPanels(plan, block, rows, static_cast<const std::byte*>(x), scratch,
                   store);
  };
}

// True if the plan's results for the rows of `trials` are `expected`, in calls
// of `rows` rows.
bool Gives(std::span<const float> expected, const PanelPlan& plan,
           const PanelBlock& block, const TileTrials& trials, size_t rows,
           std::byte* scratch) {
  const TileTrial trial =
      trials.Try(rows, MultiplyBy(plan, block, rows, scratch));
  return trial.position_free && trial.results.size() == expected.size() &&
         std::memcmp(trial.results.data(), expected.data(),
                     expected.size_bytes()) == 0;
}

}  // namespace

PanelPlan FindEqualPlan(const PanelBlock& block, const TileTrials& trials,
                        std::span<const float> expected,
                        const PanelRows& max_rows) {
  AlignedBytes scratch;
  if (!scratch.Allocate(kPanelScratchBytes)) return {};
  for (const PanelLoop& loop : FindPanelLoops(block.dtype)) {
    PanelPlan plan{loop.multiply, 0, max_rows.Of(loop)};
    if (plan.max_rows == 0) continue;
    for (const size_t elements : kChunks) {
      plan.chunk = StepsOf(elements, block.dtype);
      if (plan.chunk != 0 &&
          std::ranges::all_of(TrialRows(loop), [&](size_t rows) {
            return Gives(expected, plan, block, trials, rows, scratch.data());
          })) {
        return plan;
      }
    }
  }
  return {};
}

PanelPlan FindExactPlan(const PanelBlock& block, const IntegerTrials& trials,
                        const PanelRows& max_rows) {
  AlignedBytes scratch;
  if (!scratch.Allocate(kPanelScratchBytes)) return {};
  for (const PanelLoop& loop : FindPanelLoops(block.dtype)) {
    const PanelPlan plan = {loop.multiply, StepsOf(kAllElements, block.dtype),
                            max_rows.Of(loop)};
    if (plan.max_rows > 0 &&
        std::ranges::all_of(TrialRows(loop), [&](size_t rows) {
          return trials.Exact(rows, IntegerTrials::Sums::kWhole,
                              MultiplyBy(plan, block, rows, scratch.data()));
        })) {
      return plan;
    }
  }
  return {};
}

}  // namespace steadystate
