#include "kernels/linear/int4_product.h"

#include <bit>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/int4_product.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

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
    for (size_t j = 0; j < kInt4Panel; ++j) {
      const uint32_t bits = p.scales[i * kInt4Panel + j];
      AddColumn(p.weights + i * kInt4PanelBytes + 4 * j,
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
#if HWY_TARGET == HWY_AVX2
    return hn::Add(sum, VS{_mm256_maddubs_epi16(weights.raw, x.raw)});
#elif HWY_TARGET == HWY_AVX3
    return hn::Add(sum, VS{_mm512_maddubs_epi16(weights.raw, x.raw)});
#else
    const DS d;
    const auto inputs = hn::BitCast(d, x);
    const auto factors = hn::BitCast(d, weights);
    const auto even = hn::And(factors, hn::Set(d, int16_t{0xFF}));
    const auto odd = hn::ShiftRight<8>(factors);  // at most 15: no sign
    const auto even_inputs = hn::ShiftRight<8>(hn::ShiftLeft<8>(inputs));
    const auto odd_inputs = hn::ShiftRight<8>(inputs);
    return hn::Add(
        sum, hn::Add(hn::Mul(even, even_inputs), hn::Mul(odd, odd_inputs)));
#endif
  }

  static HWY_INLINE VI Finish(VS sum, int32_t offset) {
    const DI d;
    const auto pairs = hn::BitCast(d, sum);
    const auto even = hn::ShiftRight<16>(hn::ShiftLeft<16>(pairs));
    const auto odd = hn::ShiftRight<16>(pairs);
    return hn::Add(hn::Add(even, odd), hn::Set(d, offset));
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

HWY_INLINE VI FourInputs(const int8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof(four));
  return hn::Set(DI(), four);
}

// Rows by which one vector of weights is read ahead: with more of them the
// weights are not what is waited for.
constexpr size_t kFewRows = 8;
constexpr size_t kAheadBytes = 4096;

// Vectors of columns that are multiplied at once, so that inputs are read once
// for all of them: as many as registers hold the weights of.
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM
constexpr size_t kVectors = 2;
#else
constexpr size_t kVectors = 1;
#endif

// The weights of one group in some vectors of columns, byte by byte.
template <size_t kCount>
struct GroupWeights {
  static constexpr size_t kStep = kInt4Panel * 4;
  static constexpr size_t kSteps = kInt4Group / 4;

  // Of the vectors from number `first` on; the panels lie one after another.
  HWY_INLINE GroupWeights(const uint8_t* weights, const uint16_t* scales,
                          size_t first) {
    const size_t N = hn::Lanes(DI());
    for (size_t v = 0; v < kCount; ++v) {
      const size_t column = (first + v) * N;
      const size_t panel = column / kInt4Panel;
      Unpack(weights + panel * kInt4PanelBytes + column % kInt4Panel * 4,
             steps[v]);
      const DF df;
      const hn::Rebind<uint16_t, DF> d16;
      const hn::RebindToUnsigned<DF> du;
      const auto bits = hn::PromoteTo(du, hn::LoadU(d16, scales + column));
      scale[v] = hn::BitCast(df, hn::ShiftLeft<16>(bits));
    }
  }

  static HWY_INLINE void Unpack(const uint8_t* from, VB* to) {
    const DB db;
    const auto half = hn::Set(db, uint8_t{0x0F});
    for (size_t i = 0; i < kSteps / 2; ++i) {
      const VB both = hn::LoadU(db, from + i * kStep);
      const auto upper = hn::ShiftRight<4>(hn::BitCast(DI(), both));
      to[i] = hn::And(both, half);
      to[kSteps / 2 + i] = hn::And(hn::BitCast(db, upper), half);
    }
  }

  VB steps[kCount][kSteps];
  VF scale[kCount];
};

// One group of these columns, for all rows.
template <class Sums, size_t kCount>
HWY_INLINE void AddGroup(const GroupWeights<kCount>& weights, size_t rows,
                         const Int4Inputs* x, float* sums) {
  const DF df;
  const size_t N = hn::Lanes(df);
  for (size_t r = 0; r < rows; ++r) {
    typename Sums::V products[kCount];
    for (size_t v = 0; v < kCount; ++v) {
      products[v] = Sums::Start(x[r].offset);
    }
    for (size_t i = 0; i < GroupWeights<kCount>::kSteps; ++i) {
      const VI four = FourInputs(x[r].x + 4 * i);
      for (size_t v = 0; v < kCount; ++v) {
        products[v] = Sums::Add(products[v], weights.steps[v][i], four);
      }
    }
    const auto input_scale = hn::Set(df, x[r].scale);
    for (size_t v = 0; v < kCount; ++v) {
      const VI whole = Sums::Finish(products[v], x[r].offset);
      const auto scaled = hn::Mul(hn::ConvertTo(df, whole), input_scale);
      float* const to = sums + r * kInt4BlockColumns + v * N;
      hn::StoreU(hn::Add(hn::LoadU(df, to), hn::Mul(scaled, weights.scale[v])),
                 df, to);
    }
  }
}

template <class Sums>
HWY_INLINE void MultiplyWith(const Int4Product& p) {
  const size_t N = hn::Lanes(DI());
  const size_t vectors = p.panels * kInt4Panel / N;
  const uint8_t* weights = p.weights;
  const uint16_t* scales = p.scales;
  for (size_t group = 0; group < p.groups; ++group) {
    const Int4Inputs* const x = p.x + group * p.x_stride;
    if (p.rows <= kFewRows) {
      for (size_t line = 0; line < p.panels * kInt4PanelBytes; line += 64) {
        hwy::Prefetch(weights + kAheadBytes + line);
      }
    }
    size_t v = 0;
    for (; v + kVectors <= vectors; v += kVectors) {
      const GroupWeights<kVectors> some(weights, scales, v);
      AddGroup<Sums>(some, p.rows, x, p.sums + v * N);
    }
    for (; v < vectors; ++v) {
      const GroupWeights<1> one(weights, scales, v);
      AddGroup<Sums>(one, p.rows, x, p.sums + v * N);
    }
    weights += p.panels * kInt4PanelBytes;
    scales += p.panels * kInt4Panel;
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
