#include "kernels/linear/int4_product.h"

#include <bit>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/int4_product.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/linear/byte_pairs-inl.h"

// Compiled without contraction of floats (CMakeLists.txt): see MultiplyInt4.

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// Its vectors have no parts.
void AddColumn(const uint8_t* weights, float scale, size_t rows,
               const Int4Inputs* x, float* sums) {
  constexpr size_t kHalf = kInt4Group / 2;
  for (size_t r = 0; r < rows; ++r) {
    int32_t sum = x[r].offset;
    for (size_t i = 0; i < kHalf; ++i) {
      const uint8_t both = weights[i / 4 * kInt4Panel * 4 + i % 4];
      sum += (both & 15) * x[r].x[i] + (both >> 4) * x[r].x[kHalf + i];
    }
    sums[r * kInt4BlockColumns] += static_cast<float>(sum) * x[r].scale * scale;
  }
}

void MultiplyPlain(const Int4Product& p) {
  for (size_t i = 0; i < p.groups * p.panels; ++i) {
    const Int4Inputs* const x = p.x + i / p.panels * p.x_stride;
    float* const sums = p.sums + i % p.panels * kInt4Panel;
    const uint8_t* const weights =
        p.weights + i / p.panels * Int4GroupBytes(p.panels);
    const auto* const scales =
        reinterpret_cast<const uint16_t*>(weights + p.panels * kInt4PanelBytes);
    for (size_t j = 0; j < kInt4Panel; ++j) {
      const uint32_t bits = scales[i % p.panels * kInt4Panel + j];
      AddColumn(weights + i % p.panels * kInt4PanelBytes + 4 * j,
                std::bit_cast<float>(bits << 16), p.rows, x, sums + j);
    }
  }
}

void MultiplyBest(const Int4Product& product) { MultiplyPlain(product); }

#else

// A lane is a column; its four bytes meet four inputs.
using DI = hn::CappedTag<int32_t, kInt4Panel>;
using DF = hn::Rebind<float, DI>;
using DS = hn::Repartition<int16_t, DI>;
using DB = hn::Repartition<uint8_t, DI>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VS = hn::Vec<DS>;
using VB = hn::Vec<DB>;

// One group's sums of products of bytes in 16 bits: 8 steps of 2 products of
// at most 15 times 127 are below 2^15.
struct PlainSums {
  using V = VS;

  static HWY_INLINE VS Start(int32_t) { return hn::Zero(DS()); }

  static HWY_INLINE VS Add(VS sum, VB weights, VI x) {
    return AddTo(sum, AddBytePairs(DI(), hn::BitCast(DI(), weights), x));
  }

  static HWY_INLINE VI Finish(VS sum, int32_t offset) {
    return hn::Add(AddPairs(DI(), sum), hn::Set(DI(), offset));
  }
};

#if HWY_TARGET == HWY_AVX3
// The same by VNNI instructions, in 32 bits.
struct VnniSums {
  using V = VI;

  static HWY_INLINE VI Start(int32_t offset) { return hn::Set(DI(), offset); }

  static HWY_INLINE VI Add(VI sum, VB weights, VI x) {
    // By name, because the target is that of all CPUs with AVX-512.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(weights.raw), "v"(x.raw));
    return sum;
  }

  static HWY_INLINE VI Finish(VI sum, int32_t) { return sum; }
};
#endif

// What is fetched while a group is worked on: it comes from memory, and the
// CPU does not foresee enough of it where there are a few rows.
constexpr size_t kAheadBytes = 4096;

constexpr size_t kStep = kInt4Panel * 4;      // bytes of a panel
constexpr size_t kHalf = kInt4Group / 4 / 2;  // steps

// Where vector v begins, in panels of so many bytes.
HWY_INLINE size_t PlaceOf(size_t v, size_t panel_bytes) {
  const size_t column = v * hn::Lanes(DI());
  return column / kInt4Panel * panel_bytes + column % kInt4Panel * 4;
}

// Where the weights of vector v begin.
HWY_INLINE const uint8_t* WeightsOf(const uint8_t* weights, size_t v) {
  return weights + PlaceOf(v, kInt4PanelBytes);
}

HWY_INLINE VF ScaleOf(const uint16_t* scales, size_t v) {
  const DF df;
  const hn::Rebind<uint16_t, DF> d16;
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::LoadU(d16, scales + v * hn::Lanes(df));
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}

HWY_INLINE VB LowerHalves(VB both) {
  return hn::And(both, hn::Set(DB(), uint8_t{0x0F}));
}

HWY_INLINE VB UpperHalves(VB both) {
  return LowerHalves(
      hn::BitCast(DB(), hn::ShiftRight<4>(hn::BitCast(DI(), both))));
}

template <class Sums>
HWY_INLINE void AddProducts(typename Sums::V products, const Int4Inputs& x,
                            VF scale, float* sums) {
  const DF df;
  const auto whole = hn::ConvertTo(df, Sums::Finish(products, x.offset));
  const auto scaled = hn::Mul(whole, hn::Set(df, x.scale));
  hn::StoreU(hn::Add(hn::LoadU(df, sums), hn::Mul(scaled, scale)), df, sums);
}

// One group of some vectors of columns, for one row, whose inputs are read once
// for all of them.
template <class Sums, size_t kCount>
HWY_INLINE void AddGroupOfOneRow(const uint8_t* weights, const uint16_t* scales,
                                 size_t first, const Int4Inputs& x,
                                 float* sums) {
  typename Sums::V products[kCount];
  for (size_t v = 0; v < kCount; ++v) products[v] = Sums::Start(x.offset);
  for (size_t i = 0; i < kHalf; ++i) {
    const VI lower = FourBytes(DI(), x.x + 4 * i);
    const VI upper = FourBytes(DI(), x.x + 4 * (kHalf + i));
    for (size_t v = 0; v < kCount; ++v) {
      const VB both =
          hn::LoadU(DB(), WeightsOf(weights, first + v) + i * kStep);
      products[v] = Sums::Add(products[v], LowerHalves(both), lower);
      products[v] = Sums::Add(products[v], UpperHalves(both), upper);
    }
  }
  for (size_t v = 0; v < kCount; ++v) {
    AddProducts<Sums>(products[v], x, ScaleOf(scales, first + v),
                      sums + (first + v) * hn::Lanes(DI()));
  }
}

// One group of all columns.
template <class Sums>
HWY_INLINE void AddGroupOfOneRow(size_t vectors, const uint8_t* weights,
                                 const uint16_t* scales, const Int4Inputs& x,
                                 float* sums) {
  size_t v = 0;
  for (; v + 4 <= vectors; v += 4) {
    AddGroupOfOneRow<Sums, 4>(weights, scales, v, x, sums);
  }
  for (; v < vectors; ++v) {
    AddGroupOfOneRow<Sums, 1>(weights, scales, v, x, sums);
  }
}

#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM

// Of several rows, with 32 registers: those hold the weights of as many vectors
// of columns, while all rows pass by.
constexpr size_t kVectors = 2;

// The weights of one group in some vectors of columns, byte by byte.
template <size_t kCount>
struct GroupWeights {
  HWY_INLINE GroupWeights(const uint8_t* weights, const uint16_t* scales,
                          size_t first) {
    for (size_t v = 0; v < kCount; ++v) {
      const uint8_t* const from = WeightsOf(weights, first + v);
      for (size_t i = 0; i < kHalf; ++i) {
        const VB both = hn::LoadU(DB(), from + i * kStep);
        steps[v][i] = LowerHalves(both);
        steps[v][kHalf + i] = UpperHalves(both);
      }
      scale[v] = ScaleOf(scales, first + v);
    }
  }

  VB steps[kCount][2 * kHalf];
  VF scale[kCount];
};

// One group of these columns, for all rows.
template <class Sums, size_t kCount>
HWY_INLINE void AddGroup(const GroupWeights<kCount>& weights, size_t rows,
                         const Int4Inputs* x, float* sums) {
  for (size_t r = 0; r < rows; ++r) {
    // Two chains for each vector: they are short, so more rows are under way.
    typename Sums::V products[kCount];
    typename Sums::V others[kCount];
    for (size_t v = 0; v < kCount; ++v) {
      products[v] = Sums::Start(x[r].offset);
      others[v] = Sums::Start(0);
    }
    for (size_t i = 0; i < kHalf; ++i) {
      const VI lower = FourBytes(DI(), x[r].x + 4 * i);
      const VI upper = FourBytes(DI(), x[r].x + 4 * (kHalf + i));
      for (size_t v = 0; v < kCount; ++v) {
        products[v] = Sums::Add(products[v], weights.steps[v][i], lower);
        others[v] = Sums::Add(others[v], weights.steps[v][kHalf + i], upper);
      }
    }
    for (size_t v = 0; v < kCount; ++v) {
      AddProducts<Sums>(hn::Add(products[v], others[v]), x[r], weights.scale[v],
                        sums + r * kInt4BlockColumns + v * hn::Lanes(DI()));
    }
  }
}

// One group of all columns.
template <class Sums>
HWY_INLINE void AddGroup(size_t vectors, const uint8_t* weights,
                         const uint16_t* scales, size_t rows,
                         const Int4Inputs* x, float* sums) {
  const size_t N = hn::Lanes(DI());
  size_t v = 0;
  for (; v + kVectors <= vectors; v += kVectors) {
    const GroupWeights<kVectors> some(weights, scales, v);
    AddGroup<Sums>(some, rows, x, sums + v * N);
  }
  for (; v < vectors; ++v) {
    const GroupWeights<1> one(weights, scales, v);
    AddGroup<Sums>(one, rows, x, sums + v * N);
  }
}

#else

// Of several rows, with 16 registers: those hold the sums of so many rows and
// vectors of columns, while the weights pass by.
constexpr size_t kRows = 4;
constexpr size_t kVectors = 2;
// With more rows than so many, the halves of bytes are taken apart once for
// all.
constexpr size_t kFewRows = 3 * kRows;

// What the steps of a panel become once the halves of bytes are apart.
constexpr size_t kApartBytes = 2 * kHalf * kStep;

// The weights of one group from some vector on, as they are in memory.
struct PackedSteps {
  const uint8_t* weights;
  size_t first;

  HWY_INLINE VB Get(size_t v, size_t step) const {
    const uint8_t* const from = WeightsOf(weights, first + v);
    const VB both = hn::LoadU(DB(), from + step % kHalf * kStep);
    return step < kHalf ? LowerHalves(both) : UpperHalves(both);
  }
};

// The same, taken apart before.
struct StepsApart {
  const uint8_t* weights;  // [panels, 2 * kHalf, 16, 4]
  size_t first;

  static HWY_INLINE size_t Place(size_t v, size_t step) {
    return PlaceOf(v, kApartBytes) + step * kStep;
  }

  HWY_INLINE VB Get(size_t v, size_t step) const {
    return hn::LoadU(DB(), weights + Place(first + v, step));
  }
};

// One group of kRows rows and kCount vectors of columns.
template <class Sums, size_t kRows, size_t kCount, class Steps>
HWY_INLINE void AddTile(const Steps& steps, const uint16_t* scales,
                        const Int4Inputs* x, float* sums) {
  typename Sums::V products[kRows][kCount];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kCount; ++v) {
      products[r][v] = Sums::Start(x[r].offset);
    }
  }
  for (size_t step = 0; step < 2 * kHalf; ++step) {
    VB weights[kCount];
    for (size_t v = 0; v < kCount; ++v) weights[v] = steps.Get(v, step);
    for (size_t r = 0; r < kRows; ++r) {
      const VI inputs = FourBytes(DI(), x[r].x + 4 * step);
      for (size_t v = 0; v < kCount; ++v) {
        products[r][v] = Sums::Add(products[r][v], weights[v], inputs);
      }
    }
  }
  VF scale[kCount];
  for (size_t v = 0; v < kCount; ++v) {
    scale[v] = ScaleOf(scales, steps.first + v);
  }
  float* const columns = sums + steps.first * hn::Lanes(DI());
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t v = 0; v < kCount; ++v) {
      AddProducts<Sums>(products[r][v], x[r], scale[v],
                        columns + r * kInt4BlockColumns + v * hn::Lanes(DI()));
    }
  }
}

// Of all rows, at most kMost at once.
template <class Sums, size_t kMost, size_t kCount, class Steps>
HWY_INLINE void AddTiles(const Steps& steps, const uint16_t* scales,
                         size_t rows, const Int4Inputs* x, float* sums) {
  for (; rows >= kMost; rows -= kMost) {
    AddTile<Sums, kMost, kCount>(steps, scales, x, sums);
    x += kMost;
    sums += kMost * kInt4BlockColumns;
  }
  if constexpr (kMost > 1) {
    AddTiles<Sums, kMost - 1, kCount>(steps, scales, rows, x, sums);
  }
}

// Of all columns.
template <class Sums, class Steps>
HWY_INLINE void AddSteps(size_t vectors, const uint8_t* weights,
                         const uint16_t* scales, size_t rows,
                         const Int4Inputs* x, float* sums) {
  size_t v = 0;
  for (; v + kVectors <= vectors; v += kVectors) {
    AddTiles<Sums, kRows, kVectors>(Steps{weights, v}, scales, rows, x, sums);
  }
  for (; v < vectors; ++v) {
    AddTiles<Sums, kRows, 1>(Steps{weights, v}, scales, rows, x, sums);
  }
}

template <class Sums>
HWY_INLINE void AddGroup(size_t vectors, const uint8_t* weights,
                         const uint16_t* scales, size_t rows,
                         const Int4Inputs* x, float* sums) {
  if (rows <= kFewRows) {
    AddSteps<Sums, PackedSteps>(vectors, weights, scales, rows, x, sums);
    return;
  }
  alignas(64) uint8_t apart[kInt4BlockColumns / kInt4Panel * kApartBytes];
  for (size_t v = 0; v < vectors; ++v) {
    const PackedSteps packed{weights, v};
    for (size_t step = 0; step < 2 * kHalf; ++step) {
      hn::StoreU(packed.Get(0, step), DB(), apart + StepsApart::Place(v, step));
    }
  }
  AddSteps<Sums, StepsApart>(vectors, apart, scales, rows, x, sums);
}

#endif  // HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM

template <class Sums>
HWY_INLINE void MultiplyWith(const Int4Product& p) {
  const size_t vectors = p.panels * kInt4Panel / hn::Lanes(DI());
  const size_t bytes = Int4GroupBytes(p.panels);
  const uint8_t* weights = p.weights;
  for (size_t group = 0; group < p.groups; ++group, weights += bytes) {
    const Int4Inputs* const x = p.x + group * p.x_stride;
    const auto* const scales =
        reinterpret_cast<const uint16_t*>(weights + p.panels * kInt4PanelBytes);
    for (size_t line = 0; line < bytes; line += 64) {
      hwy::Prefetch(weights + kAheadBytes + line);
    }
    if (p.rows == 1) {
      AddGroupOfOneRow<Sums>(vectors, weights, scales, *x, p.sums);
    } else {
      AddGroup<Sums>(vectors, weights, scales, p.rows, x, p.sums);
    }
  }
}

void MultiplyPlain(const Int4Product& product) {
  MultiplyWith<PlainSums>(product);
}

void MultiplyBest(const Int4Product& product) {
#if HWY_TARGET == HWY_AVX3
  static const bool vnni = __builtin_cpu_supports("avx512vnni") != 0;
  if (vnni) return MultiplyWith<VnniSums>(product);
#endif
  MultiplyWith<PlainSums>(product);
}

#endif  // HWY_TARGET == HWY_SCALAR

// Rounds a group and returns the sum of what comes out.
int32_t RoundGroupOfTarget(const float* x, float inverse, int8_t* to) {
  const hn::CappedTag<float, kInt4Group> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const auto factor = hn::Set(d, inverse);
  auto sum = hn::Zero(di);
  for (size_t i = 0; i < kInt4Group; i += hn::Lanes(d)) {
    const auto whole = hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), factor));
    sum = hn::Add(sum, whole);
    hn::StoreU(hn::DemoteTo(d8, whole), d8, to + i);
  }
  return hn::GetLane(hn::SumOfLanes(di, sum));
}

// The largest magnitude, infinity or NaN if any is.
float LargestOfTarget(const float* x) {
  const hn::CappedTag<float, kInt4Group> d;
  const hn::RebindToSigned<decltype(d)> di;
  // As whole numbers magnitudes are ordered as they are as floats.
  auto most = hn::Zero(di);
  for (size_t i = 0; i < kInt4Group; i += hn::Lanes(d)) {
    most = hn::Max(most, hn::BitCast(di, hn::Abs(hn::LoadU(d, x + i))));
  }
  return hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, most)));
}

void RoundInputsOfTarget(size_t in, const float* x, Int4Inputs* to,
                         size_t stride) {
  // Below this 1 / s may overflow.
  constexpr float kLeast = 1e-30f;
  constexpr float kLimit = 127.0f;
  float last[kInt4Group] = {};
  for (size_t i = 0; i < in; i += kInt4Group, to += stride) {
    const float* group = x + i;
    if (in - i < kInt4Group) {
      std::memcpy(last, group, (in - i) * sizeof(float));
      group = last;
    }
    const float largest = LargestOfTarget(group);
    const bool finite = largest <= std::numeric_limits<float>::max();
    if (!finite || largest < kLeast) {
      std::memset(to->x, 0, sizeof(to->x));
      to->scale = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
      to->offset = 0;
      continue;
    }
    to->scale = largest / kLimit;
    to->offset =
        -kInt4Zero * RoundGroupOfTarget(group, kLimit / largest, to->x);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(MultiplyBest);
HWY_EXPORT(MultiplyPlain);
HWY_EXPORT(RoundInputsOfTarget);

void RoundInt4Inputs(size_t in, const float* x, Int4Inputs* to, size_t stride) {
  HWY_DYNAMIC_DISPATCH(RoundInputsOfTarget)(in, x, to, stride);
}

void MultiplyInt4(const Int4Product& product, ByteProducts products) {
  if (products == ByteProducts::kPlain) {
    HWY_DYNAMIC_DISPATCH(MultiplyPlain)(product);
  } else {
    HWY_DYNAMIC_DISPATCH(MultiplyBest)(product);
  }
}

}  // namespace steadystate
#endif  // HWY_ONCE
