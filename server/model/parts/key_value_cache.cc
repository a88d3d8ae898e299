#include "server/model/parts/key_value_cache.h"

#include <algorithm>
#include <cstring>

#include "kernels/linear/quantize.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

DType TypeOf(SlotType cache) {
  switch (cache) {
    case SlotType::kBfloat16:
      return DType::kBf16;
    case SlotType::kInt8:
      return DType::kI8;
    default:
      return DType::kF32;
  }
}

}  // namespace

absl::StatusOr<KeyValueCache> KeyValueCache::Make(const MixerBuilder& from,
                                                  std::optional<size_t> window,
                                                  size_t heads, size_t d,
                                                  bool values_are_keys) {
  KeyValueCache cache;
  cache.window_ = window;
  cache.heads_ = heads;
  cache.d_ = d;
  cache.values_are_keys_ = values_are_keys;
  const size_t parts = values_are_keys ? 1 : 2;
  cache.dtype_ = TypeOf(from.state.cache_type());
  if (window.has_value()) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        cache.ring_,
        from.state.AddRing(from.layer, "kv", {*window, parts, heads, d}));
  } else {
    STEADYSTATE_ASSIGN_OR_RETURN(
        cache.tokens_,
        from.state.AddPerToken(from.layer, "kv", from.context_cap,
                               {parts, heads, d}));
  }
  return cache;
}

size_t KeyValueCache::LiveAt(uint64_t position) const {
  const uint64_t seen = position + 1;
  return window_.has_value() ? std::min<uint64_t>(seen, *window_) : seen;
}

void KeyValueCache::Keep(std::byte* state, size_t head, uint64_t position,
                         const float* key, const float* value) const {
  const size_t slot = window_.has_value() ? position % *window_ : position;
  KeepRow(RowAt(state, slot, head), key);
  if (values_are_keys_) return;
  KeepRow(RowAt(state, slot, values() + head), value);
}

KeyValueRows KeyValueCache::Rows(std::byte* state, size_t head,
                                 size_t n) const {
  const Row key = RowAt(state, 0, head);
  const Row value = RowAt(state, 0, values() + head);
  const size_t stride = window_.has_value()
                            ? matrices() * d_
                            : tokens_.elements.stride() / SizeOf(dtype_);
  KeyValueRows rows = {.d = d_,
                       .n = n,
                       .stride = stride,
                       .dtype = dtype_,
                       .keys = key.elements,
                       .values = value.elements};
  if (dtype_ == DType::kI8) {
    rows.key_units = key.unit;
    rows.value_units = value.unit;
    rows.unit_stride = window_.has_value()
                           ? matrices()
                           : tokens_.units.stride() / sizeof(float);
  }
  return rows;
}

// `matrix`: of the matrices() that a token has.
KeyValueCache::Row KeyValueCache::RowAt(std::byte* state, size_t slot,
                                        size_t matrix) const {
  const size_t row_bytes = d_ * SizeOf(dtype_);
  const bool has_unit = dtype_ == DType::kI8;
  if (window_.has_value()) {
    const size_t index = slot * matrices() + matrix;
    return {.elements = ring_.elements.In(state) + index * row_bytes,
            .unit = has_unit ? ring_.units.In(state) + index : nullptr};
  }
  std::byte* const elements = tokens_.elements.In(state) +
                              slot * tokens_.elements.stride() +
                              matrix * row_bytes;
  if (!has_unit) return {.elements = elements, .unit = nullptr};
  std::byte* const units =
      tokens_.units.In(state) + slot * tokens_.units.stride();
  return {.elements = elements,
          .unit = reinterpret_cast<float*>(units) + matrix};
}

void KeyValueCache::KeepRow(const Row& row, const float* from) const {
  switch (dtype_) {
    case DType::kBf16:
      ConvertToBf16(d_, from, reinterpret_cast<uint16_t*>(row.elements));
      return;
    case DType::kI8:
      *row.unit =
          QuantizeRow(d_, from, {}, reinterpret_cast<uint8_t*>(row.elements));
      return;
    default:
      std::memcpy(row.elements, from, d_ * sizeof(float));
  }
}

}  // namespace steadystate
