#ifndef STEADYSTATE_KERNELS_RECURRENCE_PACKED_KEY_DECAY_H_
#define STEADYSTATE_KERNELS_RECURRENCE_PACKED_KEY_DECAY_H_

#include <cstdint>

#include "kernels/recurrence/step.h"
#include "kernels/state/rounding_noise.h"

namespace steadystate {

// KeyDecayStep on a state that is kept in 16 bits: S is unpacked, advanced and
// read out in float32 registers, rounded by the noise and packed, row by row.
// The bits are those of unpacking, step and packing, in int16 as long as decays
// times unit are normal numbers.
//   decay  of K channels
//   noise  of K rows, V columns and the type's bits  in
// REQUIRES: the state aliases nothing; any alignment.
// Cost: 4 K V bytes of state traffic, half of KeyDecayStep's.

//   state  bf16[K, V]  in/out, as UnpackBf16 and PackBf16 have it
void KeyDecayStepBf16(const HeadToken& token, const Decays& decay,
                      const RoundingNoise& noise, uint16_t* state);

//   state      s16[K, V]               in/out, as UnpackInt16 and PackInt16
//   exponents  u8[K, Int16Groups(V)]   in/out  have them
// REQUIRES: V is a multiple of 32.
void KeyDecayStepInt16(const HeadToken& token, const Decays& decay,
                       const RoundingNoise& noise, int16_t* state,
                       uint8_t* exponents);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_PACKED_KEY_DECAY_H_
