#ifndef STEADYSTATE_KERNELS_RECURRENCE_PACKED_KEY_DECAY_H_
#define STEADYSTATE_KERNELS_RECURRENCE_PACKED_KEY_DECAY_H_

#include <cstddef>
#include <cstdint>

#include "kernels/state/rounding_noise.h"

namespace steadystate {

// The decays of a step, as sums of two floats or as floats.
struct PackedDecay {
  const float* high = nullptr;  // f32[K], or f32[1]
  const float* low = nullptr;   // likewise; null: zeros
  size_t stride = 1;            // 0: one decay for all keys

  float High(size_t i) const { return high[i * stride]; }
  float Low(size_t i) const { return low == nullptr ? 0 : low[i * stride]; }
};

// SplitKeyDecayStep on a state that is kept in 16 bits: S is unpacked, advanced
// and read out in float32 registers, rounded by the noise and packed, row by
// row. The bits are those of unpacking, step and packing, in int16 as long as
// decays times unit are normal numbers.
//   q, k   f32[K]      in     v  f32[V]  in
//   noise  of K rows, V columns and the type's bits    in   o  f32[V]  out
// REQUIRES: o and state alias nothing; any alignment; K, V >= 1.
// Cost: 4 K V bytes of state traffic, half of KeyDecayStep's.

//   state  bf16[K, V]  in/out, as UnpackBf16 and PackBf16 have it
void KeyDecayStepBf16(size_t K, size_t V, float scale, const PackedDecay& decay,
                      const float* q, const float* k, const float* v,
                      const RoundingNoise& noise, uint16_t* state, float* o);

//   state      s16[K, V]               in/out, as UnpackInt16 and PackInt16
//   exponents  u8[K, Int16Blocks(V)]   in/out  have them
// REQUIRES: V is a multiple of 32.
void KeyDecayStepInt16(size_t K, size_t V, float scale,
                       const PackedDecay& decay, const float* q, const float* k,
                       const float* v, const RoundingNoise& noise,
                       int16_t* state, uint8_t* exponents, float* o);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_PACKED_KEY_DECAY_H_
