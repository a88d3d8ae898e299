#ifndef STEADYSTATE_SERVER_MODEL_SLOT_HANDLES_H_
#define STEADYSTATE_SERVER_MODEL_SLOT_HANDLES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"

// Where mixers find what they have declared of a session's state: made by
// StateLayoutBuilder, read with the state's first byte.
namespace steadystate {

class StateLayoutBuilder;

// What a model keeps its recurrent matrices in between two calls, which are
// nearly all of its state. Arithmetic is in float32 always.
enum class StateDType : uint8_t {
  kF32,
  kBf16,   // rounded stochastically
  kInt16,  // the same, and 64 elements share an exponent
};

// The name used in flags and errors: "f32", "bf16", "int16".
absl::string_view Name(StateDType dtype);

// Where a mixer finds its fixed slot of Elements in a session's state.
template <typename Element>
class FixedSlotHandle {
 public:
  FixedSlotHandle() = default;
  Element* In(std::byte* state) const {
    return reinterpret_cast<Element*>(state + offset_);
  }
  const Element* In(const std::byte* state) const {
    return reinterpret_cast<const Element*>(state + offset_);
  }

 private:
  friend class StateLayoutBuilder;
  explicit FixedSlotHandle(size_t offset) : offset_(offset) {}
  size_t offset_ = 0;
};
using SlotHandle = FixedSlotHandle<float>;
using BytesSlotHandle = FixedSlotHandle<std::byte>;
using DoubleSlotHandle = FixedSlotHandle<double>;

// Where a mixer finds matrices that are kept in the model's StateDType: in one
// of the first three, with the exponents if in int16.
struct MatrixSlots {
  StateDType dtype = StateDType::kF32;
  SlotHandle f32{};
  FixedSlotHandle<uint16_t> bf16{};
  FixedSlotHandle<int16_t> int16{};
  FixedSlotHandle<uint8_t> exponents{};
};

// Where a mixer finds the rows of its per-token slot. Usable once the layout
// has been built: only then is known how far apart the rows are.
class TokenSlotHandle {
 public:
  TokenSlotHandle() = default;

  // Row 0 of the slot; row i is i * stride() bytes further on.
  std::byte* In(std::byte* state) const {
    return state + rows_->first_row + offset_;
  }
  size_t stride() const { return rows_->row_bytes; }

 private:
  friend class StateLayoutBuilder;
  // Where the rows of all per-token slots lie, in bytes.
  struct Rows {
    size_t first_row = 0;
    size_t row_bytes = 0;
  };
  TokenSlotHandle(std::shared_ptr<const Rows> rows, size_t offset)
      : rows_(std::move(rows)), offset_(offset) {}
  std::shared_ptr<const Rows> rows_;
  size_t offset_ = 0;  // from the start of a token's rows
};

// Where a mixer finds what it keeps of each token, and, if that is in int8, a
// unit for each of its innermost rows.
struct TokenSlots {
  TokenSlotHandle elements{};
  TokenSlotHandle units{};
};

// The same of the latest tokens only.
struct RingSlots {
  BytesSlotHandle elements{};
  SlotHandle units{};
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_SLOT_HANDLES_H_
