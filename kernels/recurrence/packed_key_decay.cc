#include <algorithm>
#include <utility>

#include "kernels/recurrence/decay_steps.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/packed_key_decay.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/state_columns-inl.h"
#include "kernels/state/packed_rows-inl.h"

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
    return {decay.High(i), decay.Low(i),  token.q[i],
            token.k[i],    noise.rows[i], state + i * token.V};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t j) const {
    return hn::LoadU(d, token.v + j);
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
    hn::StoreU(hn::Mul(hn::Set(d, token.scale), o_j), d, token.o + j);
  }

  HeadToken token;
  Decays decay;
  RoundingNoise noise;
  uint16_t* state;
};

void KeyDecayStepBf16OfTarget(const HeadToken& token, const Decays& decay,
                              const RoundingNoise& noise, uint16_t* state) {
  ForColumns(token.V, Bf16KeyDecayRule{token, decay, noise, state});
}

// Where a group of a key row is, and what the row brings beside its decay.
struct GroupOfRow {
  float q;
  float k;
  uint32_t row_noise;
  const uint32_t* column_noise;
  int16_t* state;
};

// A head and a token.
struct Int16KeyDecay {
  // The group of columns j and up of key row i. `width` is V, which a caller
  // may know when it is compiled.
  HWY_INLINE GroupOfRow Group(size_t width, size_t i, size_t j) const {
    return {token.q[i], token.k[i], noise.rows[i], noise.columns + j,
            state + i * width + j};
  }

  HeadToken token;  // o is without the scale
  Decays decay;
  RoundingNoise noise;
  int16_t* state;
  uint8_t* exponents;
};

// The values and the sums of columns j and up.
template <size_t columns, class Vec>
HWY_INLINE void LoadColumns(const Int16KeyDecay& head, size_t j, Vec* v,
                            Vec* o) {
  const hn::ScalableTag<float> d;
  constexpr size_t N = hn::MaxLanes(d);
  for (size_t n = 0; n < columns / N; ++n) {
    v[n] = hn::LoadU(d, head.token.v + j + n * N);
    o[n] = hn::LoadU(d, head.token.o + j + n * N);
  }
}

template <size_t columns, class Vec>
HWY_INLINE void StoreSums(const Int16KeyDecay& head, size_t j, const Vec* o) {
  const hn::ScalableTag<float> d;
  constexpr size_t N = hn::MaxLanes(d);
  for (size_t n = 0; n < columns / N; ++n) {
    hn::StoreU(o[n], d, head.token.o + j + n * N);
  }
}

// Advances a group, whose decays are in its units, and leaves its new values in
// `values`: it has to be known as a whole before it can be rounded. Returns
// magnitudes of which one is the largest of the group.
template <size_t columns, class D, class Vec = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> AdvanceGroup(D d,
                                                       const GroupOfRow& at,
                                                       float decay, float low,
                                                       const Vec* v, Vec* o,
                                                       float* values) {
  const hn::RebindToSigned<D> di;
  constexpr size_t N = hn::MaxLanes(d);
  auto largest = hn::Zero(di);
  for (size_t n = 0; n < columns / N; ++n) {
    const auto s = Advanced(d, decay, low, at.q, at.k,
                            LoadInt16(d, at.state + n * N), v[n], o[n]);
    hn::Store(s, d, values + n * N);
    const auto magnitude = MagnitudeBits(d, s);
    largest = n == 0 ? magnitude : hn::Max(largest, magnitude);
  }
  return largest;
}

// Columns j and up of key row i by themselves.
template <size_t columns>
HWY_INLINE void OneGroup(const Int16KeyDecay& head, size_t i, size_t j,
                         uint8_t& exponent) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToUnsigned<decltype(d)> du;
  constexpr size_t N = hn::MaxLanes(d);
  hn::Vec<decltype(d)> v[columns / N];
  hn::Vec<decltype(d)> o[columns / N];
  HWY_ALIGN float values[columns];
  LoadColumns<columns>(head, j, v, o);
  const GroupOfRow at = head.Group(head.token.V, i, j);
  const float unit = Int16Unit(exponent);
  const auto largest = AdvanceGroup<columns>(
      d, at, head.decay.High(i) * unit, head.decay.Low(i) * unit, v, o, values);
  StoreSums<columns>(head, j, o);
  const Int16Rounding how = RoundingOfGroup(
      static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest))));
  const auto row_noise = Int16RowNoise(du, at.row_noise);
  for (size_t n = 0; n < columns; n += N) {
    StoreInt16(hn::Load(d, values + n), how.per_unit,
               Int16Noise(du, row_noise, at.column_noise + n), d, at.state + n);
  }
  exponent = how.exponent;
}

// Key rows `first` and up, one by one.
HWY_INLINE void OneByOne(const Int16KeyDecay& head, size_t first) {
  constexpr size_t kWhole = kInt16GroupColumns;
  uint8_t* exponent = head.exponents + first * Int16Groups(head.token.V);
  for (size_t i = first; i < head.token.K; ++i) {
    size_t j = 0;
    for (; j + kWhole <= head.token.V; j += kWhole) {
      OneGroup<kWhole>(head, i, j, *exponent++);
    }
    if (j < head.token.V) OneGroup<kWhole / 2>(head, i, j, *exponent++);
  }
}

#if HWY_TARGET != HWY_SCALAR

// The new values of a group in four key rows until they are rounded, and how.
template <size_t columns>
struct FourRows {
  HWY_ALIGN float values[4][columns];
  HWY_ALIGN float per_unit[4];
};

// Four bytes that lie so far apart. Put together in a register: from memory,
// they would wait until each had been stored.
HWY_INLINE hn::Vec<FourBytes> GatherFour(const uint8_t* from, size_t stride) {
  uint32_t bytes = 0;
  for (size_t r = 0; r < 4; ++r) {
    bytes |= static_cast<uint32_t>(from[r * stride]) << (8 * r);
  }
  return hn::BitCast(FourBytes(), hn::Set(hn::FixedTag<uint32_t, 1>(), bytes));
}

HWY_INLINE void ScatterFour(hn::Vec<FourBytes> four, uint8_t* to,
                            size_t stride) {
  const uint32_t bytes =
      hn::GetLane(hn::BitCast(hn::FixedTag<uint32_t, 1>(), four));
  for (size_t r = 0; r < 4; ++r) {
    to[r * stride] = static_cast<uint8_t>(bytes >> (8 * r));
  }
}

// The decays of rows i to i + 3, `decays` being one of the two parts.
HWY_INLINE hn::Vec<FourFloats> FourDecays(const float* decays, size_t stride,
                                          size_t i) {
  const FourFloats d;
  if (decays == nullptr) return hn::Zero(d);
  return stride == 0 ? hn::Set(d, *decays) : hn::LoadU(d, decays + i);
}

// Asks for these columns of four rows, so many elements later: a core does not
// do so by itself where groups are not in the order of addresses. hwy::Prefetch
// is for the first cache, whose few misses at a time would hold up the loads.
template <size_t columns>
HWY_INLINE void FetchAhead(const int16_t* state, size_t V) {
  constexpr size_t kAhead = 2048;
  constexpr size_t kLine = 64 / sizeof(int16_t);
  const size_t ahead = HWY_MAX(kAhead, 4 * V);
  for (size_t r = 0; r < 4; ++r) {
    for (size_t n = 0; n < columns; n += kLine) {
      __builtin_prefetch(state + r * V + ahead + n, 0, 2);
    }
  }
}

// Columns j and up of key rows i to i + 3: advances them, stores their units,
// and leaves the rest to RoundFour.
template <size_t columns, class Vec>
HWY_INLINE void AdvanceFour(const Int16KeyDecay& head, size_t V, size_t i,
                            size_t j, const Vec* v, Vec* o,
                            FourRows<columns>& rows) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const FourFloats d4;
  const size_t groups = Int16Groups(V);
  uint8_t* const exponents =
      head.exponents + i * groups + j / kInt16GroupColumns;
  const auto units = UnitsOfFour(GatherFour(exponents, groups));
  const Decays& decay = head.decay;
  HWY_ALIGN float high[4];
  HWY_ALIGN float low[4];
  hn::Store(hn::Mul(FourDecays(decay.high, decay.stride, i), units), d4, high);
  hn::Store(hn::Mul(FourDecays(decay.low, decay.stride, i), units), d4, low);
  FetchAhead<columns>(head.state + i * V + j, V);
  const auto largest0 = AdvanceGroup<columns>(d, head.Group(V, i, j), high[0],
                                              low[0], v, o, rows.values[0]);
  const auto largest1 = AdvanceGroup<columns>(
      d, head.Group(V, i + 1, j), high[1], low[1], v, o, rows.values[1]);
  const auto largest2 = AdvanceGroup<columns>(
      d, head.Group(V, i + 2, j), high[2], low[2], v, o, rows.values[2]);
  const auto largest3 = AdvanceGroup<columns>(
      d, head.Group(V, i + 3, j), high[3], low[3], v, o, rows.values[3]);
  const FourInt16Roundings how =
      RoundingOfFour(MaxOfEach(di, largest0, largest1, largest2, largest3));
  hn::Store(how.per_unit, d4, rows.per_unit);
  ScatterFour(how.exponents, exponents, groups);
}

template <size_t columns>
HWY_INLINE void RoundRow(const GroupOfRow& at, const float* values,
                         float per_unit_of_group) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  constexpr size_t N = hn::MaxLanes(d);
  const auto row_noise = Int16RowNoise(du, at.row_noise);
  const auto per_unit = hn::Set(d, per_unit_of_group);
  for (size_t n = 0; n < columns; n += 2 * N) {
    const auto lower =
        RoundInt16(d, hn::Load(d, values + n), per_unit,
                   Int16Noise(du, row_noise, at.column_noise + n));
    const auto upper =
        RoundInt16(d, hn::Load(d, values + n + N), per_unit,
                   Int16Noise(du, row_noise, at.column_noise + n + N));
    StoreTwoInt16(d, lower, upper, at.state + n);
  }
}

template <size_t columns>
HWY_INLINE void RoundFour(const Int16KeyDecay& head, size_t V, size_t i,
                          size_t j, const FourRows<columns>& rows) {
  for (size_t r = 0; r < 4; ++r) {
    RoundRow<columns>(head.Group(V, i + r, j), rows.values[r],
                      rows.per_unit[r]);
  }
}

// Columns [left, right) of key rows [first, end), four rows at a time. These
// are rounded when the next four have been advanced, so that a core has
// something to do while it waits for their units. Sums of one group stay in
// registers.
template <size_t columns>
HWY_INLINE void ByFours(const Int16KeyDecay& head, size_t V, size_t first,
                        size_t end, size_t left, size_t right) {
  const hn::ScalableTag<float> d;
  constexpr size_t N = hn::MaxLanes(d);
  hn::Vec<decltype(d)> v[columns / N];
  hn::Vec<decltype(d)> o[columns / N];
  FourRows<columns> rows[2];
  FourRows<columns>* now = rows;
  FourRows<columns>* before = rows + 1;
  bool any = false;
  size_t i_before = first;
  size_t j_before = left;
  const bool one_group = right - left == columns;
  if (one_group) LoadColumns<columns>(head, left, v, o);
  for (size_t i = first; i < end; i += 4) {
    for (size_t j = left; j < right; j += columns) {
      if (!one_group) LoadColumns<columns>(head, j, v, o);
      AdvanceFour(head, V, i, j, v, o, *now);
      if (!one_group) StoreSums<columns>(head, j, o);
      if (any) RoundFour(head, V, i_before, j_before, *before);
      any = true;
      i_before = i;
      j_before = j;
      std::swap(now, before);
    }
  }
  if (any) RoundFour(head, V, i_before, j_before, *before);
  if (one_group) StoreSums<columns>(head, left, o);
}

// The rows of a head that are whole fours. Returns how many they are.
HWY_INLINE size_t WholeFours(const Int16KeyDecay& head) {
  constexpr size_t kWhole = kInt16GroupColumns;
  constexpr size_t kHalf = kWhole / 2;
  const size_t V = head.token.V;
  const size_t rows = head.token.K / 4 * 4;
  const size_t whole = V / kWhole * kWhole;
  if (V == kWhole) {
    ByFours<kWhole>(head, kWhole, 0, rows, 0, kWhole);
  } else if (V == kHalf) {
    ByFours<kHalf>(head, kHalf, 0, rows, 0, kHalf);
  } else if (V == whole) {
    ByFours<kWhole>(head, V, 0, rows, 0, V);
  } else {
    for (size_t i = 0; i < rows; i += 4) {
      ByFours<kWhole>(head, V, i, i + 4, 0, whole);
      ByFours<kHalf>(head, V, i, i + 4, whole, V);
    }
  }
  return rows;
}

#else

HWY_INLINE size_t WholeFours(const Int16KeyDecay& /* head */) { return 0; }

#endif  // HWY_TARGET != HWY_SCALAR

void KeyDecayStepInt16OfTarget(const HeadToken& token, const Decays& decay,
                               const RoundingNoise& noise, int16_t* state,
                               uint8_t* exponents) {
  const Int16KeyDecay head = {token, decay, noise, state, exponents};
  std::fill_n(token.o, token.V, 0.0f);
  OneByOne(head, WholeFours(head));
  for (size_t j = 0; j < token.V; ++j) token.o[j] *= token.scale;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(KeyDecayStepBf16OfTarget);
HWY_EXPORT(KeyDecayStepInt16OfTarget);

void KeyDecayStepBf16(const HeadToken& token, const Decays& decay,
                      const RoundingNoise& noise, uint16_t* state) {
  HWY_DYNAMIC_DISPATCH(KeyDecayStepBf16OfTarget)(token, decay, noise, state);
}

void KeyDecayStepInt16(const HeadToken& token, const Decays& decay,
                       const RoundingNoise& noise, int16_t* state,
                       uint8_t* exponents) {
  HWY_DYNAMIC_DISPATCH(KeyDecayStepInt16OfTarget)
  (token, decay, noise, state, exponents);
}

}  // namespace steadystate
#endif  // HWY_ONCE
