#include "server/model/parts/heads.h"

#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/norm.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// How far from a whole number fla 0.6 lets a width be: math.isclose.
constexpr double kClose = 1e-9;

// The size of a dimension of a tensor, or 0.
size_t SizeOf(const WeightScope& weights, absl::string_view name,
              size_t dimension) {
  const std::optional<std::vector<size_t>> shape = weights.ShapeOf(name);
  return shape.has_value() && dimension < shape->size() ? (*shape)[dimension]
                                                        : 0;
}

// A width of `stored` where that is what fla 0.6 makes of `wanted`, else what
// fla does before: 100 times 0.29 is a little less than 29.
size_t WholeWidth(double wanted, size_t stored) {
  const double nearest = std::round(wanted);
  const bool rounded = nearest == static_cast<double>(stored) &&
                       std::abs(wanted - nearest) <= kClose * nearest;
  return static_cast<size_t>(rounded ? nearest : wanted);
}

}  // namespace

absl::StatusOr<HeadShape> ReadHeadShape(const MixerBuilder& from,
                                        const HeadShape::Defaults& defaults) {
  const Config& config = from.config;
  HeadShape s;
  s.D = from.hidden_size;
  STEADYSTATE_ASSIGN_OR_RETURN(
      s.H, config.Size("num_heads", defaults.num_heads, {1, 4096}));
  s.G = s.H;
  if (defaults.grouped) {
    STEADYSTATE_ASSIGN_OR_RETURN(s.G,
                                 config.Size("num_kv_heads", s.H, {1, 4096}));
  }
  if (s.H % s.G != 0) {
    return config.Invalid("num_kv_heads",
                          absl::StrCat("it must divide num_heads, ", s.H));
  }
  const auto head_width = [&](absl::string_view key, double fallback,
                              size_t stored) -> absl::StatusOr<size_t> {
    STEADYSTATE_ASSIGN_OR_RETURN(const double expand,
                                 config.Number(key, fallback, {0, 64}));
    const size_t width = WholeWidth(static_cast<double>(s.D) * expand, stored);
    if (width == 0 || width % s.H != 0) {
      return config.Invalid(
          key, absl::StrCat(
                   "hidden_size times it, as a whole number, is ", width,
                   ", which must be a positive multiple of num_heads, ", s.H));
    }
    return width / s.H;
  };
  STEADYSTATE_ASSIGN_OR_RETURN(
      s.K, head_width("expand_k", defaults.expand_k,
                      SizeOf(from.weights, defaults.query, 0)));
  STEADYSTATE_ASSIGN_OR_RETURN(
      s.V, head_width("expand_v", defaults.expand_v,
                      SizeOf(from.weights, "o_proj.weight", 1)));
  return s;
}

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
