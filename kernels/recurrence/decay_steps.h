#ifndef STEADYSTATE_KERNELS_RECURRENCE_DECAY_STEPS_H_
#define STEADYSTATE_KERNELS_RECURRENCE_DECAY_STEPS_H_

#include <cstdint>

#include "kernels/recurrence/step.h"
#include "kernels/state/rounding_noise.h"

namespace steadystate {

// The steps S <- G o S + k v^T of one head by one token, for decays G that a
// vector of factors gives, and the readout of a state that stays as it is.
//
// Each step reads an element of the state once and writes it once. The token's
// own (k, v) is in o, unless a bonus weighs it.
//   state  f32[K, V]  in/out
// REQUIRES: the state aliases nothing; any alignment.

// One factor per key channel:
//   S <- diag(decay) S + k v^T,   o <- scale * S^T q.
//   decay  of K channels
// Cost: 5 K V flop, 7 if the decay has two parts; 8 K V bytes of state traffic.
void KeyDecayStep(const HeadToken& token, const Decays& decay, float* state);

// The readout before the update, and the token itself weighed by a bonus
// instead of the decay (RWKV-6, Peng et al. 2024):
//   o <- scale * (S + diag(bonus) k v^T)^T q,   S <- diag(decay) S + k v^T.
//   decay  of K channels     bonus  f32[K]  in
// Cost: 9 K V flop; 8 K V bytes of state traffic.
void BonusDecayStep(const HeadToken& token, const Decays& decay,
                    const float* bonus, float* state);

// A factor per key channel times one per value channel (DFW's gate of rank one;
// with decay_k all ones a decay per value channel):
//   S <- (decay_k decay_v^T) o S + k v^T,   o <- scale * S^T q.
//   decay_k  of K channels     decay_v  of V channels, stride 1
// Cost: 14 K V flop; 8 K V bytes of state traffic.
void OuterDecayStep(const HeadToken& token, const Decays& decay_k,
                    const Decays& decay_v, float* state);

// A complex factor per key channel (GateLoop, Katsch 2023); q, k and v are
// real:
//   S <- diag(decay_re + i decay_im) S + k v^T,   o <- scale * Re(S^T q).
//   decay_re, decay_im  of K channels
//   state  f32[2, K, V]  in/out: the plane of the real parts, then that of the
//                        imaginary ones
// Cost: 19 K V flop; 16 K V bytes of state traffic.
void ComplexKeyDecayStep(const HeadToken& token, const Decays& decay_re,
                         const Decays& decay_im, float* state);

// o <- scale * S^T q: one more query of a state that stays as it is. The bits
// are those of the steps that read after their update, for the same S; of a
// complex state, whose real parts come first, too.
//   state  f32[K, V]  in
// Cost: 2 K V flop; 4 K V bytes of state traffic.
void ReadState(const HeadToken& token, const float* state);

// Advances one head by one token, a decay of its own for every element, in the
// form of Mamba (Gu and Dao 2023):
//   S_ij <- exp(-rate_ij step_j) S_ij + k_i v_j,   o <- scale * S^T q.
// The token's own (k, v) is included in o. One pass: each element of the state
// is read once and written once.
//   rate   f32[K, V]  in, >= 0     step  f32[V]  in, >= 0
//   state  f32[K, V]  in/out
// A decay is within 2 ulp + half an ulp per unit of rate_ij step_j, and above
// 0.98 what it lacks of one is; below 2^-126 it counts as 0.
// REQUIRES: the state aliases nothing; any alignment.
// Cost: K V exponentials, which set the pace where one core has the memory's
// bandwidth to itself; 12 K V bytes of traffic, 4 K V of them from a cache if
// other sessions' heads share the rates.
void FullDecayStep(const HeadToken& token, const float* rate, const float* step,
                   float* state);

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

#endif  // STEADYSTATE_KERNELS_RECURRENCE_DECAY_STEPS_H_
