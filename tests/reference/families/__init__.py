"""Families by model_type. A new one: its module and a row of this table.

A module has
  DEFAULTS   values of config keys that are absent or null, where they differ
             from, or add to, language_model.DEFAULTS
  Mixer      class Mixer(Layer): Mixer(model, n, prefix) of layer n,
             step(x, position) -> y, one token at a time; with a bidirectional
             pass also absorb(x, position), read(x, position) -> y and
             order_matters() -> bool
  tensors    tensors(case, n, p): random tensors of that mixer, names below
             the prefix p; see cases.Case
  CASES      {name of a golden case: (config values beside cases.BASE,
             options of storage)}
or, with layers of several kinds, in place of Mixer and tensors
  KINDS      {kind: (prefix of the mixer's tensors, Mixer, tensors)}
  layer_types  layer_types(config): the kind of each layer
and, where it needs them,
  respell    respell(values): config values without aliases of keys
  mlp_width  mlp_width(config) in place of language_model's
  channel_tensors  channel_tensors(case, n, p): those of what mixes the
             channels of layer n, where that is no MLP; Model has its make_mlp
  Model      in place of language_model.CausalLm
  model_tensors  model_tensors(case): random tensors of no single layer
  all_tensors    all_tensors(case): all random tensors, where Model has
             other names than CausalLm
"""

from families import (
    bailing_hybrid,
    bamba,
    delta_net,
    falcon_h1,
    falcon_mamba,
    gated_deltanet,
    gla,
    granitemoehybrid,
    hgrn,
    hgrn2,
    jamba,
    kda,
    kimi_linear,
    lfm2,
    lfm2_moe,
    lfm3,
    linear_attn,
    linear_recurrence,
    mamba,
    mamba2,
    nemotron_h,
    olmo_hybrid,
    qwen3_5,
    qwen3_5_moe,
    qwen3_next,
    recurrent_gemma,
    retnet,
    rwkv6,
    rwkv7,
    simple_gla,
    transformer,
    xlstm,
)

FAMILIES = {
    "bailing_hybrid": bailing_hybrid,
    "bamba": bamba,
    "delta_net": delta_net,
    "falcon_h1": falcon_h1,
    "falcon_mamba": falcon_mamba,
    "gated_deltanet": gated_deltanet,
    "gla": gla,
    "granitemoehybrid": granitemoehybrid,
    "hgrn": hgrn,
    "hgrn2": hgrn2,
    "jamba": jamba,
    "kda": kda,
    "kimi_linear": kimi_linear,
    "lfm2": lfm2,
    "lfm2_moe": lfm2_moe,
    "lfm3": lfm3,
    "linear_attn": linear_attn,
    "linear_recurrence": linear_recurrence,
    "mamba": mamba,
    "mamba2": mamba2,
    "nemotron_h": nemotron_h,
    "olmo_hybrid": olmo_hybrid,
    "qwen3_5": qwen3_5,
    "qwen3_5_moe": qwen3_5_moe,
    "qwen3_next": qwen3_next,
    "recurrent_gemma": recurrent_gemma,
    "retnet": retnet,
    "rwkv6": rwkv6,
    "rwkv7": rwkv7,
    "simple_gla": simple_gla,
    "transformer": transformer,
    "xlstm": xlstm,
}

# Other names of them.
ALIASES = {"qwen3_5_moe_text": "qwen3_5_moe", "qwen3_5_text": "qwen3_5"}


def family_of(model_type):
    return FAMILIES[ALIASES.get(model_type, model_type)]
