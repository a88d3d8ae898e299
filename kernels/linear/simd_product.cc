#include "kernels/linear/simd_product.h"

#include <cstdint>

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
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;

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

// Four bytes of each column of a panel are a step.
constexpr size_t kStep = kSimdPanel * 4;

// What a step is:
//   constexpr size_t kInputs, kRows;  // of a step; that are met at once
//   VF Get<input>(const std::byte* step);  // one input of a vector of columns
struct F32 {
  static constexpr size_t kInputs = 1;
  static constexpr size_t kRows = kMostRows;

  template <size_t>
  static HWY_INLINE VF Get(const std::byte* step) {
    return hn::LoadU(DF(), reinterpret_cast<const float*>(step));
  }
};

// The upper halves of f32, of two inputs in each lane.
struct Bf16 {
  static constexpr size_t kInputs = 2;
  static constexpr size_t kRows = kMostRowsUnpacking;

  template <size_t kInput>
  static HWY_INLINE VF Get(const std::byte* step) {
    const DU du;
    const auto both = hn::LoadU(du, reinterpret_cast<const uint32_t*>(step));
    if constexpr (kInput == 0) {
      return hn::BitCast(DF(), hn::ShiftLeft<16>(both));
    }
    return hn::BitCast(DF(), hn::And(both, hn::Set(du, 0xFFFF0000u)));
  }
};

// A slab of some vectors of columns.
template <size_t kCount>
struct Slab {
  const std::byte* vectors[kCount];  // where each begins
  size_t inputs;
  const std::byte* ahead;  // what is fetched meanwhile
};

// Some rows' part of it.
struct Pass {
  const float* x;
  size_t x_stride;
  float* sums;
  bool first;  // the first slab: there are no sums yet
};

template <class Step, size_t kInput, size_t kRows, size_t kCount>
HWY_INLINE void AddInput(const Slab<kCount>& slab, size_t at, const float* x,
                         size_t x_stride, VF (&sums)[kRows][kCount]) {
  VF weights[kCount];
  for (size_t v = 0; v < kCount; ++v) {
    weights[v] = Step::template Get<kInput>(slab.vectors[v] + at);
  }
  for (size_t r = 0; r < kRows; ++r) {
    const VF input = hn::Set(DF(), x[r * x_stride + kInput]);
    for (size_t v = 0; v < kCount; ++v) {
      sums[r][v] = hn::MulAdd(input, weights[v], sums[r][v]);
    }
  }
}

template <class Step, bool kFetch, size_t kRows, size_t kCount>
HWY_INLINE void RunRows(const Slab<kCount>& slab, const Pass& pass) {
  VF sums[kRows][kCount];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kCount; ++v) sums[r][v] = hn::Zero(DF());
  }
  const size_t N = hn::Lanes(DF());
  const std::byte* ahead = slab.ahead;
  const float* x = pass.x;
  size_t at = 0;
  for (size_t i = 0; i < slab.inputs / Step::kInputs; ++i) {
    if constexpr (kFetch) {
      // The lines that these vectors take.
      for (size_t byte = 0; byte < kCount * N * 4; byte += 64) {
        hwy::Prefetch(ahead + byte);
      }
      ahead += kCount * N * 4;
    }
    AddInput<Step, 0>(slab, at, x, pass.x_stride, sums);
    if constexpr (Step::kInputs == 2) {
      AddInput<Step, 1>(slab, at, x, pass.x_stride, sums);
    }
    x += Step::kInputs;
    at += kStep;
  }
  if (slab.inputs % Step::kInputs != 0) {
    AddInput<Step, 0>(slab, at, x, pass.x_stride, sums);
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kCount; ++v) {
      float* const to = pass.sums + r * kSimdBlockColumns + v * N;
      const VF sum = sums[r][v];
      hn::StoreU(pass.first ? sum : hn::Add(hn::LoadU(DF(), to), sum), DF(),
                 to);
    }
  }
}

// Of a number of rows that is known only now, at most kRows.
template <class Step, bool kFetch, size_t kRows, size_t kCount>
HWY_INLINE void RunRows(size_t rows, const Slab<kCount>& slab,
                        const Pass& pass) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      RunRows<Step, kFetch, kRows - 1>(rows, slab, pass);
      return;
    }
  }
  RunRows<Step, kFetch, kRows>(slab, pass);
}

// All rows, as many at once as registers have sums of.
template <class Step, bool kFetch, size_t kCount>
HWY_NOINLINE void RunPasses(size_t all_rows, const Slab<kCount>& slab,
                            const Pass& all) {
  constexpr size_t kMost = kCount > kVectors ? kFewRows : Step::kRows;
  const size_t passes = (all_rows + kMost - 1) / kMost;
  for (size_t i = 0; i < passes; ++i) {
    const size_t row = i * all_rows / passes;
    const size_t rows = (i + 1) * all_rows / passes - row;
    Pass pass = all;
    pass.x += row * all.x_stride;
    pass.sums += row * kSimdBlockColumns;
    if (kFetch && i == 0) {
      RunRows<Step, true, kMost>(rows, slab, pass);
    } else {
      RunRows<Step, false, kMost>(rows, slab, pass);
    }
  }
}

// The vectors of a slab of bf16 as f32, in scratch. Returns where.
template <size_t kCount>
HWY_INLINE Slab<kCount> Unpack(const Slab<kCount>& slab, float* scratch) {
  const size_t N = hn::Lanes(DF());
  Slab<kCount> unpacked{};
  unpacked.inputs = slab.inputs;
  for (size_t v = 0; v < kCount; ++v) {
    const size_t column = v * N;
    float* to = scratch + column / kSimdPanel * kSimdSlab * kSimdPanel +
                column % kSimdPanel;
    unpacked.vectors[v] = reinterpret_cast<const std::byte*>(to);
    const std::byte* from = slab.vectors[v];
    const std::byte* ahead = slab.ahead + column * 4;
    for (size_t k = 0; k < slab.inputs; k += Bf16::kInputs) {
      hwy::Prefetch(ahead);
      hn::StoreU(Bf16::Get<0>(from), DF(), to);
      hn::StoreU(Bf16::Get<1>(from), DF(), to + kSimdPanel);
      ahead += kCount * N * 4;
      from += kStep;
      to += Bf16::kInputs * kSimdPanel;
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

template <class Step, size_t kCount>
HWY_INLINE void RunVectors(const SimdProduct& p, const SlabPlace& place,
                           size_t first) {
  const size_t N = hn::Lanes(DF());
  Slab<kCount> slab{};
  slab.inputs = place.inputs;
  for (size_t v = 0; v < kCount; ++v) {
    const size_t column = (first + v) * N;
    slab.vectors[v] = place.weights + column / kSimdPanel * place.panel_bytes +
                      column % kSimdPanel * 4;
  }
  const size_t end = (first + kCount) * N;  // of the columns
  slab.ahead = place.weights + SimdPanels(end) * place.panel_bytes;
  Pass pass = place.pass;
  pass.sums += first * N;
  if constexpr (Step::kInputs == Bf16::kInputs) {
    if (p.rows > (kUnpackedPasses - 1) * Step::kRows) {
      RunPasses<F32, false>(p.rows, Unpack(slab, p.scratch), pass);
      return;
    }
  }
  RunPasses<Step, true>(p.rows, slab, pass);
}

template <class Step>
HWY_INLINE void MultiplyWith(const SimdProduct& p) {
  const size_t vectors = p.panels * kSimdPanel / hn::Lanes(DF());
  SlabPlace place{};
  place.weights = p.block;
  place.pass = {p.x, p.x_stride, p.sums, true};
  for (size_t k = 0; k < p.in; k += kSimdSlab) {
    place.inputs = std::min(kSimdSlab, p.in - k);
    place.panel_bytes =
        SimdInputs(p.weights, place.inputs) * kSimdPanel * SizeOf(p.weights);
    size_t v = 0;
    if (p.rows <= kFewRows) {
      for (; v + kVectorsOfFewRows <= vectors; v += kVectorsOfFewRows) {
        RunVectors<Step, kVectorsOfFewRows>(p, place, v);
      }
    }
    for (; v + kVectors <= vectors; v += kVectors) {
      RunVectors<Step, kVectors>(p, place, v);
    }
    for (; v < vectors; ++v) RunVectors<Step, 1>(p, place, v);
    place.weights += p.panels * place.panel_bytes;
    place.pass.x += place.inputs;
    place.pass.first = false;
  }
}

void MultiplyOfTarget(const SimdProduct& product) {
  if (product.weights == DType::kBf16) return MultiplyWith<Bf16>(product);
  MultiplyWith<F32>(product);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {
namespace {

// PackSimdBlock, of elements of which so many of a column stand together.
template <typename Element, size_t kTogether>
void PackElements(size_t in, size_t width, const void* rows, std::byte* block) {
  const auto* const from = static_cast<const Element*>(rows);
  auto* to = reinterpret_cast<Element*>(block);
  for (size_t slab = 0; slab < in; slab += kSimdSlab) {
    const size_t end = std::min(in, slab + kSimdSlab);
    for (size_t first = 0; first < width; first += kSimdPanel) {
      for (size_t k = slab; k < end; k += kTogether) {
        for (size_t j = first; j < first + kSimdPanel; ++j) {
          for (size_t i = k; i < k + kTogether; ++i) {
            *to++ = j < width && i < in ? from[j * in + i] : Element{0};
          }
        }
      }
    }
  }
}

}  // namespace

HWY_EXPORT(MultiplyOfTarget);

void MultiplySimd(const SimdProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyOfTarget)(product);
}

void PackSimdBlock(DType weights, size_t in, size_t width, const void* rows,
                   std::byte* block) {
  if (weights == DType::kBf16) {
    PackElements<uint16_t, 2>(in, width, rows, block);
  } else {
    PackElements<float, 1>(in, width, rows, block);
  }
}

}  // namespace steadystate
#endif  // HWY_ONCE
