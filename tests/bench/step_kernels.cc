#include "tests/bench/step_kernels.h"

#include "kernels/recurrence/bonus_decay.h"
#include "kernels/recurrence/complex_key_decay.h"
#include "kernels/recurrence/full_decay.h"
#include "kernels/recurrence/growing_sum.h"
#include "kernels/recurrence/key_decay.h"
#include "kernels/recurrence/outer_decay.h"
#include "kernels/recurrence/rank_one_decay.h"

namespace steadystate::bench {
namespace {

// Decays, so that states neither vanish nor overflow however long it takes.
constexpr float kDecay = 0.99f;
constexpr float kSmall = 0.01f;

constexpr StepKernel kKernels[] = {
    {"KeyDecay", 1,
     [](const StepInputs& in, float* state, float* o) {
       KeyDecayStep(in.K, in.V, 1.0f, in.decay_k.data(), in.q.data(),
                    in.k.data(), in.v.data(), state, o);
     }},
    {"OuterDecay", 1,
     [](const StepInputs& in, float* state, float* o) {
       OuterDecayStep(in.K, in.V, 1.0f, in.decay_k.data(), in.decay_v.data(),
                      in.q.data(), in.k.data(), in.v.data(), state, o);
     }},
    {"FullDecay", 1,
     [](const StepInputs& in, float* state, float* o) {
       FullDecayStep(in.K, in.V, 1.0f, in.rate.data(), in.small_v.data(),
                     in.q.data(), in.k.data(), in.v.data(), state, o);
     }},
    {"ComplexKeyDecay", 2,
     [](const StepInputs& in, float* state, float* o) {
       ComplexKeyDecayStep(in.K, in.V, 1.0f, in.decay_k.data(),
                           in.small_k.data(), in.q.data(), in.k.data(),
                           in.v.data(), state, o);
     }},
    {"BonusDecay", 1,
     [](const StepInputs& in, float* state, float* o) {
       BonusDecayStep(in.K, in.V, in.decay_k.data(), in.q.data(), in.q.data(),
                      in.k.data(), in.v.data(), state, o);
     }},
    {"RankOneDecay", 1,
     [](const StepInputs& in, float* state, float* o) {
       RankOneDecayStep(in.K, in.V, 1.0f, in.decay_k.data(), in.small_k.data(),
                        in.minus_k.data(), in.q.data(), in.k.data(),
                        in.v.data(), state, o);
     }},
    {"GrowingSum", 2,
     [](const StepInputs& in, float* state, float* o) {
       GrowingSumStep(in.K, in.V, 1.0f, in.decay_f64.data(), in.q.data(),
                      in.k.data(), in.v.data(),
                      reinterpret_cast<double*>(state), o);
     }},
};

}  // namespace

StepInputs::StepInputs(size_t key_width, size_t value_width)
    : K(key_width),
      V(value_width),
      decay_k(K, kDecay),
      small_k(K, kSmall),
      minus_k(K, -kSmall),
      q(K, 0.5f),
      k(K, 0.25f),
      decay_v(V, kDecay),
      small_v(V, kSmall),
      v(V, 0.125f),
      rate(K * V, 1.0f),
      decay_f64(K, static_cast<double>(kDecay)) {}

std::span<const StepKernel> StepKernels() { return kKernels; }

}  // namespace steadystate::bench
