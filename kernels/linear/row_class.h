#ifndef STEADYSTATE_KERNELS_LINEAR_ROW_CLASS_H_
#define STEADYSTATE_KERNELS_LINEAR_ROW_CLASS_H_

#include <cstdint>

namespace steadystate {

// What the rows of a projection are. Each class has row tiles of its own,
// chosen when the shape is first met, and a row's bits are a function of the
// row, the weights and the class: so the class must follow from a session's own
// request, never from what else is in the batch.
enum class RowClass : uint8_t {
  kDecode,   // one token of each of some sessions: few rows at a time
  kPrefill,  // many tokens of a session: tiles may be large
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_ROW_CLASS_H_
