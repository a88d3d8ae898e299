#include "kernels/linear/panel_product_of_cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#pragma GCC push_options
#pragma GCC target("avx512f")
#include "kernels/linear/panel_chains-inl.h"

namespace steadystate {
namespace {

struct F32 : FloatSums {
  static Vector MultiplyAdd(Vector sum, __m512i x, __m512i w) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(w), sum);
  }
};

}  // namespace

void MultiplyPanelF32(const PanelProduct& product) {
  MultiplyPanelWith<ChainLoop<F32>>(product);
}

}  // namespace steadystate
#pragma GCC pop_options
#endif  // defined(__x86_64__)
