#ifndef STEADYSTATE_SERVER_MODEL_PARTS_DECAY_GATE_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_DECAY_GATE_H_

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/pointwise/activation.h"
#include "server/checkpoint/config.h"
#include "server/checkpoint/weight_store.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/gated_recurrence.h"
#include "server/model/parts/heads.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {

// Rates of decays: the exponentials of a tensor, no larger than a float can be,
// so that a rate times a step of 0 is 0. Errors as WeightStore::Take.
absl::StatusOr<std::vector<float>> TakeRates(
    const WeightScope& weights, absl::string_view name,
    std::initializer_list<size_t> shape);

// RetNet's decays (Sun et al. 2023): 1 - 2^(-5-h) in head h.
std::vector<double> RetnetDecays(size_t heads);

// The decay of the gated delta rules and of Mamba-2, with a rate per head and a
// bias per factor:
//   log alpha = -exp(A_log) softplus(x + dt_bias), or
//   log alpha = lower_bound sigmoid(exp(A_log) (x + dt_bias)),
// fla's "safe gate", whose alpha is not below exp(lower_bound). Immutable;
// thread-safe.
class SoftplusDecay {
 public:
  SoftplusDecay() = default;

  // Pulls `A_log`, [heads] or [1, 1, heads, 1], and `dt_bias`, [heads factors],
  // with so many
  // factors for each head. `lower_bound` is below 0, or nothing. If `sharing`
  // heads in a row have the same rate and biases, a divisor of heads, they are
  // stored once for those. Errors as WeightStore::Take.
  static absl::StatusOr<SoftplusDecay> Make(
      const MixerBuilder& builder, size_t heads, size_t factors,
      std::optional<double> lower_bound = std::nullopt, size_t sharing = 1);

  // alpha of one row, in place, and what it lacks, as SplitDecay has it.
  //   x    f32[heads, factors]  in/out
  //   low  f32[heads, factors]  out
  void Apply(float* x, float* low) const;

  // Apply without a lower bound, in two parts, for callers that need the steps:
  //   step = softplus(x + dt_bias),   log alpha = -exp(A_log) step.
  //   x             f32[heads, factors]  in/out
  //   steps         f32[heads, factors]  in
  //   alpha, low    f32[heads, factors]  out; alpha may be steps
  void ToSteps(float* x) const;
  void Fade(const float* steps, float* alpha, float* low) const;

 private:
  size_t factors_ = 0;  // of a head
  std::optional<float> lower_bound_;
  std::vector<float> rate_;  // f32[heads], exp(A_log)
  std::vector<float> bias_;  // f32[heads, factors]
};

// What the object `decay` of a linear_recurrence says.
struct DecayOptions {
  // How gates become decays.
  enum class Form : uint8_t {
    kSigmoid,      // sigmoid(y)^(1/temperature)
    kExpSoftplus,  // exp(-softplus(y) exp(a_h)), a_h a tensor: Mamba-2
    kExpExp,       // exp(-exp(y)): RWKV-6
  };
  // Decays that do not depend on the tokens.
  enum class Constant : uint8_t {
    kNone,              // they do
    kListed,            // `values`
    kRetnet,            // 1 - 2^(-5-h)
    kLightningFla,      // log g = -(8/H) (1 - n/L) h in layer n of L
    kLightningMinimax,  // log g = -2^(-8(h+1)/H) (1 - n/(L-1+1e-5) + 1e-5)
  };
  Decay kind = Decay::kNone;
  Constant constant = Constant::kNone;
  std::vector<double> values{};  // of kListed, one a head
  Form form = Form::kSigmoid;
  double temperature = 1;
};

// Reads `decay` for so many heads; absent: no decay. Keys of it that are
// unknown go to `warnings`, unless null. Errors name the key.
absl::StatusOr<DecayOptions> ReadDecayOptions(
    const Config& config, size_t heads, std::vector<std::string>* warnings);

// The decays of a GatedRecurrence, computed from the layer's input as the
// options say. Immutable; thread-safe.
class DecayGate {
 public:
  // Of what a GatedRecurrence takes.
  struct Decays {
    HeadRows alpha{};
    HeadRows beta{};
    HeadRows alpha_low{};
    HeadRows beta_low{};
  };

  DecayGate() = default;

  // Pulls decay_proj, decay_k_proj (or decay_k_proj.0 and .1, low rank),
  // decay_v_proj, decay_phase_proj and decay_a, as many as the kind needs, and
  // adds the projections of the layer's input to `stack` and what is
  // computed from them to `plan`.
  static absl::StatusOr<DecayGate> Make(const MixerBuilder& from,
                                        DecayOptions options, size_t heads,
                                        size_t K, size_t V,
                                        ProjectionStack& stack,
                                        RowScratchPlan& plan);

  // The factors of "constant", one a head, which GatedRecurrence takes once for
  // all; empty for decays that depend on the token.
  const std::vector<double>& constants() const { return constants_; }

  // Turns the projections into decays, in place where they lie.
  //   fused  f32[rows, columns; stride]  in/out: what `stack` computes
  //   rest   f32[rows, H K]              out: 1 - alpha, unless null. Only
  //                                      of Decay::kKey
  Decays Run(size_t rows, float* fused, size_t stride, float* rest,
             Workspace::Buffers& buffers) const;

 private:
  // The gates of one axis.
  struct Axis {
    size_t column = 0;  // of the fused projection
    size_t size = 0;    // of all heads; 0: the kind has no such gates
    // f32[size]: log decay = factor * activation(gate).
    std::vector<float> factors{};
  };

  absl::Status AddKeyProjection(const MixerBuilder& from,
                                ProjectionStack& stack);
  absl::Status TakeFactors(const MixerBuilder& from);
  void SetConstants(const MixerBuilder& from);
  void ToLog(const Axis& axis, float* gates) const;
  // Of a row, for what the decays of both axes lack.
  size_t low_floats() const {
    return key_.size +
           (options_.kind == Decay::kComplex ? key_.size : value_.size);
  }

  DecayOptions options_;
  size_t H_ = 0, K_ = 0, V_ = 0;
  Activation activation_ = Activation::kLogSigmoid;
  Axis key_;           // kScalar: one gate a head
  Axis value_;         // kFull: no factors, the steps are the activated gates
  size_t phase_ = 0;   // column, kComplex
  LowRank low_rank_;   // of the key's gates, if they are of low rank
  RowSlice expanded_;  // H K, with a low rank
  RowSlice low_;       // low_floats()
  std::vector<double> constants_;  // f64[H], "constant" only
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_DECAY_GATE_H_
