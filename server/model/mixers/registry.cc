#include "server/model/mixers/registry.h"

#include <algorithm>
#include <vector>

#include "server/model/mixers/delta_net.h"
#include "server/model/mixers/gated_deltanet.h"
#include "server/model/mixers/gla.h"
#include "server/model/mixers/kda.h"
#include "server/model/mixers/linear_attn.h"
#include "server/model/mixers/softmax_attention.h"

namespace steadystate {

std::span<const MixerFamily> MixerFamilies() {
  static const std::vector<MixerFamily> families = {
      {.model_type = "delta_net",
       .source = "delta_net.cc",
       .keys = DeltaNetKeys(),
       .make = MakeDeltaNet},
      {.model_type = "gated_deltanet",
       .source = "gated_deltanet.cc",
       .keys = GatedDeltanetKeys(),
       .defaults = {.layers = 21},
       .make = MakeGatedDeltanet},
      {.model_type = "gla",
       .source = "gla.cc",
       .keys = GlaKeys(),
       .make = MakeGla},
      {.model_type = "kda",
       .source = "kda.cc",
       .keys = KdaKeys(),
       .make = MakeKda},
      {.model_type = "linear_attn",
       .source = "linear_attn.cc",
       .keys = LinearAttnKeys(),
       .make = MakeLinearAttn},
      {.model_type = "transformer",
       .source = "softmax_attention.cc",
       .keys = SoftmaxAttentionKeys(),
       .all_softmax = true},
  };
  return families;
}

const MixerFamily* FindMixerFamily(absl::string_view model_type) {
  const std::span<const MixerFamily> families = MixerFamilies();
  const auto found =
      std::ranges::find(families, model_type, &MixerFamily::model_type);
  return found == families.end() ? nullptr : &*found;
}

}  // namespace steadystate
