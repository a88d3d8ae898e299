#ifndef STEADYSTATE_KERNELS_POINTWISE_ACTIVATION_H_
#define STEADYSTATE_KERNELS_POINTWISE_ACTIVATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace steadystate {

// Elementwise functions of the mechanisms. Formulas: fla's activation table,
// and PyTorch's for those that it does not have.
enum class Activation : uint8_t {
  kIdentity,
  kRelu,        // max(x, 0)
  kSigmoid,     // 1 / (1 + e^-x)
  kLogSigmoid,  // min(x, 0) - log1p(e^-|x|)
  kSilu,        // x sigmoid(x); also called swish
  kSqrelu,      // max(x, 0)^2
  kGeluTanh,    // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  kPowlu,       // x > 0: x^(3/(sqrt(x)+1)) sigmoid(x); else x sigmoid(x)
  kGelu,        // 0.5 x (1 + erf(x / sqrt(2)))
  kTanh,
  kExp,
  kSoftplus,    // x > 20: x; else log(1 + e^x)
  kEluPlusOne,  // x > 0: x + 1; else e^x
};

// The activation called `name` in a config.json of the fla library ("swish",
// "silu", "relu", "sigmoid", "logsigmoid", "sqrelu", "gelu", "powlu"), or
// nothing if there is none of that name. There "gelu" is kGeluTanh.
std::optional<Activation> ActivationFromName(std::string_view name);

// y[i] = act(x[i]).   x f32[n] in, y f32[n] out; y may be x.
void Activate(Activation act, size_t n, const float* x, float* y);

// y[i] = act(gate[i]) * up[i].   All f32[n]; y may be gate or up.
void ActivateAndMultiply(Activation act, size_t n, const float* gate,
                         const float* up, float* y);

// y[i] = cap tanh(x[i] / cap).   f32[n]; y may be x.
void SoftCap(size_t n, float cap, const float* x, float* y);

// y[i] += x[i].   f32[n]; x and y do not overlap.
void AddTo(size_t n, const float* x, float* y);

// True if no element of x f32[n] is NaN or infinite.
bool AllFinite(size_t n, const float* x);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_POINTWISE_ACTIVATION_H_
