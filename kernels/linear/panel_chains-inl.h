// The loop of one chain of sums for each row and column. `Op` is the arithmetic
// of one vector of 16 columns:
//   Vector Zero(); Vector MultiplyAdd(Vector sum, __m512i x, __m512i w);
//   Vector Add(Vector, Vector); Vector Load(const void*);
//   void Store(void*, Vector);
#include <cstddef>
#include <cstring>

#include "kernels/linear/panel_product-inl.h"

namespace steadystate {
namespace {

// What an Op of float sums has but for MultiplyAdd.
struct FloatSums {
  using Vector = __m512;
  static Vector Zero() { return _mm512_setzero_ps(); }
  static Vector Add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector Load(const void* from) { return _mm512_load_ps(from); }
  static void Store(void* to, Vector v) { _mm512_store_ps(to, v); }
};

template <typename Op>
struct ChainLoop {
  // Rows whose sums the registers hold.
  static constexpr size_t kPassRows = 6;

  template <size_t kRows, Ahead kAhead, size_t kLines>
  static const std::byte* Run(const Pass& pass, const std::byte* ahead) {
    typename Op::Vector sums[kRows][kVectors];
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kVectors; ++v) {
        sums[r][v] = pass.begins
                         ? Op::Zero()
                         : Op::Load(pass.partial + r * kStepBytes + v * 64);
      }
    }
    const std::byte* weights = pass.weights;
    for (size_t k = 0; k < pass.steps; ++k) {
      for (size_t i = 0; i < kLines; ++i) Fetch<kAhead>(ahead + i * 64);
      ahead += kLines * 64;
      __m512i w[kVectors];
      for (size_t v = 0; v < kVectors; ++v) {
        w[v] = _mm512_load_si512(weights + v * 64);
      }
      for (size_t r = 0; r < kRows; ++r) {
        int quad;
        std::memcpy(&quad, pass.x + r * pass.x_stride + 4 * k, 4);
        const __m512i x = _mm512_set1_epi32(quad);
        for (size_t v = 0; v < kVectors; ++v) {
          sums[r][v] = Op::MultiplyAdd(sums[r][v], x, w[v]);
        }
      }
      weights += kStepBytes;
    }
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kVectors; ++v) {
        const size_t place = r * kStepBytes + v * 64;
        if (!pass.ends) {
          Op::Store(pass.partial + place, sums[r][v]);
        } else if (pass.first) {
          Op::Store(pass.sums + place, sums[r][v]);
        } else {
          Op::Store(pass.sums + place,
                    Op::Add(Op::Load(pass.sums + place), sums[r][v]));
        }
      }
    }
    return ahead;
  }
};

}  // namespace
}  // namespace steadystate
