// The loops of panel_product.h, compiled for whatever instructions the file
// that includes this has chosen by then. `Op` is the arithmetic of one vector
// of 16 columns:
//   Vector Zero(); Vector MultiplyAdd(Vector sum, __m512i x, __m512i w);
//   Vector Add(Vector, Vector); Vector Load(const void*);
//   void Store(void*, Vector);
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/linear/panel_product.h"

namespace steadystate {
namespace {

constexpr size_t kStepBytes = kPanelColumns * 4;
constexpr size_t kVectors = 4;  // of 16 columns
// Rows whose sums the registers hold.
constexpr size_t kPassRows = 6;

// What an Op of float sums has but for MultiplyAdd.
struct FloatSums {
  using Vector = __m512;
  static Vector Zero() { return _mm512_setzero_ps(); }
  static Vector Add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector Load(const void* from) { return _mm512_load_ps(from); }
  static void Store(void* to, Vector v) { _mm512_store_ps(to, v); }
};

// What is fetched while a slab is worked on: the slab behind it.
enum class Ahead { kNothing, kToFirstCache, kToSecondCache };

// Some rows' part of one slab.
struct Pass {
  size_t steps;
  const std::byte* x;
  size_t x_stride;
  const std::byte* weights;
  std::byte* sums;
  std::byte* partial;
  bool begins;  // a chunk
  bool ends;    // a chunk
  bool first;   // that chunk is the first
};

template <Ahead kAhead>
void Fetch(const std::byte* line) {
  if constexpr (kAhead == Ahead::kToFirstCache) _mm_prefetch(line, _MM_HINT_T0);
  if constexpr (kAhead == Ahead::kToSecondCache) {
    _mm_prefetch(line, _MM_HINT_T1);
  }
}

// Fetches `kLines` lines from `ahead` on in each step; returns the next.
template <typename Op, size_t kRows, Ahead kAhead, size_t kLines>
const std::byte* RunPass(const Pass& pass, const std::byte* ahead) {
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

template <typename Op, Ahead kAhead, size_t kLines>
const std::byte* RunPass(size_t rows, const Pass& pass,
                         const std::byte* ahead) {
  switch (rows) {
    case 1:
      return RunPass<Op, 1, kAhead, kLines>(pass, ahead);
    case 2:
      return RunPass<Op, 2, kAhead, kLines>(pass, ahead);
    case 3:
      return RunPass<Op, 3, kAhead, kLines>(pass, ahead);
    case 4:
      return RunPass<Op, 4, kAhead, kLines>(pass, ahead);
    case 5:
      return RunPass<Op, 5, kAhead, kLines>(pass, ahead);
    default:
      return RunPass<Op, 6, kAhead, kLines>(pass, ahead);
  }
}

// One pass over the slab: the CPU foresees a single stream by itself. Two or
// three: the slab behind goes to the second cache, for the first is full with
// what is worked on. More: these take long enough for it to arrive, line by
// line, in the first one.
template <typename Op>
const std::byte* RunPass(size_t passes, size_t index, size_t rows,
                         const Pass& pass, const std::byte* ahead,
                         const std::byte* end) {
  if (passes == 1 || ahead >= end) {
    return RunPass<Op, Ahead::kNothing, 0>(rows, pass, ahead);
  }
  if (passes < 4) {
    if (index > 1) return RunPass<Op, Ahead::kNothing, 0>(rows, pass, ahead);
    return RunPass<Op, Ahead::kToSecondCache, 2>(rows, pass, ahead);
  }
  if (index > 3) return RunPass<Op, Ahead::kNothing, 0>(rows, pass, ahead);
  return RunPass<Op, Ahead::kToFirstCache, 1>(rows, pass, ahead);
}

template <typename Op>
void MultiplyPanelWith(const PanelProduct& product) {
  const size_t passes = (product.rows + kPassRows - 1) / kPassRows;
  for (size_t k = 0; k < product.steps; k += kPanelSlab) {
    Pass pass{};
    pass.steps = std::min(kPanelSlab, product.steps - k);
    pass.x_stride = product.x_stride;
    pass.weights = product.panel + k * kStepBytes;
    pass.begins = k % product.chunk == 0;
    pass.ends = (k + kPanelSlab) % product.chunk == 0 ||
                k + pass.steps == product.steps;
    pass.first = k < product.chunk;
    const std::byte* ahead = pass.weights + pass.steps * kStepBytes;
    for (size_t i = 0; i < passes; ++i) {
      const size_t row = i * product.rows / passes;
      const size_t rows = (i + 1) * product.rows / passes - row;
      pass.x = product.x + row * product.x_stride + 4 * k;
      pass.sums = product.sums + row * kStepBytes;
      pass.partial = product.partial + row * kStepBytes;
      ahead = RunPass<Op>(passes, i, rows, pass, ahead, product.end);
    }
  }
}

}  // namespace
}  // namespace steadystate
