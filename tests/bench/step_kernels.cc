#include "tests/bench/step_kernels.h"

#include <algorithm>

#include "kernels/recurrence/decay_steps.h"
#include "kernels/recurrence/growing_sum.h"
#include "kernels/recurrence/normalizer.h"
#include "kernels/recurrence/rank_one_decay.h"
#include "kernels/state/packed_matrix.h"

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
  return Bf16Bytes(K, V) + K * Int16Groups(V);
}

constexpr StepKernel kStepKernels[] = {
    {"KeyDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       KeyDecayStep({.K = in.K,
                     .V = in.V,
                     .q = in.q.data(),
                     .k = in.k.data(),
                     .v = in.v.data(),
                     .o = o},
                    {in.decay_k.data()}, Floats(state));
     }},
    {"SplitKeyDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       KeyDecayStep({.K = in.K,
                     .V = in.V,
                     .q = in.q.data(),
                     .k = in.k.data(),
                     .v = in.v.data(),
                     .o = o},
                    {in.decay_k.data(), in.decay_low.data()}, Floats(state));
     }},
    {"SplitScalarDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       KeyDecayStep({.K = in.K,
                     .V = in.V,
                     .q = in.q.data(),
                     .k = in.k.data(),
                     .v = in.v.data(),
                     .o = o},
                    {&kDecay, &kDecayLow, 0}, Floats(state));
     }},
    {"OuterDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       OuterDecayStep({.K = in.K,
                       .V = in.V,
                       .q = in.q.data(),
                       .k = in.k.data(),
                       .v = in.v.data(),
                       .o = o},
                      in.key_decays(), in.value_decays(), Floats(state));
     }},
    {"FullDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       FullDecayStep({.K = in.K,
                      .V = in.V,
                      .q = in.q.data(),
                      .k = in.k.data(),
                      .v = in.v.data(),
                      .o = o},
                     in.rate.data(), in.small_v.data(), Floats(state));
     }},
    {"ComplexKeyDecay", TwoFloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       ComplexKeyDecayStep({.K = in.K,
                            .V = in.V,
                            .q = in.q.data(),
                            .k = in.k.data(),
                            .v = in.v.data(),
                            .o = o},
                           in.key_decays(),
                           {in.small_k.data(), in.decay_low.data()},
                           Floats(state));
     }},
    {"BonusDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       BonusDecayStep({.K = in.K,
                       .V = in.V,
                       .q = in.q.data(),
                       .k = in.k.data(),
                       .v = in.v.data(),
                       .o = o},
                      in.key_decays(), in.q.data(), Floats(state));
     }},
    {"RankOneDecay", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* next) {
       RankOneDecayStep({.K = in.K,
                         .V = in.V,
                         .q = in.q.data(),
                         .k = in.k.data(),
                         .v = in.v.data(),
                         .o = o},
                        in.key_decays(), {in.small_k.data(), in.minus_k.data()},
                        Floats(state), reinterpret_cast<const float*>(next));
     }},
    {"GrowingSum", TwoFloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       GrowingSumStep({.K = in.K,
                       .V = in.V,
                       .q = in.q.data(),
                       .k = in.k.data(),
                       .v = in.v.data(),
                       .o = o},
                      in.decay_f64.data(), Doubles(state));
     }},
    {"KeyDecay bf16", Bf16Bytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       KeyDecayStepBf16({.K = in.K,
                         .V = in.V,
                         .q = in.q.data(),
                         .k = in.k.data(),
                         .v = in.v.data(),
                         .o = o},
                        in.key_decays(), in.noise(),
                        reinterpret_cast<uint16_t*>(state));
     }},
    {"KeyDecay int16", Int16Bytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       KeyDecayStepInt16(
           {.K = in.K,
            .V = in.V,
            .q = in.q.data(),
            .k = in.k.data(),
            .v = in.v.data(),
            .o = o},
           in.key_decays(), in.noise(), reinterpret_cast<int16_t*>(state),
           reinterpret_cast<uint8_t*>(state + Bf16Bytes(in.K, in.V)));
     }},
    {"ReadState", FloatBytes,
     [](const StepInputs& in, std::byte* state, float* o,
        const std::byte* /*next*/) {
       ReadState({.K = in.K, .V = in.V, .q = in.q.data(), .o = o},
                 Floats(state));
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

std::span<const StepKernel> StepKernels() { return kStepKernels; }

size_t OutputFloats(size_t K, size_t V) { return std::max(V, 2 * K); }

}  // namespace steadystate::bench
