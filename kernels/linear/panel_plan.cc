#include "kernels/linear/panel_plan.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/linear/matrix_memory.h"

namespace steadystate {
namespace {

// Rows of a trial: more than one pass.
constexpr size_t kTrialRows = 8;
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

// Multiplies as trials want it: kTrialRows rows to results of four bytes each,
// [kTrialRows, width].
auto MultiplyBy(const PanelPlan& plan, const PanelBlock& block,
                std::byte* scratch) {
  return [plan, block, scratch](const void* x, void* y) {
    const auto store = [&](size_t row, size_t count, size_t column,
                           size_t width, const std::byte* sums) {
      for (size_t r = 0; r < count; ++r) {
        std::memcpy(
            static_cast<std::byte*>(y) + ((row + r) * block.width + column) * 4,
            sums + r * kPanelColumns * 4, width * 4);
      }
    };
    MultiplyPanels(plan, block, kTrialRows, static_cast<const std::byte*>(x),
                   scratch, store);
  };
}

// True if the plan's results for the rows of `trials` are `expected`.
bool Gives(std::span<const float> expected, const PanelPlan& plan,
           const PanelBlock& block, const TileTrials& trials,
           std::byte* scratch) {
  const TileTrial trial =
      trials.Try(kTrialRows, MultiplyBy(plan, block, scratch));
  return trial.position_free && trial.results.size() == expected.size() &&
         std::memcmp(trial.results.data(), expected.data(),
                     expected.size_bytes()) == 0;
}

}  // namespace

PanelPlan FindEqualPlan(const PanelBlock& block, const TileTrials& trials,
                        std::span<const float> expected, size_t max_rows) {
  AlignedBytes scratch;
  if (!scratch.Allocate(kPanelScratchBytes)) return {};
  PanelPlan plan;
  for (const MultiplyPanel multiply : FindMultiplyPanels(block.dtype)) {
    plan.multiply = multiply;
    for (const size_t elements : kChunks) {
      plan.chunk = StepsOf(elements, block.dtype);
      if (plan.chunk != 0 &&
          Gives(expected, plan, block, trials, scratch.data())) {
        plan.max_rows = max_rows;
        return plan;
      }
    }
  }
  return {};
}

PanelPlan FindExactPlan(const PanelBlock& block, const IntegerTrials& trials,
                        size_t max_rows) {
  const std::vector<MultiplyPanel> found = FindMultiplyPanels(block.dtype);
  AlignedBytes scratch;
  if (found.empty() || !scratch.Allocate(kPanelScratchBytes)) return {};
  const PanelPlan plan = {found.front(), StepsOf(kAllElements, block.dtype),
                          max_rows};
  const bool exact = trials.Exact(kTrialRows, IntegerTrials::Sums::kWhole,
                                  MultiplyBy(plan, block, scratch.data()));
  return exact ? plan : PanelPlan{};
}

}  // namespace steadystate
