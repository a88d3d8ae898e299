#include "server/model/state_layout.h"

#include <algorithm>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/state/packed_matrix.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

constexpr size_t kAlignment = 64;

constexpr absl::string_view kUnitsSuffix = ".units";

// Far below overflow, far above any machine: sums of checked sizes stay exact.
constexpr size_t kMaxBytes = size_t{1} << 60;

size_t RoundUp(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Bytes of a slot, or an error if a dimension is 0 or the product too large.
absl::StatusOr<size_t> CheckedBytes(size_t layer, absl::string_view name,
                                    SlotType type,
                                    const std::vector<size_t>& shape) {
  size_t bytes = ElementBytes(type);
  for (const size_t dimension : shape) {
    if (dimension == 0 || bytes > kMaxBytes / dimension) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layer ", layer, ": state slot '", name, "' has a dimension of ",
          dimension, "; it must be positive and the slot smaller than 2^60 ",
          "bytes"));
    }
    bytes *= dimension;
  }
  return bytes;
}

absl::Status TooLarge(size_t layer, absl::string_view name) {
  return absl::InvalidArgumentError(
      absl::StrCat("layer ", layer, ": with state slot '", name,
                   "' a session's state would exceed 2^60 bytes"));
}

}  // namespace

size_t ElementBytes(SlotType type) {
  switch (type) {
    case SlotType::kFloat32:
    case SlotType::kUnit:
      return sizeof(float);
    case SlotType::kFloat64:
      return sizeof(double);
    case SlotType::kBfloat16:
    case SlotType::kInt16:
      return sizeof(uint16_t);
    case SlotType::kUint8:
    case SlotType::kInt8:
      return sizeof(uint8_t);
  }
  return 0;
}

absl::string_view Name(SlotType type) {
  switch (type) {
    case SlotType::kFloat32:
      return "f32";
    case SlotType::kFloat64:
      return "f64";
    case SlotType::kBfloat16:
      return "bf16";
    case SlotType::kInt16:
      return "int16";
    case SlotType::kUint8:
      return "u8";
    case SlotType::kInt8:
      return "int8";
    case SlotType::kUnit:
      return "unit";
  }
  return "?";
}

absl::string_view Name(StateDType dtype) {
  switch (dtype) {
    case StateDType::kF32:
      return "f32";
    case StateDType::kBf16:
      return "bf16";
    case StateDType::kInt16:
      return "int16";
  }
  return "?";
}

std::string StateLayout::dtype() const {
  std::set<absl::string_view> types;
  for (const StateSlot& slot : slots_) {
    if (!IsOfUnits(slot.type)) types.insert(Name(slot.type));
  }
  return absl::StrJoin(types, "+");
}

size_t StateLayout::used_bytes(uint64_t position) const {
  const uint64_t rows = std::min(position, context_cap_);
  return fixed_bytes_ + token_bytes_ * rows;
}

StateUse StateLayout::UseOfLayer(size_t layer) const {
  StateUse use;
  for (const StateSlot& slot : slots_) {
    if (slot.layer != layer) continue;
    if (slot.growth == SlotGrowth::kFixed) {
      use.fixed_bytes += RoundUp(slot.bytes);
    } else {
      use.token_bytes += RoundUp(slot.bytes / context_cap_);
    }
  }
  return use;
}

StateLayoutBuilder::StateLayoutBuilder(StateDType matrices, SlotType cache)
    : matrices_(matrices),
      cache_(cache),
      rows_(std::make_shared<TokenSlotHandle::Rows>()) {}

absl::StatusOr<SlotHandle> StateLayoutBuilder::AddFixed(
    size_t layer, absl::string_view name, std::vector<size_t> shape) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t offset,
      Add(layer, name, SlotType::kFloat32, std::move(shape)));
  return SlotHandle(offset);
}

absl::StatusOr<DoubleSlotHandle> StateLayoutBuilder::AddFixedDoubles(
    size_t layer, absl::string_view name, std::vector<size_t> shape) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t offset,
      Add(layer, name, SlotType::kFloat64, std::move(shape)));
  return DoubleSlotHandle(offset);
}

absl::StatusOr<MatrixSlots> StateLayoutBuilder::AddMatrices(
    size_t layer, absl::string_view name, std::vector<size_t> shape) {
  has_matrices_ = true;
  MatrixSlots slots = {.dtype = matrices_};
  size_t offset = 0;
  switch (matrices_) {
    case StateDType::kF32: {
      STEADYSTATE_ASSIGN_OR_RETURN(slots.f32,
                                   AddFixed(layer, name, std::move(shape)));
      break;
    }
    case StateDType::kBf16: {
      STEADYSTATE_ASSIGN_OR_RETURN(
          offset, Add(layer, name, SlotType::kBfloat16, std::move(shape)));
      slots.bf16 = FixedSlotHandle<uint16_t>(offset);
      break;
    }
    case StateDType::kInt16: {
      STEADYSTATE_ASSIGN_OR_RETURN(offset,
                                   Add(layer, name, SlotType::kInt16, shape));
      slots.int16 = FixedSlotHandle<int16_t>(offset);
      shape.back() = Int16Groups(shape.back());
      STEADYSTATE_ASSIGN_OR_RETURN(
          offset, Add(layer, absl::StrCat(name, ".exponents"), SlotType::kUint8,
                      std::move(shape)));
      slots.exponents = FixedSlotHandle<uint8_t>(offset);
      break;
    }
  }
  return slots;
}

absl::StatusOr<DoubleSlotHandle> StateLayoutBuilder::AddDoubleMatrices(
    size_t layer, absl::string_view name, std::vector<size_t> shape) {
  if (matrices_ != StateDType::kF32) {
    return absl::FailedPreconditionError(absl::StrCat(
        "layer ", layer, ": state slot '", name,
        "' adds up and does not fade, ",
        "or fades so slowly that only doubles hold it; it cannot be kept in ",
        Name(matrices_), ". A state dtype of f32 is possible"));
  }
  return AddFixedDoubles(layer, name, std::move(shape));
}

absl::StatusOr<size_t> StateLayoutBuilder::Add(size_t layer,
                                               absl::string_view name,
                                               SlotType type,
                                               std::vector<size_t> shape) {
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t bytes,
                               CheckedBytes(layer, name, type, shape));
  if (layout_.fixed_bytes_ + bytes > kMaxBytes) return TooLarge(layer, name);
  const size_t offset = layout_.fixed_bytes_;
  layout_.fixed_bytes_ += RoundUp(bytes);
  layout_.slots_.push_back({.layer = layer,
                            .name = std::string(name),
                            .shape = std::move(shape),
                            .type = type,
                            .growth = SlotGrowth::kFixed,
                            .offset = offset,
                            .bytes = bytes});
  return offset;
}

absl::StatusOr<RingSlots> StateLayoutBuilder::AddRing(
    size_t layer, absl::string_view name, std::vector<size_t> shape) {
  RingSlots slots;
  STEADYSTATE_ASSIGN_OR_RETURN(size_t offset, Add(layer, name, cache_, shape));
  slots.elements = BytesSlotHandle(offset);
  if (cache_ != SlotType::kInt8) return slots;
  shape.pop_back();
  STEADYSTATE_ASSIGN_OR_RETURN(
      offset, Add(layer, absl::StrCat(name, kUnitsSuffix), SlotType::kUnit,
                  std::move(shape)));
  slots.units = SlotHandle(offset);
  return slots;
}

absl::StatusOr<TokenSlots> StateLayoutBuilder::AddPerToken(
    size_t layer, absl::string_view name, uint64_t cap,
    std::vector<size_t> row) {
  TokenSlots slots;
  STEADYSTATE_ASSIGN_OR_RETURN(slots.elements,
                               AddRows(layer, name, cache_, cap, row));
  if (cache_ != SlotType::kInt8) return slots;
  row.pop_back();
  STEADYSTATE_ASSIGN_OR_RETURN(slots.units,
                               AddRows(layer, absl::StrCat(name, kUnitsSuffix),
                                       SlotType::kUnit, cap, std::move(row)));
  return slots;
}

absl::StatusOr<TokenSlotHandle> StateLayoutBuilder::AddRows(
    size_t layer, absl::string_view name, SlotType type, uint64_t cap,
    std::vector<size_t> row) {
  if (layout_.context_cap_ != 0 && layout_.context_cap_ != cap) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layer ", layer, ": state slot '", name, "' has a cap of ", cap,
        " tokens, other layers one of ", layout_.context_cap_));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t row_bytes,
                               CheckedBytes(layer, name, type, row));
  row.insert(row.begin(), cap);
  STEADYSTATE_ASSIGN_OR_RETURN(const size_t bytes,
                               CheckedBytes(layer, name, type, row));
  const size_t offset = layout_.token_bytes_;
  if (offset + row_bytes > kMaxBytes / cap) return TooLarge(layer, name);
  layout_.token_bytes_ += RoundUp(row_bytes);
  layout_.context_cap_ = cap;
  layout_.slots_.push_back({.layer = layer,
                            .name = std::string(name),
                            .shape = std::move(row),
                            .type = type,
                            .growth = SlotGrowth::kPerToken,
                            .offset = offset,
                            .bytes = bytes});
  return TokenSlotHandle(rows_, offset);
}

StateLayout StateLayoutBuilder::Build() && {
  rows_->first_row = layout_.fixed_bytes_;
  rows_->row_bytes = layout_.token_bytes_;
  for (StateSlot& slot : layout_.slots_) {
    if (slot.growth != SlotGrowth::kPerToken) continue;
    slot.offset += layout_.fixed_bytes_;
    slot.row_stride = layout_.token_bytes_;
  }
  return std::move(layout_);
}

}  // namespace steadystate
