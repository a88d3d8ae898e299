#ifndef STEADYSTATE_SERVER_MODEL_STATE_LAYOUT_H_
#define STEADYSTATE_SERVER_MODEL_STATE_LAYOUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/model/slot_handles.h"

namespace steadystate {

// How much of a slot a session has in use.
enum class SlotGrowth : uint8_t {
  kFixed,     // all of it, from position 0 on; zeros at position 0
  kPerToken,  // the first `position` rows of its leading dimension, the cap
};

// What the elements of a slot are.
enum class SlotType : uint8_t {
  kFloat32,
  kFloat64,  // sums that only grow: float32 would stop counting at 2^24
  kBfloat16,
  kInt16,  // in units that groups of elements share (kernels/state)
  kUint8,  // the exponents of those units
  kInt8,   // in units that the rows of keys and values have
  kUnit,   // those units: float32
};

// Whether such a slot says only what another's elements are multiples of.
constexpr bool IsOfUnits(SlotType type) {
  return type == SlotType::kUint8 || type == SlotType::kUnit;
}

// Bytes of one element.
size_t ElementBytes(SlotType type);

// The name used in descriptions and metrics: "f32", "f64", "bf16", "int16",
// "u8", "int8", "unit".
absl::string_view Name(SlotType type);

// One named slot of a layer's per-session state: row-major, at a 64-byte
// aligned offset from the start of the session's state.
struct StateSlot {
  size_t layer = 0;
  std::string name;           // "S", "conv", "kv"
  std::vector<size_t> shape;  // [H, K, V]; per token: [cap, row ...]
  SlotType type = SlotType::kFloat32;
  SlotGrowth growth = SlotGrowth::kFixed;
  size_t offset = 0;  // bytes from the start of the state
  size_t bytes = 0;   // product of shape times the element's
  // Per token only: bytes from one row to the next. The rows of one token lie
  // together, whatever slot they belong to.
  size_t row_stride = 0;
};

// What the slots of some layers take of a session's state, alignment included.
struct StateUse {
  size_t fixed_bytes = 0;  // from the start
  size_t token_bytes = 0;  // each token adds, up to the layout's cap
};

// The state of one session: every slot of every layer. Computed once per model;
// the only authority on what a session's bytes mean. Pools, accounting and
// snapshots work on it and never name a mechanism. Immutable.
//
// Fixed slots come first, then token after token the rows of all per-token
// slots, so that a session at position p has touched exactly
// [0, fixed_bytes() + p * token_bytes()).
class StateLayout {
 public:
  const std::vector<StateSlot>& slots() const { return slots_; }

  // Bytes of one session's state, caps of per-token slots included. A multiple
  // of 64.
  size_t bytes() const { return bytes_at(context_cap_); }
  // The same of a session that stops at an earlier cap: what lies where does
  // not depend on it.
  size_t bytes_at(uint64_t cap) const {
    return fixed_bytes_ +
           token_bytes_ * static_cast<size_t>(std::min(cap, context_cap_));
  }
  // In use from the start. A multiple of 64.
  size_t fixed_bytes() const { return fixed_bytes_; }
  // What each token adds; 0 without per-token slots. A multiple of 64.
  size_t token_bytes() const { return token_bytes_; }

  // Bytes that a session at `position` has ever written, from the start of the
  // state: what must be cleared when it ends. At most bytes().
  size_t used_bytes(uint64_t position) const;

  // Of one layer; those of all layers add up to fixed_bytes() and
  // token_bytes().
  StateUse UseOfLayer(size_t layer) const;

  // The types of the slots, as "f32" or "f32+f64". Units count as part of what
  // has them.
  std::string dtype() const;

  // The position beyond which a session cannot advance, or 0 for none.
  uint64_t context_cap() const { return context_cap_; }

 private:
  friend class StateLayoutBuilder;
  std::vector<StateSlot> slots_;
  size_t fixed_bytes_ = 0;
  size_t token_bytes_ = 0;
  uint64_t context_cap_ = 0;
};

// Collects the slots that mixers declare while a model is loaded.
class StateLayoutBuilder {
 public:
  // `matrices`: of those added with AddMatrices. `cache`: of what softmax
  // layers keep of tokens, kFloat32, kBfloat16 or kInt8.
  explicit StateLayoutBuilder(StateDType matrices = StateDType::kF32,
                              SlotType cache = SlotType::kFloat32);

  SlotType cache_type() const { return cache_; }

  // INVALID_ARGUMENT, naming layer and slot: a dimension is 0, or the state
  // would not fit in size_t.
  absl::StatusOr<SlotHandle> AddFixed(size_t layer, absl::string_view name,
                                      std::vector<size_t> shape);

  // The same, of doubles.
  absl::StatusOr<DoubleSlotHandle> AddFixedDoubles(size_t layer,
                                                   absl::string_view name,
                                                   std::vector<size_t> shape);

  // Recurrent matrices, [..., columns]. In int16 their exponents are a slot of
  // their own, "<name>.exponents" of [..., Int16Groups(columns)].
  absl::StatusOr<MatrixSlots> AddMatrices(size_t layer, absl::string_view name,
                                          std::vector<size_t> shape);

  // Recurrent matrices that only doubles hold, since nothing in them fades.
  // Also FAILED_PRECONDITION if this model's matrices shall take less.
  absl::StatusOr<DoubleSlotHandle> AddDoubleMatrices(size_t layer,
                                                     absl::string_view name,
                                                     std::vector<size_t> shape);

  // True once AddMatrices was called.
  bool has_matrices() const { return has_matrices_; }

  // A fixed slot of the cache's type: a window of tokens. In int8 their units
  // are a slot of their own, "<name>.units", without the last dimension.
  absl::StatusOr<RingSlots> AddRing(size_t layer, absl::string_view name,
                                    std::vector<size_t> shape);

  // A slot of `cap` rows of shape `row`, one row a token, of the cache's type;
  // units as above. All such slots of a model have the same cap, at least 1.
  // The handles are usable after Build.
  absl::StatusOr<TokenSlots> AddPerToken(size_t layer, absl::string_view name,
                                         uint64_t cap, std::vector<size_t> row);

  StateLayout Build() &&;

 private:
  // Returns the offset.
  absl::StatusOr<size_t> Add(size_t layer, absl::string_view name,
                             SlotType type, std::vector<size_t> shape);
  absl::StatusOr<TokenSlotHandle> AddRows(size_t layer, absl::string_view name,
                                          SlotType type, uint64_t cap,
                                          std::vector<size_t> row);

  StateLayout layout_;
  StateDType matrices_;
  SlotType cache_;
  bool has_matrices_ = false;
  std::shared_ptr<TokenSlotHandle::Rows> rows_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_STATE_LAYOUT_H_
