#include "kernels/linear/panel_product.h"

#include "kernels/linear/panel_product_of_cpu.h"

namespace steadystate {

#if defined(__x86_64__)

std::vector<MultiplyPanel> FindMultiplyPanels(DType weights) {
  if (!__builtin_cpu_supports("avx512f")) return {};
  if (weights == DType::kF32) return {&MultiplyPanelF32};
  if (weights == DType::kBf16 && __builtin_cpu_supports("avx512bf16")) {
    return {&MultiplyPanelBf16, &MultiplyPanelBf16Blocks};
  }
  if (weights == DType::kI8 && __builtin_cpu_supports("avx512vnni")) {
    return {&MultiplyPanelInt8};
  }
  return {};
}

#else

std::vector<MultiplyPanel> FindMultiplyPanels(DType) { return {}; }

#endif

}  // namespace steadystate
