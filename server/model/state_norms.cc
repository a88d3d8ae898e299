#include "server/model/state_norms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "absl/functional/function_ref.h"
#include "kernels/pointwise/activation.h"
#include "kernels/state/packed_matrix.h"

namespace steadystate {
namespace {

// The exponent that a unit of int16 has where its group is not finite.
constexpr uint8_t kNotFiniteExponent = 255;

// Elements that are widened at once; they stay in the cache.
constexpr size_t kChunk = 1024;

size_t CountOf(const std::vector<size_t>& shape, size_t from) {
  size_t count = 1;
  for (size_t i = from; i < shape.size(); ++i) count *= shape[i];
  return count;
}

// Calls `each` for runs of a slot's elements that lie together, of a session at
// a position >= 1.
void ForEachRun(
    const StateSlot& slot, const std::byte* state, uint64_t position,
    absl::FunctionRef<void(const std::byte* run, size_t count)> each) {
  const std::byte* const first = state + slot.offset;
  if (slot.growth == SlotGrowth::kFixed) {
    each(first, CountOf(slot.shape, 0));
    return;
  }
  const auto rows =
      static_cast<size_t>(std::min<uint64_t>(position, slot.shape.front()));
  const size_t count = CountOf(slot.shape, 1);
  for (size_t row = 0; row < rows; ++row) {
    each(first + row * slot.row_stride, count);
  }
}

using Elements = absl::FunctionRef<void(std::span<const double>)>;

// Calls `each` for the elements of a run, some at a time.
template <typename T>
void Widen(const std::byte* run, size_t count, Elements each) {
  double wide[kChunk];
  const T* const from = reinterpret_cast<const T*>(run);
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t size = std::min(kChunk, count - begin);
    for (size_t i = 0; i < size; ++i) wide[i] = double{from[begin + i]};
    each({wide, size});
  }
}

void WidenBf16(const std::byte* run, size_t count, Elements each) {
  float floats[kChunk];
  const auto* const from = reinterpret_cast<const uint16_t*>(run);
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t size = std::min(kChunk, count - begin);
    UnpackBf16(size, from + begin, floats);
    Widen<float>(reinterpret_cast<const std::byte*>(floats), size, each);
  }
}

// `units`: the slot of the exponents. Matrices have as many of either at any
// position.
void WidenInt16(const StateSlot& slot, const StateSlot& units,
                const std::byte* state, Elements each) {
  const size_t columns = slot.shape.back();
  const size_t groups = Int16Groups(columns);
  const size_t rows = CountOf(slot.shape, 0) / columns;
  std::vector<float> floats(columns);
  const auto* from = reinterpret_cast<const int16_t*>(state + slot.offset);
  const auto* exponents =
      reinterpret_cast<const uint8_t*>(state + units.offset);
  for (size_t row = 0; row < rows; ++row) {
    UnpackInt16(1, columns, from, exponents, floats.data());
    Widen<float>(reinterpret_cast<const std::byte*>(floats.data()), columns,
                 each);
    from += columns;
    exponents += groups;
  }
}

// `units`: the slot of the units, of which a token has as many as rows.
void WidenInt8(const StateSlot& slot, const StateSlot& units,
               const std::byte* state, uint64_t position, Elements each) {
  const size_t columns = slot.shape.back();
  const std::byte* const first_unit = state + units.offset;
  std::vector<float> floats(columns);
  size_t run_index = 0;
  ForEachRun(slot, state, position, [&](const std::byte* run, size_t count) {
    const auto* from = reinterpret_cast<const int8_t*>(run);
    const auto* of_run = reinterpret_cast<const float*>(
        first_unit + run_index++ * units.row_stride);
    for (size_t row = 0; row < count / columns; ++row, from += columns) {
      for (size_t i = 0; i < columns; ++i) {
        floats[i] = of_run[row] * static_cast<float>(from[i]);
      }
      Widen<float>(reinterpret_cast<const std::byte*>(floats.data()), columns,
                   each);
    }
  });
}

// Calls `each` for all elements of the slot at `index`, in their order.
void ForEachElement(const StateLayout& layout, size_t index,
                    const std::byte* state, uint64_t position, Elements each) {
  const StateSlot& slot = layout.slots()[index];
  if (slot.type == SlotType::kInt16) {
    WidenInt16(slot, layout.slots()[index + 1], state, each);
    return;
  }
  if (slot.type == SlotType::kInt8) {
    WidenInt8(slot, layout.slots()[index + 1], state, position, each);
    return;
  }
  ForEachRun(slot, state, position, [&](const std::byte* run, size_t count) {
    if (slot.type == SlotType::kFloat64) {
      Widen<double>(run, count, each);
    } else if (slot.type == SlotType::kBfloat16) {
      WidenBf16(run, count, each);
    } else {
      Widen<float>(run, count, each);
    }
  });
}

// What the elements are divided by before they are squared, so that no square
// leaves a double's range.
double ScaleFor(double max_abs) {
  constexpr double kLarge = 1e100;
  const bool fits = max_abs == 0 || (max_abs < kLarge && max_abs > 1 / kLarge);
  return fits ? 1 : max_abs;
}

bool RunIsFinite(const StateSlot& slot, const std::byte* run, size_t count) {
  bool finite = true;
  switch (slot.type) {
    case SlotType::kFloat32:
    case SlotType::kUnit:
      return AllFinite(count, reinterpret_cast<const float*>(run));
    case SlotType::kFloat64:
      for (size_t i = 0; i < count; ++i) {
        finite &= std::isfinite(reinterpret_cast<const double*>(run)[i]);
      }
      return finite;
    case SlotType::kBfloat16:
      for (size_t i = 0; i < count; ++i) {
        constexpr uint16_t kExponent = 0x7F80;
        const uint16_t bits = reinterpret_cast<const uint16_t*>(run)[i];
        finite &= (bits & kExponent) != kExponent;
      }
      return finite;
    case SlotType::kInt16:
    case SlotType::kInt8:
      return true;  // the units tell
    case SlotType::kUint8:
      for (size_t i = 0; i < count; ++i) {
        finite &= std::to_integer<uint8_t>(run[i]) != kNotFiniteExponent;
      }
      return finite;
  }
  return finite;
}

}  // namespace

std::vector<SlotNorm> NormsOf(const StateLayout& layout, const std::byte* state,
                              uint64_t position) {
  std::vector<SlotNorm> norms;
  const std::vector<StateSlot>& slots = layout.slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (IsOfUnits(slots[i].type)) continue;
    SlotNorm& norm = norms.emplace_back();
    norm.layer = slots[i].layer;
    norm.name = slots[i].name;
    if (position == 0) continue;
    ForEachElement(layout, i, state, position,
                   [&norm](std::span<const double> elements) {
                     for (const double x : elements) {
                       if (!std::isfinite(x)) {
                         ++norm.non_finite;
                       } else {
                         norm.max_abs = std::max(norm.max_abs, std::abs(x));
                       }
                     }
                   });
    const double scale = ScaleFor(norm.max_abs);
    double sum = 0;
    ForEachElement(layout, i, state, position,
                   [&sum, scale](std::span<const double> elements) {
                     for (const double x : elements) {
                       if (!std::isfinite(x)) continue;
                       sum += (x / scale) * (x / scale);
                     }
                   });
    norm.l2_norm = scale * std::sqrt(sum);
  }
  return norms;
}

bool IsFinite(const StateLayout& layout, const std::byte* state,
              uint64_t position) {
  if (position == 0) return true;
  for (const StateSlot& slot : layout.slots()) {
    bool finite = true;
    ForEachRun(slot, state, position, [&](const std::byte* run, size_t count) {
      finite = finite && RunIsFinite(slot, run, count);
    });
    if (!finite) return false;
  }
  return true;
}

}  // namespace steadystate
