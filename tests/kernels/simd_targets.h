#ifndef STEADYSTATE_TESTS_KERNELS_SIMD_TARGETS_H_
#define STEADYSTATE_TESTS_KERNELS_SIMD_TARGETS_H_

#include <cstdint>
#include <vector>

#include "hwy/targets.h"

namespace steadystate {

// Highway's targets that this machine has, the best one first.
inline std::vector<int64_t> SimdTargets() {
  std::vector<int64_t> targets;
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    targets.push_back(left & -left);
  }
  return targets;
}

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_KERNELS_SIMD_TARGETS_H_
