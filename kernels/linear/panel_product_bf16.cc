#include "kernels/linear/panel_product_of_cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bf16")
#include "kernels/linear/panel_chains-inl.h"

namespace steadystate {
namespace {

struct Bf16 : FloatSums {
  static Vector MultiplyAdd(Vector sum, __m512i x, __m512i w) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x),
                            reinterpret_cast<__m512bh>(w));
  }
};

}  // namespace

void MultiplyPanelBf16(const PanelProduct& product) {
  MultiplyPanelWith<ChainLoop<Bf16>>(product);
}

}  // namespace steadystate
#pragma GCC pop_options
#endif  // defined(__x86_64__)
