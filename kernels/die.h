#ifndef STEADYSTATE_KERNELS_DIE_H_
#define STEADYSTATE_KERNELS_DIE_H_

#include "absl/strings/string_view.h"

namespace steadystate {

// Ends the process, since results could only be wrong, and says why on standard
// error, unless that takes nothing for a second. Thread-safe.
[[noreturn]] void Die(absl::string_view why);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_DIE_H_
