#include "server/model/state_layout.h"

#include <algorithm>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

constexpr size_t kAlignment = 64;

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
  return type == SlotType::kFloat64 ? sizeof(double) : sizeof(float);
}

absl::string_view Name(SlotType type) {
  return type == SlotType::kFloat64 ? "f64" : "f32";
}

std::string StateLayout::dtype() const {
  std::set<absl::string_view> types;
  for (const StateSlot& slot : slots_) types.insert(Name(slot.type));
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

StateLayoutBuilder::StateLayoutBuilder()
    : rows_(std::make_shared<GrowingSlotHandle::Rows>()) {}

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

absl::StatusOr<GrowingSlotHandle> StateLayoutBuilder::AddPerToken(
    size_t layer, absl::string_view name, uint64_t cap,
    std::vector<size_t> row) {
  if (layout_.context_cap_ != 0 && layout_.context_cap_ != cap) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layer ", layer, ": state slot '", name, "' has a cap of ", cap,
        " tokens, other layers one of ", layout_.context_cap_));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t row_bytes,
      CheckedBytes(layer, name, SlotType::kFloat32, row));
  row.insert(row.begin(), cap);
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t bytes, CheckedBytes(layer, name, SlotType::kFloat32, row));
  const size_t offset = layout_.token_bytes_;
  if (offset + row_bytes > kMaxBytes / cap) return TooLarge(layer, name);
  layout_.token_bytes_ += RoundUp(row_bytes);
  layout_.context_cap_ = cap;
  layout_.slots_.push_back({.layer = layer,
                            .name = std::string(name),
                            .shape = std::move(row),
                            .type = SlotType::kFloat32,
                            .growth = SlotGrowth::kPerToken,
                            .offset = offset,
                            .bytes = bytes});
  return GrowingSlotHandle(rows_, offset);
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
