#ifndef STEADYSTATE_SERVER_MODEL_STATE_LAYOUT_H_
#define STEADYSTATE_SERVER_MODEL_STATE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// How much of a slot a session has in use.
enum class SlotGrowth : uint8_t {
  kFixed,     // all of it, from position 0 on; zeros at position 0
  kPerToken,  // the first `position` rows of its leading dimension, the cap
};

// One named block of a layer's per-session state: f32, row-major, at a 64-byte
// aligned offset from the start of the session's state.
struct StateSlot {
  size_t layer = 0;
  std::string name;           // "S", "conv_q", "kv"
  std::vector<size_t> shape;  // [H, K, V]
  SlotGrowth growth = SlotGrowth::kFixed;
  size_t offset = 0;  // bytes from the start of the state
  size_t bytes = 0;   // product of shape times 4
};

// Where a mixer finds its slot in a session's state.
class SlotHandle {
 public:
  SlotHandle() = default;
  float* In(std::byte* state) const {
    return reinterpret_cast<float*>(state + offset_);
  }
  const float* In(const std::byte* state) const {
    return reinterpret_cast<const float*>(state + offset_);
  }

 private:
  friend class StateLayoutBuilder;
  explicit SlotHandle(size_t offset) : offset_(offset) {}
  size_t offset_ = 0;
};

// The state of one session: every slot of every layer. Computed once per model;
// the only authority on what a session's bytes mean. Pools, accounting and
// snapshots work on it and never name a mechanism. Immutable.
class StateLayout {
 public:
  const std::vector<StateSlot>& slots() const { return slots_; }

  // Bytes of one session's state, caps of growing slots included. A multiple
  // of 64. Fixed slots come first: [0, fixed_bytes()) is in use from the start.
  size_t bytes() const { return bytes_; }
  size_t fixed_bytes() const { return fixed_bytes_; }

  // Bytes that a session at `position` has ever written, from the start of the
  // state: what must be cleared when it ends. At most bytes().
  size_t used_bytes(uint64_t position) const;

  // The position beyond which a session cannot advance, or 0 for none.
  uint64_t context_cap() const { return context_cap_; }

 private:
  friend class StateLayoutBuilder;
  std::vector<StateSlot> slots_;
  size_t bytes_ = 0;
  size_t fixed_bytes_ = 0;
  uint64_t context_cap_ = 0;
};

// Collects the slots that mixers declare while a model is loaded. Fixed slots
// are placed at once; growing ones after them, when the size of all fixed ones
// is known, so their handles are resolved through Build's result.
//
// Growing slots are laid out so that a session at position p has touched only
// whole leading rows of each.
class StateLayoutBuilder {
 public:
  // REQUIRES: dimensions >= 1 whose product times 4 fits in size_t (checked:
  // INVALID_ARGUMENT names layer and slot).
  absl::StatusOr<SlotHandle> AddFixed(size_t layer, absl::string_view name,
                                      std::vector<size_t> shape);

  // A slot of `cap` rows of shape `row`, one row a token. All growing slots of
  // a model have the same cap.
  absl::StatusOr<SlotHandle> AddPerToken(size_t layer, absl::string_view name,
                                         uint64_t cap, std::vector<size_t> row);

  StateLayout Build() &&;

 private:
  StateLayout layout_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_STATE_LAYOUT_H_
