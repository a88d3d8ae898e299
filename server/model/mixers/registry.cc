#include "server/model/mixers/registry.h"

#include <algorithm>
#include <vector>

#include "server/model/mixers/delta_net.h"
#include "server/model/mixers/gated_deltanet.h"
#include "server/model/mixers/gla.h"
#include "server/model/mixers/hgrn.h"
#include "server/model/mixers/hgrn2.h"
#include "server/model/mixers/kda.h"
#include "server/model/mixers/linear_attn.h"
#include "server/model/mixers/linear_recurrence.h"
#include "server/model/mixers/mamba.h"
#include "server/model/mixers/mamba2.h"
#include "server/model/mixers/retnet.h"
#include "server/model/mixers/rwkv6.h"
#include "server/model/mixers/rwkv7.h"
#include "server/model/mixers/simple_gla.h"
#include "server/model/mixers/softmax_attention.h"
#include "server/model/mixers/xlstm.h"
#include "server/model/parts/mamba_layer.h"
#include "server/model/parts/rwkv_layer.h"

namespace steadystate {
namespace {

using Families = std::vector<MixerFamily>;

// Sums over the past, plain or fading, and the softmax beside them.
Families SumsAndDecays() {
  return {
      {.model_type = "gla",
       .source = "gla.cc",
       .keys = GlaKeys(),
       .bf16_states = true,
       .make = MakeGla},
      {.model_type = "hgrn",
       .source = "hgrn.cc",
       .keys = HgrnKeys(),
       .make = MakeHgrn},
      {.model_type = "hgrn2",
       .source = "hgrn2.cc",
       .keys = Hgrn2Keys(),
       .make = MakeHgrn2},
      {.model_type = "linear_attn",
       .source = "linear_attn.cc",
       .keys = LinearAttnKeys(),
       .read_config = ReadLinearAttnConfig,
       .make = MakeLinearAttn},
      {.model_type = "linear_recurrence",
       .source = "linear_recurrence.cc",
       .keys = LinearRecurrenceKeys(),
       .read_config = ReadLinearRecurrenceConfig,
       .make = MakeLinearRecurrence},
      {.model_type = "retnet",
       .source = "retnet.cc",
       .keys = RetnetKeys(),
       .defaults = {.hidden_ratio = 2},
       .read_config = ReadRetnetConfig,
       .make = MakeRetnet},
      {.model_type = "simple_gla",
       .source = "simple_gla.cc",
       .keys = SimpleGlaKeys(),
       .bf16_states = true,
       .make = MakeSimpleGla},
      {.model_type = "transformer",
       .source = "softmax_attention.cc",
       .keys = SoftmaxAttentionKeys(),
       .all_softmax = true},
  };
}

Families DeltaRules() {
  return {
      {.model_type = "delta_net",
       .source = "delta_net.cc",
       .keys = DeltaNetKeys(),
       .read_config = ReadDeltaNetConfig,
       .make = MakeDeltaNet},
      {.model_type = "gated_deltanet",
       .source = "gated_deltanet.cc",
       .keys = GatedDeltanetKeys(),
       .defaults = {.layers = 21},
       .make = MakeGatedDeltanet},
      {.model_type = "kda",
       .source = "kda.cc",
       .keys = KdaKeys(),
       .make = MakeKda},
  };
}

Families Rwkv() {
  return {
      {.model_type = "rwkv6",
       .source = "rwkv6.cc",
       .keys = Rwkv6Keys(),
       .frame = {.norm = NormStyle::Kind::kLayer},
       .defaults = {.norm_eps = 1e-5, .hidden_ratio = 3.5},
       .read_config = ReadRwkvConfig,
       .make = MakeRwkv6,
       .make_layer = MakeRwkv6Layer},
      {.model_type = "rwkv7",
       .source = "rwkv7.cc",
       .keys = Rwkv7Keys(),
       .frame = {.norm = NormStyle::Kind::kLayer},
       .defaults = {.norm_eps = 1e-5, .hidden_ratio = 4},
       .read_config = ReadRwkv7Config,
       .make = MakeRwkv7,
       .make_layer = MakeRwkv7Layer},
  };
}

// Families with frames and defaults of their own.
Families StateSpaceAndXlstm() {
  return {
      {.model_type = "mamba",
       .source = "mamba.cc",
       .keys = MambaKeys(),
       .frame = MambaFrame(),
       .read_defaults = MambaDefaults,
       .hybrid = false,
       .bf16_states = true,
       .make = MakeMamba,
       .make_layer = MakeMambaLayer},
      {.model_type = "mamba2",
       .source = "mamba2.cc",
       .keys = Mamba2Keys(),
       .frame = MambaFrame(),
       .read_defaults = Mamba2Defaults,
       .hybrid = false,
       .read_config = ReadMamba2Config,
       .make = MakeMamba2,
       .make_layer = MakeMambaLayer},
      {.model_type = "xlstm",
       .source = "xlstm.cc",
       .keys = XlstmKeys(),
       .frame = XlstmFrame(),
       .read_defaults = XlstmDefaults,
       .hybrid = false,
       .read_config = ReadXlstmConfig,
       .make_layer = MakeXlstmLayer},
  };
}

// All of them, by name.
Families AllFamilies() {
  Families all;
  for (const Families& some :
       {SumsAndDecays(), DeltaRules(), Rwkv(), StateSpaceAndXlstm()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  std::ranges::sort(all, {}, &MixerFamily::model_type);
  return all;
}

}  // namespace

std::span<const MixerFamily> MixerFamilies() {
  static const Families families = AllFamilies();
  return families;
}

const MixerFamily* FindMixerFamily(absl::string_view model_type) {
  const std::span<const MixerFamily> families = MixerFamilies();
  const auto found =
      std::ranges::find(families, model_type, &MixerFamily::model_type);
  return found == families.end() ? nullptr : &*found;
}

}  // namespace steadystate
