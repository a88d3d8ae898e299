#include "kernels/linear/panel_product_of_cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vnni")
#include "kernels/linear/panel_chains-inl.h"

namespace steadystate {
namespace {

struct Int8 {
  using Vector = __m512i;
  static Vector Zero() { return _mm512_setzero_si512(); }
  static Vector MultiplyAdd(Vector sum, __m512i x, __m512i w) {
    // Of _mm512_dpbusd_epi32 g++ 12 copies and stores every sum.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }
  static Vector Add(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
  static Vector Load(const void* from) { return _mm512_load_si512(from); }
  static void Store(void* to, Vector v) { _mm512_store_si512(to, v); }
};

}  // namespace

void MultiplyPanelInt8(const PanelProduct& product) {
  MultiplyPanelWith<ChainLoop<Int8>>(product);
}

}  // namespace steadystate
#pragma GCC pop_options
#endif  // defined(__x86_64__)
