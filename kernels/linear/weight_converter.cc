#include "kernels/linear/weight_converter.h"

#include <algorithm>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/linear/quantize.h"

namespace steadystate {
namespace {

// oneDNN counts some sizes in int. Products of two stay far from overflow.
constexpr size_t kMaxDimension = size_t{1} << 30;

}  // namespace

absl::StatusOr<size_t> CountRows(size_t in, std::span<const WeightRows> parts) {
  if (in == 0 || parts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a projection needs inputs and weights; got ", in,
                     " inputs and ", parts.size(), " matrices"));
  }
  size_t out = 0;
  for (const WeightRows& part : parts) {
    if (part.rows == 0 || part.data.data == nullptr) {
      return absl::InvalidArgumentError("a projection's matrix is empty");
    }
    out += std::min(part.rows, kMaxDimension + 1);
    if (in > kMaxDimension || out > kMaxDimension) {
      return absl::InvalidArgumentError(
          absl::StrCat("a projection of ", in, " inputs and ", part.rows,
                       " or more outputs; at most ", kMaxDimension, " each"));
    }
  }
  return out;
}

void GatherRows(size_t in, std::span<const WeightRows> parts, size_t first,
                size_t count, float* to) {
  for (const WeightRows& part : parts) {
    if (first < part.rows) {
      const size_t here = std::min(count, part.rows - first);
      ConvertToF32(part.data, first * in, here * in, to);
      to += here * in;
      count -= here;
      first += here;
    }
    first -= part.rows;
    if (count == 0) return;
  }
}

WeightConverter::WeightConverter(DType dtype, size_t in,
                                 std::span<const WeightRows> parts,
                                 size_t widest)
    : dtype_(dtype), in_(in), parts_(parts) {
  const size_t elements = widest * in;
  values_ = std::make_unique_for_overwrite<float[]>(elements);
  if (dtype == DType::kBf16) {
    halves_ = std::make_unique_for_overwrite<uint16_t[]>(elements);
  } else if (dtype == DType::kI8) {
    bytes_ = std::make_unique_for_overwrite<uint8_t[]>(elements);
  }
}

std::vector<WeightConverter> WeightConverter::Team(
    size_t threads, DType dtype, size_t in, std::span<const WeightRows> parts,
    size_t widest) {
  std::vector<WeightConverter> team;
  team.reserve(threads);
  for (size_t i = 0; i < threads; ++i) {
    team.emplace_back(dtype, in, parts, widest);
  }
  return team;
}

const void* WeightConverter::Convert(size_t first, size_t width,
                                     ColumnScales columns) {
  GatherRows(in_, parts_, first, width, values_.get());
  switch (dtype_) {
    case DType::kBf16:
      ConvertToBf16(width * in_, values_.get(), halves_.get());
      return halves_.get();
    case DType::kI8:
      Quantize(width, columns);
      return bytes_.get();
    default:
      return values_.get();
  }
}

void WeightConverter::Quantize(size_t width, ColumnScales columns) {
  for (size_t j = 0; j < width; ++j) {
    uint8_t* const to = bytes_.get() + j * in_;
    columns.scales[j] = QuantizeRow(in_, values_.get() + j * in_,
                                    {.limit = 127, .zero = 0}, to);
    if (columns.sums == nullptr) continue;
    const auto* const bytes = reinterpret_cast<const int8_t*>(to);
    columns.sums[j] = std::accumulate(bytes, bytes + in_, int32_t{0});
  }
}

}  // namespace steadystate
