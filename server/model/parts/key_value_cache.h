#ifndef STEADYSTATE_SERVER_MODEL_PARTS_KEY_VALUE_CACHE_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_KEY_VALUE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "kernels/attention/softmax_attention.h"
#include "kernels/dtype.h"
#include "server/model/mixer_builder.h"
#include "server/model/state_layout.h"

namespace steadystate {

// The keys and values that one softmax layer keeps of a session's tokens: of
// all, up to the context cap, or of the latest, in a ring. In the layout's type
// for caches; of int8 each head's key and value has a unit of its own. Where
// values are keys, one row is kept for both.
// Immutable; thread-safe: the memory is the session's.
class KeyValueCache {
 public:
  // `window`: how many of the latest tokens; absent: all, so that states grow.
  // Usable once the layout has been built.
  static absl::StatusOr<KeyValueCache> Make(const MixerBuilder& from,
                                            std::optional<size_t> window,
                                            size_t heads, size_t d,
                                            bool values_are_keys = false);

  bool is_ring() const { return window_.has_value(); }

  // How many tokens are kept once the one at `position` is.
  size_t LiveAt(uint64_t position) const;

  // Keeps what the token at `position` has for a head; in a ring in the oldest
  // one's place.
  //   key, value  f32[d]; value: unused where values are keys
  void Keep(std::byte* state, size_t head, uint64_t position, const float* key,
            const float* value) const;

  // The first n rows of a head. Which they are in a ring, and their order,
  // follow from the position alone.
  KeyValueRows Rows(std::byte* state, size_t head, size_t n) const;

 private:
  // A row of keys or values, as it lies in the state.
  struct Row {
    std::byte* elements;
    float* unit;  // null but for int8
  };
  Row RowAt(std::byte* state, size_t slot, size_t matrix) const;
  // Rows of a token, and the first of those of values.
  size_t matrices() const { return (values_are_keys_ ? 1 : 2) * heads_; }
  size_t values() const { return matrices() - heads_; }
  void KeepRow(const Row& row, const float* from) const;

  std::optional<size_t> window_{};
  size_t heads_ = 0;
  size_t d_ = 0;
  bool values_are_keys_ = false;
  DType dtype_ = DType::kF32;
  RingSlots ring_{};     // [window, 2, heads, d], or [window, 1, heads, d]
  TokenSlots tokens_{};  // [cap, 2, heads, d], or [cap, 1, heads, d]
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_KEY_VALUE_CACHE_H_
