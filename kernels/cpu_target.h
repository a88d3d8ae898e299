#ifndef STEADYSTATE_KERNELS_CPU_TARGET_H_
#define STEADYSTATE_KERNELS_CPU_TARGET_H_

#include <string>

namespace steadystate {

// Name of the SIMD target that our own kernels run on: "AVX3", "AVX2", "SSE4",
// "NEON", ...
std::string KernelTargetName();

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_CPU_TARGET_H_
