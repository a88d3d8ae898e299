#include "kernels/linear/simd_product.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/simd_product.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A lane is a column.
using DF = hn::CappedTag<float, kSimdPanel>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;

// Vectors of columns that some rows meet at once, and how many rows: their sums
// are in registers. Of one row or two more vectors, or each multiplication
// would wait for the one before it.
constexpr size_t kVectors = 2;
constexpr size_t kFewRows = 2;
constexpr size_t kVectorsOfFewRows = 4;
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM
constexpr size_t kMostRows = 12;
constexpr size_t kMostRowsUnpacking = 8;
#else
constexpr size_t kMostRows = 6;
constexpr size_t kMostRowsUnpacking = 4;
#endif
// Passes from which on weights are unpacked once for all of them.
constexpr size_t kUnpackedPasses = 4;

// An Op is the arithmetic of one vector of weights. A unit is four bytes of a
// row of X, a step the weights that lie together:
//   using Sum, Weights, Input;   // vectors
//   constexpr size_t kBytes;     // of a column in a step
//   constexpr size_t kUnits;     // of a step
//   Sum Zero(); Sum Load(const void*); void Store(Sum, void*); Sum Add(Sum,
//   Sum); Weights Get<unit>(const std::byte* step); Input Set(const std::byte*
//   unit); Sum MultiplyAdd(Sum, Input, Weights);

struct FloatSums {
  using Sum = VF;
  using Weights = VF;
  using Input = VF;

  static HWY_INLINE VF Zero() { return hn::Zero(DF()); }
  static HWY_INLINE VF Load(const std::byte* from) {
    return hn::LoadU(DF(), reinterpret_cast<const float*>(from));
  }
  static HWY_INLINE void Store(VF sum, std::byte* to) {
    hn::StoreU(sum, DF(), reinterpret_cast<float*>(to));
  }
  static HWY_INLINE VF Add(VF a, VF b) { return hn::Add(a, b); }
  template <size_t kCount>
  static HWY_INLINE void AddRow(const std::byte* unit,
                                const VF (&weights)[kCount],
                                VF (&sums)[kCount]) {
    float value;
    std::memcpy(&value, unit, sizeof(value));
    const VF x = hn::Set(DF(), value);
    for (size_t v = 0; v < kCount; ++v) {
      sums[v] = hn::MulAdd(x, weights[v], sums[v]);
    }
  }
};

struct F32 : FloatSums {
  static constexpr size_t kRows = kMostRows;
  static constexpr size_t kBytes = 4;
  static constexpr size_t kUnits = 1;

  template <size_t>
  static HWY_INLINE VF Get(const std::byte* step) {
    return Load(step);
  }
};

// The upper halves of f32, of two inputs in each lane.
struct Bf16 : FloatSums {
  static constexpr size_t kRows = kMostRowsUnpacking;
  static constexpr size_t kBytes = 4;
  static constexpr size_t kUnits = 2;
  using Unpacked = F32;

  template <size_t kUnit>
  static HWY_INLINE VF Get(const std::byte* step) {
    const hn::RebindToUnsigned<DF> du;
    const auto both = hn::LoadU(du, reinterpret_cast<const uint32_t*>(step));
    if constexpr (kUnit == 0) return hn::BitCast(DF(), hn::ShiftLeft<16>(both));
    return hn::BitCast(DF(), hn::And(both, hn::Set(du, 0xFFFF0000u)));
  }
};

// Products of pairs of s16, in each lane one, added up in s32.
struct PairSums {
  static constexpr size_t kRows = kMostRows;
  using Sum = VI;
  using Weights = VI;
  using Input = VI;

  static HWY_INLINE VI Zero() { return hn::Zero(DI()); }
  static HWY_INLINE VI Load(const std::byte* from) {
    return hn::LoadU(DI(), reinterpret_cast<const int32_t*>(from));
  }
  static HWY_INLINE void Store(VI sum, std::byte* to) {
    hn::StoreU(sum, DI(), reinterpret_cast<int32_t*>(to));
  }
  static HWY_INLINE VI Add(VI a, VI b) { return hn::Add(a, b); }
  template <size_t kCount>
  static HWY_INLINE void AddRow(const std::byte* unit,
                                const VI (&weights)[kCount],
                                VI (&sums)[kCount]) {
#if HWY_TARGET == HWY_AVX2
    // In this order, or g++ 12 needs more registers than there are.
    if constexpr (kCount == 2) {
      using Pair [[gnu::may_alias]] = int32_t;
      VI x;
      VI product;
      asm("vpbroadcastd %[pair], %[x]\n\t"
          "vpmaddwd %[first], %[x], %[product]\n\t"
          "vpaddd %[product], %[sum], %[sum]\n\t"
          "vpmaddwd %[second], %[x], %[x]\n\t"
          "vpaddd %[x], %[other], %[other]"
          : [x] "=&x"(x.raw), [product] "=&x"(product.raw),
            [sum] "+x"(sums[0].raw), [other] "+x"(sums[1].raw)
          : [pair] "m"(*reinterpret_cast<const Pair*>(unit)),
            [first] "x"(weights[0].raw), [second] "x"(weights[1].raw));
      return;
    }
#endif
    int32_t pair;
    std::memcpy(&pair, unit, sizeof(pair));
    const VI x = hn::Set(DI(), pair);
    for (size_t v = 0; v < kCount; ++v) {
      sums[v] = MultiplyAdd(sums[v], x, weights[v]);
    }
  }

  static HWY_INLINE VI MultiplyAdd(VI sum, VI x, VI w) {
#if HWY_TARGET == HWY_AVX3
    return hn::Add(sum, VI{_mm512_madd_epi16(x.raw, w.raw)});
#elif HWY_TARGET == HWY_AVX2
    return hn::Add(sum, VI{_mm256_madd_epi16(x.raw, w.raw)});
#elif HWY_TARGET == HWY_SSE4
    return hn::Add(sum, VI{_mm_madd_epi16(x.raw, w.raw)});
#else
    const auto first = hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(x)),
                               hn::ShiftRight<16>(hn::ShiftLeft<16>(w)));
    const auto second = hn::Mul(hn::ShiftRight<16>(x), hn::ShiftRight<16>(w));
    return hn::Add(sum, hn::Add(first, second));
#endif
  }
};

struct I16 : PairSums {
  static constexpr size_t kBytes = 4;
  static constexpr size_t kUnits = 1;

  template <size_t>
  static HWY_INLINE VI Get(const std::byte* step) {
    return Load(step);
  }
};

struct I8 : PairSums {
  static constexpr size_t kBytes = 2;
  static constexpr size_t kUnits = 1;
  using Unpacked = I16;

  template <size_t>
  static HWY_INLINE VI Get(const std::byte* step) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
    const hn::Repartition<int16_t, DI> d16;
    const hn::Rebind<int8_t, decltype(d16)> d8;
    return hn::BitCast(
        DI(), hn::PromoteTo(
                  d16, hn::LoadU(d8, reinterpret_cast<const int8_t*>(step))));
#else
    const hn::Rebind<int16_t, DI> d16;
    const auto both = hn::PromoteTo(
        DI(), hn::LoadU(d16, reinterpret_cast<const int16_t*>(step)));
    const auto first = hn::ShiftRight<24>(hn::ShiftLeft<24>(both));
    const auto second = hn::ShiftLeft<16>(hn::ShiftRight<8>(both));
    return hn::Or(hn::And(first, hn::Set(DI(), 0xFFFF)), second);
#endif
  }
};

// A slab of some vectors of columns.
template <size_t kCount>
struct Slab {
  const std::byte* vectors[kCount];  // where each begins
  size_t steps;
  const std::byte* ahead;  // what is fetched meanwhile
};

// Some rows' part of it.
struct Pass {
  const std::byte* x;
  size_t x_stride;
  std::byte* sums;
  bool first;  // the first slab: there are no sums yet
};

constexpr size_t kSumsStride = kSimdBlockColumns * sizeof(float);

template <class Op, size_t kUnit, size_t kRows, size_t kCount>
HWY_INLINE void AddUnit(const Slab<kCount>& slab, size_t at, const std::byte* x,
                        size_t x_stride,
                        typename Op::Sum (&sums)[kRows][kCount]) {
  typename Op::Weights weights[kCount];
  for (size_t v = 0; v < kCount; ++v) {
    weights[v] = Op::template Get<kUnit>(slab.vectors[v] + at);
  }
  for (size_t r = 0; r < kRows; ++r) {
    Op::AddRow(x + r * x_stride + 4 * kUnit, weights, sums[r]);
  }
}

template <class Op, bool kFetch, size_t kRows, size_t kCount>
HWY_INLINE void RunRows(const Slab<kCount>& slab, const Pass& pass) {
  typename Op::Sum sums[kRows][kCount];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kCount; ++v) sums[r][v] = Op::Zero();
  }
  // Of the vectors' bytes in a step the lines are fetched that they make.
  constexpr size_t kStep = kSimdPanel * Op::kBytes;
  const size_t vector_bytes = hn::Lanes(DF()) * Op::kBytes;
  const std::byte* ahead = slab.ahead;
  const std::byte* x = pass.x;
  for (size_t at = 0; at < slab.steps * kStep; at += kStep) {
    if constexpr (kFetch) {
      for (size_t i = 0; i < kCount * vector_bytes; i += 64) {
        hwy::Prefetch(ahead + i);
      }
      ahead += kCount * vector_bytes;
    }
    AddUnit<Op, 0>(slab, at, x, pass.x_stride, sums);
    if constexpr (Op::kUnits == 2) {
      AddUnit<Op, 1>(slab, at, x, pass.x_stride, sums);
    }
    x += 4 * Op::kUnits;
  }
  const size_t sum_bytes = hn::Lanes(DF()) * sizeof(float);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kCount; ++v) {
      std::byte* const to = pass.sums + r * kSumsStride + v * sum_bytes;
      Op::Store(pass.first ? sums[r][v] : Op::Add(Op::Load(to), sums[r][v]),
                to);
    }
  }
}

// Of a number of rows that is known only now, at most kRows.
template <class Op, bool kFetch, size_t kRows, size_t kCount>
HWY_INLINE void RunRows(size_t rows, const Slab<kCount>& slab,
                        const Pass& pass) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      RunRows<Op, kFetch, kRows - 1>(rows, slab, pass);
      return;
    }
  }
  RunRows<Op, kFetch, kRows>(slab, pass);
}

// All rows, as many at once as registers have sums of.
template <class Op, bool kFetch, size_t kCount>
HWY_NOINLINE void RunPasses(const SimdProduct& p, const Slab<kCount>& slab,
                            Pass pass) {
  constexpr size_t kMost = kCount > kVectors ? kFewRows : Op::kRows;
  const size_t passes = (p.rows + kMost - 1) / kMost;
  const std::byte* const x = pass.x;
  std::byte* const sums = pass.sums;
  for (size_t i = 0; i < passes; ++i) {
    const size_t row = i * p.rows / passes;
    const size_t rows = (i + 1) * p.rows / passes - row;
    pass.x = x + row * p.x_stride;
    pass.sums = sums + row * kSumsStride;
    if (kFetch && i == 0) {
      RunRows<Op, true, kMost>(rows, slab, pass);
    } else {
      RunRows<Op, false, kMost>(rows, slab, pass);
    }
  }
}

// The vectors of a slab as Op::Unpacked has them, in scratch. Returns where.
template <class Op, size_t kCount>
HWY_INLINE Slab<kCount> Unpack(const Slab<kCount>& slab, std::byte* scratch) {
  using Unpacked = typename Op::Unpacked;
  const size_t N = hn::Lanes(DF());
  constexpr size_t kFrom = kSimdPanel * Op::kBytes;
  constexpr size_t kTo = kSimdPanel * Unpacked::kBytes;
  Slab<kCount> unpacked{};
  unpacked.steps = slab.steps * Op::kUnits;
  for (size_t v = 0; v < kCount; ++v) {
    const size_t column = v * N;
    std::byte* to = scratch + column / kSimdPanel * kSimdSlab * kTo +
                    column % kSimdPanel * Unpacked::kBytes;
    unpacked.vectors[v] = to;
    const std::byte* from = slab.vectors[v];
    const std::byte* ahead = slab.ahead + v * N * Op::kBytes;
    for (size_t i = 0; i < slab.steps; ++i, from += kFrom) {
      hwy::Prefetch(ahead);
      ahead += kCount * N * Op::kBytes;
      Op::Store(Op::template Get<0>(from), to);
      to += kTo;
      if constexpr (Op::kUnits == 2) {
        Op::Store(Op::template Get<1>(from), to);
        to += kTo;
      }
    }
  }
  return unpacked;
}

// Where one slab of the block lies.
struct SlabPlace {
  const std::byte* weights;
  size_t inputs;
  size_t panel_bytes;
  Pass pass;
};

template <class Op, size_t kCount>
HWY_INLINE void RunVectors(const SimdProduct& p, const SlabPlace& place,
                           size_t first) {
  const size_t N = hn::Lanes(DF());
  Slab<kCount> slab{};
  for (size_t v = 0; v < kCount; ++v) {
    const size_t column = (first + v) * N;
    slab.vectors[v] = place.weights + column / kSimdPanel * place.panel_bytes +
                      column % kSimdPanel * Op::kBytes;
  }
  slab.steps = place.inputs * SizeOf(p.weights) / Op::kBytes;
  const size_t end = (first + kCount) * N;  // of the columns
  slab.ahead = place.weights + SimdPanels(end) * place.panel_bytes;
  Pass pass = place.pass;
  pass.sums += first * N * sizeof(float);
  if constexpr (Op::kBytes != 4 || Op::kUnits != 1) {
    if (p.rows > (kUnpackedPasses - 1) * Op::kRows) {
      RunPasses<typename Op::Unpacked, false>(p, Unpack<Op>(slab, p.scratch),
                                              pass);
      return;
    }
  }
  RunPasses<Op, true>(p, slab, pass);
}

template <class Op>
HWY_INLINE void MultiplyWith(const SimdProduct& p) {
  const size_t vectors = p.panels * kSimdPanel / hn::Lanes(DF());
  SlabPlace place{};
  place.weights = p.block;
  place.pass = {p.x, p.x_stride, p.sums, true};
  for (size_t k = 0; k < p.in; k += kSimdSlab) {
    place.inputs = std::min(kSimdSlab, p.in - k);
    place.panel_bytes = place.inputs * kSimdPanel * SizeOf(p.weights);
    size_t v = 0;
    if (p.rows <= kFewRows) {
      for (; v + kVectorsOfFewRows <= vectors; v += kVectorsOfFewRows) {
        RunVectors<Op, kVectorsOfFewRows>(p, place, v);
      }
    }
    for (; v + kVectors <= vectors; v += kVectors) {
      RunVectors<Op, kVectors>(p, place, v);
    }
    for (; v < vectors; ++v) RunVectors<Op, 1>(p, place, v);
    place.weights += p.panels * place.panel_bytes;
    place.pass.x += place.inputs * (p.weights == DType::kI8 ? 2 : 4);
    place.pass.first = false;
  }
}

void MultiplyOfTarget(const SimdProduct& product) {
  if (product.weights == DType::kI8) return MultiplyWith<I8>(product);
  if (product.weights == DType::kBf16) return MultiplyWith<Bf16>(product);
  MultiplyWith<F32>(product);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(MultiplyOfTarget);

void MultiplySimd(const SimdProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyOfTarget)(product);
}

void PackSimdBlock(DType weights, size_t in, size_t width, const void* rows,
                   std::byte* block) {
  const size_t size = SizeOf(weights);
  const size_t together = weights == DType::kF32 ? 1 : 2;
  const size_t inputs = SimdInputs(weights, in);
  const size_t panels = SimdPanels(width);
  std::memset(block, 0, inputs * panels * kSimdPanel * size);
  const auto* from = static_cast<const std::byte*>(rows);
  for (size_t j = 0; j < width; ++j) {
    for (size_t k = 0; k < in; ++k, from += size) {
      const size_t slab = k / kSimdSlab * kSimdSlab;
      const size_t slab_inputs = std::min(kSimdSlab, inputs - slab);
      const size_t place = slab * panels * kSimdPanel +
                           j / kSimdPanel * slab_inputs * kSimdPanel +
                           (k - slab) / together * together * kSimdPanel +
                           j % kSimdPanel * together + k % together;
      std::memcpy(block + place * size, from, size);
    }
  }
}

}  // namespace steadystate
#endif  // HWY_ONCE
