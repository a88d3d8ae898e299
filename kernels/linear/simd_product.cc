#include "kernels/linear/simd_product.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/simd_product.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/linear/byte_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A lane is a column.
using DF = hn::CappedTag<float, kSimdPanel>;
using DU = hn::RebindToUnsigned<DF>;
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
constexpr size_t kMostRowsOfBytes = 8;
#else
constexpr size_t kMostRows = 6;
constexpr size_t kMostRowsUnpacking = 4;
constexpr size_t kMostRowsOfBytes = 4;
#endif
// Passes from which on weights are unpacked once for all of them.
constexpr size_t kUnpackedPasses = 4;

// Four bytes of each column of a panel are a step.
constexpr size_t kStep = kSimdPanel * 4;

#if HWY_TARGET == HWY_SCALAR

// Of the four bytes of either.
HWY_INLINE VI SumOfFourProducts(VI inputs, VI weights) {
  VI sum = hn::Zero(DI());
  for (int byte = 0; byte < 4; ++byte) {
    sum = hn::Add(
        sum, hn::Mul(hn::ShiftRight<24>(inputs), hn::ShiftRight<24>(weights)));
    inputs = hn::ShiftLeft<8>(inputs);
    weights = hn::ShiftLeft<8>(weights);
  }
  return sum;
}

#else

HWY_INLINE VI SumOfFourProducts(VI inputs, VI weights) {
  return AddPairs(DI(), AddBytePairs(DI(), inputs, weights));
}

#endif

// What a step is:
//   using D, X;  // of sums, of the elements of a row
//   constexpr size_t kInputs, kElements, kParts, kRows;
//       // of a step; of a row that they take; that are added one after the
//       // other; that are met at once
//   Vec<D> Get<part>(const std::byte* step);  // of a vector of columns
//   auto Inputs<part>(const X* x);            // that it meets
//   Vec<D> Add(inputs, Vec<D> weights, Vec<D> sum);
struct F32 {
  using D = DF;
  using X = float;
  static constexpr size_t kInputs = 1;
  static constexpr size_t kElements = 1;
  static constexpr size_t kParts = 1;
  static constexpr size_t kRows = kMostRows;

  template <size_t>
  static HWY_INLINE VF Get(const std::byte* step) {
    return hn::LoadU(DF(), reinterpret_cast<const float*>(step));
  }
  template <size_t kPart>
  static HWY_INLINE VF Inputs(const float* x) {
    return hn::Set(DF(), x[kPart]);
  }
  static HWY_INLINE VF Add(VF inputs, VF weights, VF sum) {
    return hn::MulAdd(inputs, weights, sum);
  }
};

// The upper halves of f32, of two inputs in each lane.
struct Bf16 : F32 {
  static constexpr size_t kInputs = 2;
  static constexpr size_t kElements = 2;
  static constexpr size_t kParts = 2;
  static constexpr size_t kRows = kMostRowsUnpacking;

  template <size_t kPart>
  static HWY_INLINE VF Get(const std::byte* step) {
    const DU du;
    const auto both = hn::LoadU(du, reinterpret_cast<const uint32_t*>(step));
    if constexpr (kPart == 0) {
      return hn::BitCast(DF(), hn::ShiftLeft<16>(both));
    }
    return hn::BitCast(DF(), hn::And(both, hn::Set(du, 0xFFFF0000u)));
  }
};

// Whole numbers of four inputs in each lane.
struct Bytes {
  using D = DI;
  using X = uint8_t;
  static constexpr size_t kInputs = 4;
  static constexpr size_t kElements = 8;
  static constexpr size_t kParts = 1;
  static constexpr size_t kRows = kMostRowsOfBytes;

  template <size_t>
  static HWY_INLINE VI Get(const std::byte* step) {
    return hn::LoadU(DI(), reinterpret_cast<const int32_t*>(step));
  }
  struct Split {
    VI magnitudes, signs;
  };
  template <size_t>
  static HWY_INLINE Split Inputs(const uint8_t* x) {
    return {FourBytes(DI(), x), FourBytes(DI(), x + 4)};
  }
  // |x| times w, or times -w - 1 where x is negative.
  static HWY_INLINE VI Add(Split x, VI weights, VI sum) {
    const VI turned = hn::Xor(weights, x.signs);
    return AddTo(sum, SumOfFourProducts(x.magnitudes, turned));
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
template <class Step>
struct Pass {
  const typename Step::X* x;
  size_t x_stride;
  hn::TFromD<typename Step::D>* sums;
  bool first;  // the first slab: there are no sums yet
};

template <class Step, size_t kPart, size_t kRows, size_t kCount>
HWY_INLINE void AddPart(const Slab<kCount>& slab, size_t at,
                        const typename Step::X* x, size_t x_stride,
                        hn::Vec<typename Step::D> (&sums)[kRows][kCount]) {
  hn::Vec<typename Step::D> weights[kCount];
  for (size_t v = 0; v < kCount; ++v) {
    weights[v] = Step::template Get<kPart>(slab.vectors[v] + at);
  }
  for (size_t r = 0; r < kRows; ++r) {
    const auto inputs = Step::template Inputs<kPart>(x + r * x_stride);
    for (size_t v = 0; v < kCount; ++v) {
      sums[r][v] = Step::Add(inputs, weights[v], sums[r][v]);
    }
  }
}

template <class Step, bool kFetch, size_t kRows, size_t kCount>
HWY_INLINE void RunRows(const Slab<kCount>& slab, const Pass<Step>& pass) {
  const typename Step::D d;
  hn::Vec<typename Step::D> sums[kRows][kCount];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kCount; ++v) sums[r][v] = hn::Zero(d);
  }
  const size_t N = hn::Lanes(d);
  const std::byte* ahead = slab.ahead;
  const typename Step::X* x = pass.x;
  size_t at = 0;
  for (size_t i = 0; i < slab.inputs / Step::kInputs; ++i) {
    if constexpr (kFetch) {
      // The lines that these vectors take.
      for (size_t byte = 0; byte < kCount * N * 4; byte += 64) {
        hwy::Prefetch(ahead + byte);
      }
      ahead += kCount * N * 4;
    }
    AddPart<Step, 0>(slab, at, x, pass.x_stride, sums);
    if constexpr (Step::kParts == 2) {
      AddPart<Step, 1>(slab, at, x, pass.x_stride, sums);
    }
    x += Step::kElements;
    at += kStep;
  }
  if constexpr (Step::kParts == 2) {
    if (slab.inputs % Step::kInputs != 0) {
      AddPart<Step, 0>(slab, at, x, pass.x_stride, sums);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kCount; ++v) {
      auto* const to = pass.sums + r * kSimdBlockColumns + v * N;
      const auto sum = sums[r][v];
      hn::StoreU(pass.first ? sum : hn::Add(hn::LoadU(d, to), sum), d, to);
    }
  }
}

// Of a number of rows that is known only now, at most kRows.
template <class Step, bool kFetch, size_t kRows, size_t kCount>
HWY_INLINE void RunRows(size_t rows, const Slab<kCount>& slab,
                        const Pass<Step>& pass) {
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
                            const Pass<Step>& all) {
  constexpr size_t kMost = kCount > kVectors ? kFewRows : Step::kRows;
  const size_t passes = (all_rows + kMost - 1) / kMost;
  for (size_t i = 0; i < passes; ++i) {
    const size_t row = i * all_rows / passes;
    const size_t rows = (i + 1) * all_rows / passes - row;
    Pass<Step> pass = all;
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
    float* to = scratch +
                column / kSimdPanel * SimdSlab(DType::kBf16) * kSimdPanel +
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
template <class Step>
struct SlabPlace {
  const std::byte* weights;
  size_t inputs;
  size_t panel_bytes;
  Pass<Step> pass;
};

template <class Step, size_t kCount>
HWY_INLINE void RunVectors(const SimdProduct& p, const SlabPlace<Step>& place,
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
  Pass<Step> pass = place.pass;
  pass.sums += first * N;
  if constexpr (std::is_same_v<Step, Bf16>) {
    if (p.rows > (kUnpackedPasses - 1) * Step::kRows) {
      const Pass<F32> unpacked = {pass.x, pass.x_stride, pass.sums, pass.first};
      RunPasses<F32, false>(p.rows, Unpack(slab, p.scratch), unpacked);
      return;
    }
  }
  RunPasses<Step, true>(p.rows, slab, pass);
}

template <class Step>
HWY_INLINE void MultiplyWith(const SimdProduct& p) {
  using Sum = hn::TFromD<typename Step::D>;
  const size_t vectors = p.panels * kSimdPanel / hn::Lanes(DF());
  const size_t slab = SimdSlab(p.weights);
  SlabPlace<Step> place{};
  place.weights = p.block;
  place.pass = {static_cast<const typename Step::X*>(p.x), p.x_stride,
                static_cast<Sum*>(p.sums), true};
  if constexpr (std::is_same_v<Step, Bytes>) {
    for (size_t r = 0; r < p.rows; ++r) {
      Sum* const sums = place.pass.sums + r * kSimdBlockColumns;
      std::fill_n(sums, p.panels * kSimdPanel, p.starts[r]);
    }
    place.pass.first = false;
  }
  for (size_t k = 0; k < p.in; k += slab) {
    place.inputs = std::min(slab, p.in - k);
    // Of bytes, the last step of a row is read whole.
    if constexpr (Step::kParts == 1) {
      place.inputs = SimdInputs(p.weights, place.inputs);
    }
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
    place.pass.x += place.inputs / Step::kInputs * Step::kElements;
    place.pass.first = false;
  }
}

void MultiplyOfTarget(const SimdProduct& product) {
  if (product.weights == DType::kI8) return MultiplyWith<Bytes>(product);
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
  // What inputs of a column stand together in. Nearly all are whole.
  constexpr size_t kWord = 4;
  const auto* const from = static_cast<const std::byte*>(rows);
  const size_t size = SizeOf(weights);
  const size_t together = SimdTogether(weights);
  for (size_t slab = 0; slab < in; slab += SimdSlab(weights)) {
    const size_t end = std::min(in, slab + SimdSlab(weights));
    for (size_t first = 0; first < width; first += kSimdPanel) {
      const size_t columns = std::min(kSimdPanel, width - first);
      for (size_t k = slab; k < end; k += together) {
        const size_t bytes = std::min(together, in - k) * size;
        if (columns < kSimdPanel || bytes < kWord) {
          std::memset(block, 0, kSimdPanel * kWord);
        }
        const std::byte* column = from + (first * in + k) * size;
        for (size_t j = 0; j < columns; ++j, column += in * size) {
          if (bytes == kWord) {
            std::memcpy(block + j * kWord, column, kWord);
          } else {
            std::memcpy(block + j * kWord, column, bytes);
          }
        }
        block += kSimdPanel * kWord;
      }
    }
  }
}

}  // namespace steadystate
#endif  // HWY_ONCE
