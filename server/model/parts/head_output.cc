#include "server/model/parts/head_output.h"

#include "kernels/pointwise/norm.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// The part of f32[V] or f32[H V] that belongs to a head; null if it is empty.
const float* OfHead(const std::vector<float>& values, size_t V, size_t head) {
  if (values.empty()) return nullptr;
  return values.data() + (values.size() == V ? 0 : head * V);
}

}  // namespace

void HeadOutput::Apply(float* o, const float* gates) const {
  if (gate.has_value() && gate_first) {
    ActivateAndMultiply(*gate, heads * V, gates, o, o);
  }
  for (size_t head = 0; head < heads; ++head) {
    float* y = o + head * V;
    const float* w = OfHead(weight, V, head);
    switch (norm) {
      case NormKind::kNone:
        break;
      case NormKind::kRms:
        RmsNorm(V, y, w, eps, y);
        break;
      case NormKind::kLayer:
        LayerNorm(V, y, w, OfHead(bias, V, head), eps, y);
        break;
    }
  }
  if (gate.has_value() && !gate_first) {
    ActivateAndMultiply(*gate, heads * V, gates, o, o);
  }
}

absl::StatusOr<HeadOutput> MakeGatedNorm(const MixerBuilder& from, size_t heads,
                                         size_t V,
                                         std::optional<Activation> act) {
  HeadOutput output = {
      .heads = heads, .V = V, .eps = from.norm_eps, .gate = act};
  STEADYSTATE_ASSIGN_OR_RETURN(const bool affine,
                               from.config.Bool("elementwise_affine", true));
  if (affine) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        output.weight, from.weights.TakeFloatsOfEither(
                           "g_norm_swish_gate.weight", "g_norm.weight", {V}));
  }
  return output;
}

}  // namespace steadystate
