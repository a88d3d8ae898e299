#include "tests/bench/step_kernels.h"

#include <algorithm>

#include "kernels/recurrence/bonus_decay.h"
#include "kernels/recurrence/complex_key_decay.h"
#include "kernels/recurrence/full_decay.h"
#include "kernels/recurrence/growing_sum.h"
#include "kernels/recurrence/key_decay.h"
#include "kernels/recurrence/log_feature.h"
#include "kernels/recurrence/normalizer.h"
#include "kernels/recurrence/outer_decay.h"
#include "kernels/recurrence/packed_key_decay.h"
#include "kernels/recurrence/rank_one_decay.h"
#include "kernels/recurrence/state_read.h"
#include "kernels/state/int16_matrix.h"

namespace steadystate::bench {
namespace {

// Decays, so that states neither vanish nor overflow however long it takes.
constexpr float kDecay = 0.99f;
constexpr float kDecayLow = 1e-9f;
constexpr float kSmall = 0.01f;

float* Floats(std::byte* state) { return reinterpret_cast<float*>(state); }
double* Doubles(std::byte* state) { return reinterpret_cast<double*>(state); }

size_t FloatBytes(size_t K, size_t V) { return K * V * sizeof(float); }
size_t TwoFloatBytes(size_t K, size_t V) { return 2 * FloatBytes(K, V); }
size_t Bf16Bytes(size_t K, size_t V) { return K * V * sizeof(uint16_t); }
size_t Int16Bytes(size_t K, size_t V) {
  return Bf16Bytes(K, V) + K * Int16Blocks(V);
}

constexpr StepKernel kKernels[] = {
    {"KeyDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       KeyDecayStep(in.K, in.V, 1.0f, in.decay_k.data(), in.q.data(),
                    in.k.data(), in.v.data(), Floats(state), o);
     }},
    {"SplitKeyDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       SplitKeyDecayStep(in.K, in.V, 1.0f, in.decay_k.data(),
                         in.decay_low.data(), in.q.data(), in.k.data(),
                         in.v.data(), Floats(state), o);
     }},
    {"SplitScalarDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       SplitScalarDecayStep(in.K, in.V, 1.0f, kDecay, kDecayLow, in.q.data(),
                            in.k.data(), in.v.data(), Floats(state), o);
     }},
    {"OuterDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       OuterDecayStep(in.K, in.V, 1.0f, in.key_decays(), in.value_decays(),
                      in.q.data(), in.k.data(), in.v.data(), Floats(state), o);
     }},
    {"FullDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       FullDecayStep(in.K, in.V, 1.0f, in.rate.data(), in.small_v.data(),
                     in.q.data(), in.k.data(), in.v.data(), Floats(state), o);
     }},
    {"ComplexKeyDecay", TwoFloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       ComplexKeyDecayStep(in.K, in.V, 1.0f, in.key_decays(),
                           {in.small_k.data(), in.decay_low.data()},
                           in.q.data(), in.k.data(), in.v.data(), Floats(state),
                           o);
     }},
    {"BonusDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       BonusDecayStep(in.K, in.V, in.key_decays(), in.q.data(), in.q.data(),
                      in.k.data(), in.v.data(), Floats(state), o);
     }},
    {"RankOneDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* next) {
       RankOneDecayStep(in.K, in.V, 1.0f, in.key_decays(), in.small_k.data(),
                        in.minus_k.data(), in.q.data(), in.k.data(),
                        in.v.data(), Floats(state), o,
                        reinterpret_cast<const float*>(next));
     }},
    {"GrowingSum", TwoFloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       GrowingSumStep(in.K, in.V, 1.0f, in.decay_f64.data(), in.q.data(),
                      in.k.data(), in.v.data(), Doubles(state), o);
     }},
    {"KeyDecay bf16", Bf16Bytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       KeyDecayStepBf16(in.K, in.V, 1.0f, in.packed_decay(), in.q.data(),
                        in.k.data(), in.v.data(), in.noise(),
                        reinterpret_cast<uint16_t*>(state), o);
     }},
    {"KeyDecay int16", Int16Bytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       KeyDecayStepInt16(
           in.K, in.V, 1.0f, in.packed_decay(), in.q.data(), in.k.data(),
           in.v.data(), in.noise(), reinterpret_cast<int16_t*>(state),
           reinterpret_cast<uint8_t*>(state + Bf16Bytes(in.K, in.V)), o);
     }},
    {"ReadState", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       ReadState(in.K, in.V, 1.0f, in.q.data(), Floats(state), o);
     },
     /*writes=*/false},
    // Of the next three, which keep K numbers of a head, V heads in place of
    // one: a single one is over before the team knows of it.
    {"Normalizer, V of K", TwoFloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       for (size_t i = 0; i < in.V; ++i) {
         o[i] = static_cast<float>(NormalizerStep(in.K, in.key_decays(),
                                                  in.q.data(), in.k.data(),
                                                  Doubles(state) + i * in.K));
       }
     }},
    {"LogFeatureKey, V of K", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       for (size_t i = 0; i < in.V; ++i) {
         LogFeatureKey(in.K, /*first=*/false, in.small_k.data(),
                       Floats(state) + i * in.K, o, o + in.K);
       }
     }},
    {"LogFeatureQuery, V of K", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       for (size_t i = 0; i < in.V; ++i) {
         LogFeatureQuery(in.K, in.q.data(), Floats(state) + i * in.K, o);
       }
     },
     /*writes=*/false},
};

}  // namespace

StepInputs::StepInputs(size_t key_width, size_t value_width)
    : K(key_width),
      V(value_width),
      decay_k(K, kDecay),
      decay_low(K, kDecayLow),
      small_k(K, kSmall),
      minus_k(K, -kSmall),
      q(K, 0.5f),
      k(K, 0.25f),
      decay_v(V, kDecay),
      decay_v_low(V, kDecayLow),
      small_v(V, kSmall),
      v(V, 0.125f),
      rate(K * V, 1.0f),
      decay_f64(K, static_cast<double>(kDecay)),
      row_noise(K),
      column_noise(V) {}

std::span<const StepKernel> StepKernels() { return kKernels; }

size_t OutputFloats(size_t K, size_t V) { return std::max(V, 2 * K); }

}  // namespace steadystate::bench
