#include "kernels/linear/panel_product.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/linear/panel_amx.h"

#pragma GCC push_options
#pragma GCC target("avx512f")

namespace steadystate {
namespace {

constexpr size_t kStepBytes = kPanelColumns * 4;
constexpr size_t kVectors = 4;  // of 16 columns

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

// A `Loop` is what some rows do with a slab:
//   static constexpr size_t kPassRows;  // that it takes at most
//   // Fetches `kLines` lines from `ahead` on in each step; returns the next.
//   template <size_t kRows, Ahead kAhead, size_t kLines>
//   static const std::byte* Run(const Pass& pass, const std::byte* ahead);

// Runs the pass of a number of rows that is known only now.
template <typename Loop, Ahead kAhead, size_t kLines,
          size_t kRows = Loop::kPassRows>
const std::byte* RunPass(size_t rows, const Pass& pass,
                         const std::byte* ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return RunPass<Loop, kAhead, kLines, kRows - 1>(rows, pass, ahead);
    }
  }
  return Loop::template Run<kRows, kAhead, kLines>(pass, ahead);
}

// One pass over the slab: the CPU foresees a single stream by itself. Two or
// three: the slab behind goes to the second cache, for the first is full with
// what is worked on. More: these take long enough for it to arrive, line by
// line, in the first one.
template <typename Loop>
const std::byte* RunPass(size_t passes, size_t index, size_t rows,
                         const Pass& pass, const std::byte* ahead) {
  if (passes == 1 || ahead == nullptr) {
    return RunPass<Loop, Ahead::kNothing, 0>(rows, pass, ahead);
  }
  if (passes < 4) {
    if (index > 1) return RunPass<Loop, Ahead::kNothing, 0>(rows, pass, ahead);
    return RunPass<Loop, Ahead::kToSecondCache, 2>(rows, pass, ahead);
  }
  if (index > 3) return RunPass<Loop, Ahead::kNothing, 0>(rows, pass, ahead);
  return RunPass<Loop, Ahead::kToFirstCache, 1>(rows, pass, ahead);
}

template <typename Loop>
void MultiplyPanelWith(const PanelProduct& product) {
  const size_t passes = (product.rows + Loop::kPassRows - 1) / Loop::kPassRows;
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
    if (ahead >= product.end) ahead = product.next;
    for (size_t i = 0; i < passes; ++i) {
      const size_t row = i * product.rows / passes;
      const size_t rows = (i + 1) * product.rows / passes - row;
      pass.x = product.x + row * product.x_stride + 4 * k;
      pass.sums = product.sums + row * kStepBytes;
      pass.partial = product.partial + row * kStepBytes;
      ahead = RunPass<Loop>(passes, i, rows, pass, ahead);
    }
  }
}

// What an Op of float sums has but for MultiplyAdd.
struct FloatSums {
  using Vector = __m512;
  static Vector Zero() { return _mm512_setzero_ps(); }
  static Vector Add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector Load(const void* from) { return _mm512_load_ps(from); }
  static void Store(void* to, Vector v) { _mm512_store_ps(to, v); }
};

// The loop of one chain of sums for each row and column. `Op` is the arithmetic
// of one vector of 16 columns:
//   Vector Zero(); Vector MultiplyAdd(Vector sum, __m512i x, __m512i w);
//   Vector Add(Vector, Vector); Vector Load(const void*);
//   void Store(void*, Vector);
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

struct F32 : FloatSums {
  static Vector MultiplyAdd(Vector sum, __m512i x, __m512i w) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(w), sum);
  }
};

struct Bf16 : FloatSums {
  // Named once more for Clang, which ignores the pragma.
  [[gnu::target("avx512f")]] static Vector MultiplyAdd(Vector sum, __m512i x,
                                                       __m512i w) {
    // By name, like the bytes' instruction below: the whole file can then be
    // compiled for AVX512F.
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }
};

struct Int8 {
  using Vector = __m512i;
  static Vector Zero() { return _mm512_setzero_si512(); }
  [[gnu::target("avx512f")]] static Vector MultiplyAdd(Vector sum, __m512i x,
                                                       __m512i w) {
    // Of _mm512_dpbusd_epi32 g++ 12 copies and stores every sum.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
    return sum;
  }
  static Vector Add(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
  static Vector Load(const void* from) { return _mm512_load_si512(from); }
  static void Store(void* to, Vector v) { _mm512_store_si512(to, v); }
};

// Steps that one TDPBF16PS adds up by themselves, its 32 inputs.
constexpr size_t kAmxSteps = 16;
static_assert(kPanelSlab % kAmxSteps == 0);

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

// The sums of these inputs, of the first numbers of all pairs and of the
// second.
template <size_t kRows>
struct AmxSums {
  AmxSums() {
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
        const __m512 both = _mm512_add_ps(first[r][v], second[r][v]);
        _mm512_store_ps(total, _mm512_add_ps(_mm512_load_ps(total), both));
      }
    }
  }

  __m512 first[kRows][kVectors];
  __m512 second[kRows][kVectors];
};

struct AmxLoop {
  // Rows both of whose sums the registers hold.
  static constexpr size_t kPassRows = 2;

  template <size_t kRows, Ahead kAhead, size_t kLines>
  static const std::byte* Run(const Pass& pass, const std::byte* ahead) {
    constexpr size_t kBytes = kRows * kStepBytes;
    std::byte* const totals = pass.first ? pass.sums : pass.partial;
    if (pass.begins) std::memset(totals, 0, kBytes);
    for (size_t k = 0; k < pass.steps;) {
      const size_t end = std::min(k + kAmxSteps, pass.steps);
      AmxSums<kRows> sums;
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

// MultiplyPanel, by instructions that not every CPU has.

void MultiplyPanelF32(const PanelProduct& product) {  // AVX512F
  MultiplyPanelWith<ChainLoop<F32>>(product);
}

void MultiplyPanelBf16(const PanelProduct& product) {  // and AVX512_BF16
  MultiplyPanelWith<ChainLoop<Bf16>>(product);
}

void MultiplyPanelInt8(const PanelProduct& product) {  // and AVX512_VNNI
  MultiplyPanelWith<ChainLoop<Int8>>(product);
}

// In the order of AMX, by AVX512F.
void MultiplyPanelBf16AsAmx(const PanelProduct& product) {
  const NoDenormals no_denormals;
  MultiplyPanelWith<AmxLoop>(product);
}

}  // namespace
}  // namespace steadystate

#pragma GCC pop_options

namespace steadystate {

std::vector<PanelLoop> FindPanelLoops(DType weights) {
  if (!__builtin_cpu_supports("avx512f")) return {};
  std::vector<PanelLoop> loops;
  const MultiplyPanel amx = FindAmxPanel(weights);
  if (amx != nullptr) loops.push_back({amx, true});
  if (weights == DType::kF32) {
    loops.push_back({&MultiplyPanelF32});
  } else if (weights == DType::kBf16 && __builtin_cpu_supports("avx512bf16")) {
    loops.push_back({&MultiplyPanelBf16});
    loops.push_back({&MultiplyPanelBf16AsAmx});
  } else if (weights == DType::kI8 && __builtin_cpu_supports("avx512vnni")) {
    loops.push_back({&MultiplyPanelInt8});
  }
  return loops;
}

}  // namespace steadystate

#else

namespace steadystate {

std::vector<PanelLoop> FindPanelLoops(DType) { return {}; }

}  // namespace steadystate

#endif  // defined(__x86_64__)
