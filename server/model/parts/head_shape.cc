#include "server/model/parts/head_shape.h"

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"

namespace steadystate {

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
  const auto head_width = [&](absl::string_view key,
                              double fallback) -> absl::StatusOr<size_t> {
    STEADYSTATE_ASSIGN_OR_RETURN(const double expand,
                                 config.Number(key, fallback, {0, 64}));
    const auto width = static_cast<size_t>(static_cast<double>(s.D) * expand);
    if (width == 0 || width % s.H != 0) {
      return config.Invalid(
          key, absl::StrCat(
                   "hidden_size times it, rounded down, is ", width,
                   ", which must be a positive multiple of num_heads, ", s.H));
    }
    return width / s.H;
  };
  STEADYSTATE_ASSIGN_OR_RETURN(s.K, head_width("expand_k", defaults.expand_k));
  STEADYSTATE_ASSIGN_OR_RETURN(s.V, head_width("expand_v", defaults.expand_v));
  return s;
}

}  // namespace steadystate
