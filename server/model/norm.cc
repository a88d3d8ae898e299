#include "server/model/norm.h"

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/norm.h"
#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<Norm> Norm::Make(const NormStyle& style,
                                const WeightScope& weights,
                                absl::string_view name, size_t size) {
  Norm norm;
  norm.style_ = style;
  STEADYSTATE_ASSIGN_OR_RETURN(
      norm.weight_, weights.TakeFloats(absl::StrCat(name, ".weight"), {size}));
  if (style.zero_centred) {
    for (float& weight : norm.weight_) weight += 1;
  }
  if (style.bias) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        norm.bias_, weights.TakeFloats(absl::StrCat(name, ".bias"), {size}));
  }
  return norm;
}

void Norm::Apply(const float* x, float* y) const {
  if (style_.kind == NormStyle::Kind::kRms) {
    RmsNorm(size(), x, weight_.data(), style_.eps, y);
    if (!bias_.empty()) AddTo(size(), bias_.data(), y);
  } else {
    LayerNorm(size(), x, weight_.data(), bias_.empty() ? nullptr : bias_.data(),
              style_.eps, y);
  }
}

}  // namespace steadystate
