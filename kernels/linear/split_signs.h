#ifndef STEADYSTATE_KERNELS_LINEAR_SPLIT_SIGNS_H_
#define STEADYSTATE_KERNELS_LINEAR_SPLIT_SIGNS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/linear/matrix_memory.h"

namespace steadystate {

// Bytes come in whole cache lines.
inline constexpr size_t kSplitGrain = RoundUpToLine(1);

// Splits bytes x with signs, for CPUs that multiply bytes where one of two
// factors has none. Of each four it leaves the four |x|, then four masks m,
// which are 0xFF where x is negative, else 0. As -w is (w ^ 0xFF) + 1,
//   x w = |x| (w ^ m) + (|x| where x is negative, else 0).
// Returns the sum of what is in parentheses last, which does not depend on w.
//   bytes  s8[n], none below -127       in, may be the second half of `to`
//   to     bytes[2 n]                   out
// REQUIRES: n is a multiple of kSplitGrain.
int32_t SplitSigns(size_t n, const uint8_t* bytes, uint8_t* to);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_SPLIT_SIGNS_H_
