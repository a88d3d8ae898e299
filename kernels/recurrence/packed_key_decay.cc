#include "kernels/recurrence/packed_key_decay.h"

#include <algorithm>

#include "kernels/state/int16_matrix.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/packed_key_decay.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/column_blocks-inl.h"
#include "kernels/state/bf16_rows-inl.h"
#include "kernels/state/int16_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// What the step does to some columns of a key row, and adds to their sums.
template <class D, class Vec>
HWY_INLINE Vec Advanced(D d, float decay, float low, float q, float k, Vec s,
                        Vec v, Vec& o) {
  const Vec added = hn::MulAdd(hn::Set(d, low), s, hn::Mul(hn::Set(d, k), v));
  const Vec next = hn::MulAdd(hn::Set(d, decay), s, added);
  o = hn::MulAdd(hn::Set(d, q), next, o);
  return next;
}

struct Bf16KeyDecayRule {
  using Element = float;
  struct Row {
    float decay;
    float low;
    float q;
    float k;
    uint32_t noise;
    uint16_t* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {decay.High(i), decay.Low(i),  q[i],
            k[i],          noise.rows[i], state + i * V};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t j) const {
    return hn::LoadU(d, v + j);
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec v_j,
                          Vec& o_j) const {
    const hn::RebindToUnsigned<D> du;
    const Vec s = Advanced(d, row.decay, row.low, row.q, row.k,
                           LoadBf16(d, row.state + j), v_j, o_j);
    const auto of_columns =
        hn::Xor(hn::LoadU(du, noise.columns + j), hn::Set(du, row.noise));
    StoreBf16(s, of_columns, d, row.state + j);
  }
  template <class D, class Vec>
  HWY_INLINE void Finish(D d, size_t j, Vec o_j) const {
    hn::StoreU(hn::Mul(hn::Set(d, scale), o_j), d, o + j);
  }

  size_t K;
  size_t V;
  float scale;
  PackedDecay decay;
  const float* q;
  const float* k;
  const float* v;
  RoundingNoise noise;
  uint16_t* state;
  float* o;
};

void KeyDecayStepBf16OfTarget(size_t K, size_t V, float scale,
                              const PackedDecay& decay, const float* q,
                              const float* k, const float* v,
                              const RoundingNoise& noise, uint16_t* state,
                              float* o) {
  ForColumnBlocks(
      V, Bf16KeyDecayRule{K, V, scale, decay, q, k, v, noise, state, o});
}

// Where a block of a key row is, and what the row brings.
struct BlockOfRow {
  float decay;
  float low;
  float q;
  float k;
  uint32_t row_noise;
  const uint32_t* column_noise;
  int16_t* state;
};

// Advances a block of so many vectors, which has to be known as a whole before
// it can be rounded. Returns the new exponent.
template <size_t vectors, class D, class Vec = hn::Vec<D>>
HWY_INLINE uint8_t AdvanceBlock(D d, const BlockOfRow& at, uint8_t exponent,
                                const Vec* v, Vec* o) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const size_t N = hn::Lanes(d);
  const float unit = Int16Unit(exponent);
  const float decay = at.decay * unit;
  const float low = at.low * unit;
  Vec s[vectors];
  auto largest = hn::Zero(di);
  for (size_t n = 0; n < vectors; ++n) {
    s[n] = Advanced(d, decay, low, at.q, at.k, LoadInt16(d, at.state + n * N),
                    v[n], o[n]);
    largest = hn::Max(largest, MagnitudeBits(d, s[n]));
  }
  const Int16Rounding how = RoundingOfBlock(
      static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest))));
  for (size_t n = 0; n < vectors; ++n) {
    StoreInt16(s[n], how.per_unit,
               Int16Noise(du, at.row_noise, at.column_noise + n * N), d,
               at.state + n * N);
  }
  return how.exponent;
}

// A head and a token.
struct Int16KeyDecay {
  // The block of columns j and up of key row i.
  HWY_INLINE BlockOfRow Block(size_t i, size_t j) const {
    return {decay.High(i),     decay.Low(i),     q[i], k[i], noise.rows[i],
            noise.columns + j, state + i * V + j};
  }

  size_t K;
  size_t V;
  float scale;
  PackedDecay decay;
  const float* q;
  const float* k;
  const float* v;
  RoundingNoise noise;
  int16_t* state;
  uint8_t* exponents;
  float* o;
};

// A head of one block, so many columns wide: values and sums stay in registers.
template <size_t columns>
HWY_INLINE void OneBlock(const Int16KeyDecay& head) {
  const hn::ScalableTag<float> d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  constexpr size_t kVectors = columns / kLanes;
  hn::Vec<decltype(d)> v[kVectors];
  hn::Vec<decltype(d)> o[kVectors];
  for (size_t n = 0; n < kVectors; ++n) {
    v[n] = hn::LoadU(d, head.v + n * kLanes);
    o[n] = hn::Zero(d);
  }
  for (size_t i = 0; i < head.K; ++i) {
    uint8_t& exponent = head.exponents[i];
    exponent = AdvanceBlock<kVectors>(d, head.Block(i, 0), exponent, v, o);
  }
  for (size_t n = 0; n < kVectors; ++n) {
    hn::StoreU(hn::Mul(hn::Set(d, head.scale), o[n]), d, head.o + n * kLanes);
  }
}

// Columns j and up of key row i, the sums being in memory.
template <size_t columns>
HWY_INLINE void BlockInMemory(const Int16KeyDecay& head, size_t i, size_t j,
                              uint8_t& exponent) {
  const hn::ScalableTag<float> d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  constexpr size_t kVectors = columns / kLanes;
  hn::Vec<decltype(d)> v[kVectors];
  hn::Vec<decltype(d)> o[kVectors];
  for (size_t n = 0; n < kVectors; ++n) {
    v[n] = hn::LoadU(d, head.v + j + n * kLanes);
    o[n] = hn::LoadU(d, head.o + j + n * kLanes);
  }
  exponent = AdvanceBlock<kVectors>(d, head.Block(i, j), exponent, v, o);
  for (size_t n = 0; n < kVectors; ++n) {
    hn::StoreU(o[n], d, head.o + j + n * kLanes);
  }
}

// A head of any number of blocks, row after row as it lies in memory.
HWY_INLINE void Blocks(const Int16KeyDecay& head) {
  constexpr size_t kHalf = kInt16BlockColumns / 2;
  std::fill_n(head.o, head.V, 0.0f);
  uint8_t* exponent = head.exponents;
  for (size_t i = 0; i < head.K; ++i) {
    size_t j = 0;
    for (; j + kInt16BlockColumns <= head.V; j += kInt16BlockColumns) {
      BlockInMemory<kInt16BlockColumns>(head, i, j, *exponent++);
    }
    if (j < head.V) BlockInMemory<kHalf>(head, i, j, *exponent++);
  }
  for (size_t j = 0; j < head.V; ++j) head.o[j] *= head.scale;
}

void KeyDecayStepInt16OfTarget(size_t K, size_t V, float scale,
                               const PackedDecay& decay, const float* q,
                               const float* k, const float* v,
                               const RoundingNoise& noise, int16_t* state,
                               uint8_t* exponents, float* o) {
  const Int16KeyDecay head = {K, V,     scale, decay,     q, k,
                              v, noise, state, exponents, o};
  if (V == kInt16BlockColumns) return OneBlock<kInt16BlockColumns>(head);
  if (V == kInt16BlockColumns / 2)
    return OneBlock<kInt16BlockColumns / 2>(head);
  Blocks(head);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(KeyDecayStepBf16OfTarget);
HWY_EXPORT(KeyDecayStepInt16OfTarget);

void KeyDecayStepBf16(size_t K, size_t V, float scale, const PackedDecay& decay,
                      const float* q, const float* k, const float* v,
                      const RoundingNoise& noise, uint16_t* state, float* o) {
  HWY_DYNAMIC_DISPATCH(KeyDecayStepBf16OfTarget)
  (K, V, scale, decay, q, k, v, noise, state, o);
}

void KeyDecayStepInt16(size_t K, size_t V, float scale,
                       const PackedDecay& decay, const float* q, const float* k,
                       const float* v, const RoundingNoise& noise,
                       int16_t* state, uint8_t* exponents, float* o) {
  HWY_DYNAMIC_DISPATCH(KeyDecayStepInt16OfTarget)
  (K, V, scale, decay, q, k, v, noise, state, exponents, o);
}

}  // namespace steadystate
#endif  // HWY_ONCE
