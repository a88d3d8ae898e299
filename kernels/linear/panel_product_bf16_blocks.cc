#include "kernels/linear/panel_product_of_cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#pragma GCC push_options
#pragma GCC target("avx512f")
#include "kernels/linear/panel_product-inl.h"

namespace steadystate {
namespace {

// Steps of a block: the 32 inputs of one TDPBF16PS.
constexpr size_t kBlockSteps = 16;
static_assert(kPanelSlab % kBlockSteps == 0);

// Reads and writes denormal numbers as zeros while it lives, as AMX does.
class NoDenormals {
 public:
  NoDenormals() { _mm_setcsr(before_ | kDenormalsAreZero | kFlushToZero); }
  ~NoDenormals() { _mm_setcsr(before_); }
  NoDenormals(const NoDenormals&) = delete;
  NoDenormals& operator=(const NoDenormals&) = delete;

 private:
  static constexpr unsigned kDenormalsAreZero = 0x0040;
  static constexpr unsigned kFlushToZero = 0x8000;
  const unsigned before_ = _mm_getcsr();
};

// The first and the second of two bf16 in each lane, as f32. (g++ 12 warns of
// what its _mm512_slli_epi32 does not initialize.)
__m512 First(__m512i pairs) {
  using Words [[gnu::vector_size(64)]] = uint32_t;
  return reinterpret_cast<__m512>(reinterpret_cast<Words>(pairs) << 16);
}
__m512 Second(__m512i pairs) {
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  return _mm512_castsi512_ps(_mm512_and_si512(pairs, mask));
}

// The sums of one block, of the first numbers of all pairs and of the second.
template <size_t kRows>
struct BlockSums {
  BlockSums() {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kVectors; ++v) {
        first[r][v] = second[r][v] = _mm512_setzero_ps();
      }
    }
  }

  void AddStep(const Pass& pass, size_t k) {
    const std::byte* const weights = pass.weights + k * kStepBytes;
    __m512i x[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      int pair;
      std::memcpy(&pair, pass.x + r * pass.x_stride + 4 * k, 4);
      x[r] = _mm512_set1_epi32(pair);
    }
    for (size_t v = 0; v < kVectors; ++v) {
      const __m512i w = _mm512_load_si512(weights + v * 64);
      for (size_t r = 0; r < kRows; ++r) {
        first[r][v] = _mm512_fmadd_ps(First(x[r]), First(w), first[r][v]);
        second[r][v] = _mm512_fmadd_ps(Second(x[r]), Second(w), second[r][v]);
      }
    }
  }

  void AddTo(std::byte* totals) const {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t v = 0; v < kVectors; ++v) {
        std::byte* const total = totals + r * kStepBytes + v * 64;
        const __m512 block = _mm512_add_ps(first[r][v], second[r][v]);
        _mm512_store_ps(total, _mm512_add_ps(_mm512_load_ps(total), block));
      }
    }
  }

  __m512 first[kRows][kVectors];
  __m512 second[kRows][kVectors];
};

struct BlockLoop {
  // Rows both of whose sums the registers hold.
  static constexpr size_t kPassRows = 2;

  template <size_t kRows, Ahead kAhead, size_t kLines>
  static const std::byte* Run(const Pass& pass, const std::byte* ahead) {
    constexpr size_t kBytes = kRows * kStepBytes;
    std::byte* const totals = pass.first ? pass.sums : pass.partial;
    if (pass.begins) std::memset(totals, 0, kBytes);
    for (size_t k = 0; k < pass.steps;) {
      const size_t end = std::min(k + kBlockSteps, pass.steps);
      BlockSums<kRows> sums;
      for (; k < end; ++k) {
        for (size_t i = 0; i < kLines; ++i) Fetch<kAhead>(ahead + i * 64);
        ahead += kLines * 64;
        sums.AddStep(pass, k);
      }
      sums.AddTo(totals);
    }
    if (!pass.ends || pass.first) return ahead;
    for (size_t i = 0; i < kBytes; i += 64) {
      _mm512_store_ps(pass.sums + i,
                      _mm512_add_ps(_mm512_load_ps(pass.sums + i),
                                    _mm512_load_ps(totals + i)));
    }
    return ahead;
  }
};

}  // namespace

void MultiplyPanelBf16Blocks(const PanelProduct& product) {
  const NoDenormals no_denormals;
  MultiplyPanelWith<BlockLoop>(product);
}

}  // namespace steadystate
#pragma GCC pop_options
#endif  // defined(__x86_64__)
