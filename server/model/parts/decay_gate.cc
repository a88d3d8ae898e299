#include "server/model/parts/decay_gate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/decay.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"

namespace steadystate {
namespace {

// Runs of `size` values, each `times` times in a row.
std::vector<float> Repeated(const std::vector<float>& values, size_t size,
                            size_t times) {
  std::vector<float> repeated;
  for (auto run = values.begin(); run != values.end();
       run += static_cast<ptrdiff_t>(size)) {
    for (size_t i = 0; i < times; ++i) {
      repeated.insert(repeated.end(), run, run + static_cast<ptrdiff_t>(size));
    }
  }
  return repeated;
}

// y[i] = factor x[i].
void Multiply(size_t n, float factor, float* x) {
  for (size_t i = 0; i < n; ++i) x[i] *= factor;
}

}  // namespace

absl::StatusOr<std::vector<float>> TakeRates(
    const WeightScope& weights, absl::string_view name,
    std::initializer_list<size_t> shape) {
  STEADYSTATE_ASSIGN_OR_RETURN(std::vector<float> rates,
                               weights.TakeFloats(name, shape));
  for (float& rate : rates) {
    rate = std::min(std::exp(rate), std::numeric_limits<float>::max());
  }
  return rates;
}

std::vector<double> RetnetDecays(size_t heads) {
  std::vector<double> decays;
  for (size_t h = 0; h < heads; ++h) {
    decays.push_back(1 - std::exp2(-5 - static_cast<double>(h)));
  }
  return decays;
}

absl::StatusOr<SoftplusDecay> SoftplusDecay::Make(
    const MixerBuilder& builder, size_t heads, size_t factors,
    std::optional<double> lower_bound, size_t sharing) {
  SoftplusDecay decay;
  decay.factors_ = factors;
  if (lower_bound.has_value()) {
    decay.lower_bound_ = static_cast<float>(*lower_bound);
  }
  const size_t stored = heads / sharing;
  const auto shape = builder.weights.ShapeOf("A_log");
  const bool spread = shape.has_value() && shape->size() == 4;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::vector<float> rates,
      spread ? TakeRates(builder.weights, "A_log", {1, 1, stored, 1})
             : TakeRates(builder.weights, "A_log", {stored}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::vector<float> biases,
      builder.weights.TakeFloats("dt_bias", {stored * factors}));
  decay.rate_ = Repeated(rates, 1, sharing);
  decay.bias_ = Repeated(biases, factors, sharing);
  return decay;
}

void SoftplusDecay::Apply(float* x, float* low) const {
  const size_t n = bias_.size();
  if (!lower_bound_.has_value()) {
    ToSteps(x);
    Fade(x, x, low);
    return;
  }
  AddTo(n, bias_.data(), x);
  for (size_t head = 0; head < rate_.size(); ++head) {
    Multiply(factors_, rate_[head], x + head * factors_);
  }
  Activate(Activation::kSigmoid, n, x, x);
  Multiply(n, *lower_bound_, x);
  SplitDecay(n, x, x, low);
}

void SoftplusDecay::ToSteps(float* x) const {
  const size_t n = bias_.size();
  AddTo(n, bias_.data(), x);
  Activate(Activation::kSoftplus, n, x, x);
}

void SoftplusDecay::Fade(const float* steps, float* alpha, float* low) const {
  for (size_t head = 0; head < rate_.size(); ++head) {
    const size_t end = (head + 1) * factors_;
    for (size_t i = head * factors_; i < end; ++i) {
      alpha[i] = -rate_[head] * steps[i];
    }
  }
  SplitDecay(bias_.size(), alpha, alpha, low);
}

namespace {

using Constant = DecayOptions::Constant;
using Form = DecayOptions::Form;

constexpr absl::string_view kDecayKeys[] = {"kind", "values", "activation",
                                            "temperature"};
constexpr KeyTable kKeys = {
    .used = kDecayKeys, .inert = {}, .must_be_default = {}};

// "constant" is a scalar that does not depend on the token.
struct Kind {
  Decay decay = Decay::kNone;
  bool constant = false;
};
constexpr Choice<Kind> kKinds[] = {
    {"none", {Decay::kNone}},     {"constant", {Decay::kScalar, true}},
    {"scalar", {Decay::kScalar}}, {"key", {Decay::kKey}},
    {"value", {Decay::kValue}},   {"outer", {Decay::kOuter}},
    {"full", {Decay::kFull}},     {"key_complex", {Decay::kComplex}}};
constexpr Choice<Form> kForms[] = {{"sigmoid", Form::kSigmoid},
                                   {"exp_softplus", Form::kExpSoftplus},
                                   {"exp_exp", Form::kExpExp}};
constexpr Choice<Constant> kConstants[] = {
    {"retnet", Constant::kRetnet},
    {"lightning_fla", Constant::kLightningFla},
    {"lightning_minimax", Constant::kLightningMinimax}};

// True if there are gates that the activation makes decays.
bool HasActivation(const DecayOptions& options) {
  return options.kind != Decay::kNone && options.kind != Decay::kFull &&
         options.constant == Constant::kNone;
}

absl::Status ReadValues(const Config& decay, size_t heads,
                        DecayOptions& options) {
  if (!decay.Has("values")) {
    return decay.Invalid("values", "a constant decay needs it");
  }
  if (decay.String("values", "").ok()) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        options.constant, ReadChoice<Constant>(decay, "values", kConstants));
    return absl::OkStatus();
  }
  STEADYSTATE_ASSIGN_OR_RETURN(auto values,
                               decay.NumberList("values", {0, 1}, heads));
  options.constant = Constant::kListed;
  options.values = std::move(values).value_or(std::vector<double>());
  if (options.values.size() != heads) {
    return decay.Invalid(
        "values",
        absl::StrCat("it must have one number for each of num_heads, ", heads));
  }
  return absl::OkStatus();
}

absl::Status ReadActivation(const Config& decay, DecayOptions& options) {
  STEADYSTATE_ASSIGN_OR_RETURN(options.form,
                               ReadChoice<Form>(decay, "activation", kForms));
  STEADYSTATE_ASSIGN_OR_RETURN(options.temperature,
                               decay.Number("temperature", 1, {1e-6, 1e6}));
  if (!HasActivation(options) && options.form != Form::kSigmoid) {
    return decay.Unsupported("activation",
                             "decays of this kind have no activation");
  }
  if (options.form == Form::kExpSoftplus && options.kind != Decay::kScalar) {
    return decay.Unsupported("activation",
                             "it is defined for decays of kind \"scalar\"");
  }
  const bool sigmoid = HasActivation(options) && options.form == Form::kSigmoid;
  if (!sigmoid && options.temperature != 1) {
    return decay.Unsupported("temperature",
                             "it belongs to the activation \"sigmoid\"");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DecayOptions> ReadDecayOptions(
    const Config& config, size_t heads, std::vector<std::string>* warnings) {
  DecayOptions options;
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Config> objects,
                               config.Objects("decay", 1));
  if (objects.empty()) return options;
  const Config& decay = objects.front();
  if (warnings != nullptr) {
    STEADYSTATE_RETURN_IF_ERROR(decay.CheckKeys({&kKeys, 1}, *warnings));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const Kind kind,
                               ReadChoice<Kind>(decay, "kind", kKinds));
  options.kind = kind.decay;
  if (kind.constant) {
    STEADYSTATE_RETURN_IF_ERROR(ReadValues(decay, heads, options));
  } else if (decay.Has("values")) {
    return decay.Unsupported("values",
                             "it belongs to decays of kind \"constant\"");
  }
  STEADYSTATE_RETURN_IF_ERROR(ReadActivation(decay, options));
  return options;
}

absl::StatusOr<DecayGate> DecayGate::Make(const MixerBuilder& from,
                                          DecayOptions options, size_t heads,
                                          size_t K, size_t V,
                                          ProjectionStack& stack,
                                          RowScratchPlan& plan) {
  DecayGate gate;
  gate.options_ = std::move(options);
  gate.H_ = heads;
  gate.K_ = K;
  gate.V_ = V;
  const Decay kind = gate.options_.kind;
  if (gate.options_.constant != Constant::kNone) {
    gate.SetConstants(from);
    return gate;
  }
  if (kind == Decay::kScalar) {
    gate.key_.size = heads;
    STEADYSTATE_ASSIGN_OR_RETURN(gate.key_.column,
                                 stack.Add("decay_proj", heads, Bias::kYes));
  }
  if (kind == Decay::kKey || kind == Decay::kOuter || kind == Decay::kComplex) {
    gate.key_.size = heads * K;
    STEADYSTATE_RETURN_IF_ERROR(gate.AddKeyProjection(from, stack));
  }
  if (kind == Decay::kValue || kind == Decay::kOuter || kind == Decay::kFull) {
    gate.value_.size = heads * V;
    STEADYSTATE_ASSIGN_OR_RETURN(
        gate.value_.column, stack.Add("decay_v_proj", heads * V, Bias::kYes));
  }
  if (kind == Decay::kComplex) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        gate.phase_, stack.Add("decay_phase_proj", heads * K, Bias::kYes));
  }
  STEADYSTATE_RETURN_IF_ERROR(gate.TakeFactors(from));
  if (gate.low_rank_.up != nullptr) gate.expanded_ = plan.Add(gate.key_.size);
  gate.low_ = plan.Add(gate.low_floats());
  return gate;
}

absl::Status DecayGate::AddKeyProjection(const MixerBuilder& from,
                                         ProjectionStack& stack) {
  const WeightScope& weights = from.weights;
  const bool low_rank = !weights.Has("decay_k_proj.weight") &&
                        (weights.Has("decay_k_proj.0.weight") ||
                         weights.Has("decay_k_proj.1.weight"));
  if (!low_rank) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        key_.column, stack.Add("decay_k_proj", key_.size, Bias::kYes));
    return absl::OkStatus();
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      low_rank_, TakeLowRank(from, "decay_k_proj.0", "decay_k_proj.1",
                             {1, key_.size}, Bias::kYes, stack));
  return absl::OkStatus();
}

absl::Status DecayGate::TakeFactors(const MixerBuilder& from) {
  if (options_.kind == Decay::kFull) {
    activation_ = Activation::kSoftplus;
    return absl::OkStatus();
  }
  float factor = 0;
  switch (options_.form) {
    case Form::kSigmoid:
      activation_ = Activation::kLogSigmoid;
      factor = static_cast<float>(1 / options_.temperature);
      break;
    case Form::kExpExp:
      activation_ = Activation::kExp;
      factor = -1;
      break;
    case Form::kExpSoftplus:
      activation_ = Activation::kSoftplus;
      STEADYSTATE_ASSIGN_OR_RETURN(key_.factors,
                                   TakeRates(from.weights, "decay_a", {H_}));
      for (float& rate : key_.factors) rate = -rate;
      return absl::OkStatus();
  }
  key_.factors.assign(key_.size, factor);
  value_.factors.assign(value_.size, factor);
  return absl::OkStatus();
}

void DecayGate::SetConstants(const MixerBuilder& from) {
  if (options_.constant == Constant::kRetnet) {
    constants_ = RetnetDecays(H_);
    return;
  }
  const auto H = static_cast<double>(H_);
  const auto n = static_cast<double>(from.layer);
  const auto L = static_cast<double>(from.layers);
  for (size_t head = 0; head < H_; ++head) {
    const auto h = static_cast<double>(head);
    double decay = 1;
    switch (options_.constant) {
      case Constant::kNone:
      case Constant::kRetnet:
        break;
      case Constant::kListed:
        decay = options_.values[head];
        break;
      case Constant::kLightningFla:
        decay = std::exp(-(8 / H) * (1 - n / L) * h);
        break;
      case Constant::kLightningMinimax:
        decay = std::exp(-std::exp2(-8 * (h + 1) / H) *
                         (1 - n / (L - 1 + 1e-5) + 1e-5));
        break;
    }
    constants_.push_back(decay);
  }
}

void DecayGate::ToLog(const Axis& axis, float* gates) const {
  ActivateAndMultiply(activation_, axis.size, gates, axis.factors.data(),
                      gates);
}

DecayGate::Decays DecayGate::Run(size_t rows, float* fused, size_t stride,
                                 float* rest,
                                 Workspace::Buffers& buffers) const {
  Decays decays;
  if (!constants_.empty()) return decays;
  float* key = fused + key_.column;
  size_t key_stride = stride;
  const RowScratch scratch = buffers.OfRows(rows);
  float* low = scratch[low_];
  if (low_rank_.up != nullptr) {
    key = scratch[expanded_];
    key_stride = key_.size;
    low_rank_.Expand(rows, fused, stride, key, key_stride, buffers);
  }
  const size_t low_stride = low_floats();
  buffers.ForRows(rows, 2 * (key_.size + value_.size), [&](size_t row, size_t) {
    float* alpha = key + row * key_stride;
    float* beta = fused + row * stride + value_.column;
    float* alpha_low = low + row * low_stride;
    float* beta_low = alpha_low + key_.size;
    if (key_.size > 0) {
      ToLog(key_, alpha);
      if (rest != nullptr) {
        RestOfLogDecay(key_.size, alpha, rest + row * key_.size);
      }
    }
    if (options_.kind == Decay::kComplex) {
      float* phase = fused + row * stride + phase_;
      PolarDecay(key_.size, alpha, phase, alpha, alpha_low, phase, beta_low);
    } else {
      SplitDecay(key_.size, alpha, alpha, alpha_low);
    }
    if (options_.kind == Decay::kFull) {
      Activate(activation_, value_.size, beta, beta);
    } else if (value_.size > 0) {
      ToLog(value_, beta);
      SplitDecay(value_.size, beta, beta, beta_low);
    }
  });
  decays.alpha = {key, key_stride, key_.size / H_};
  decays.beta = {fused + value_.column, stride, V_};
  if (options_.kind == Decay::kComplex) {
    decays.beta = {fused + phase_, stride, K_};
  }
  decays.alpha_low = {low, low_stride, decays.alpha.head_stride};
  decays.beta_low = {low + key_.size, low_stride, decays.beta.head_stride};
  return decays;
}

}  // namespace steadystate
