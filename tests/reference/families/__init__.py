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
and, where it needs them,
  Model      in place of language_model.CausalLm
  model_tensors  model_tensors(case): random tensors of no single layer
  all_tensors    all_tensors(case): all random tensors, where Model has
             other names than CausalLm
"""

from families import (
    delta_net,
    gated_deltanet,
    gla,
    hgrn,
    hgrn2,
    kda,
    linear_attn,
    linear_recurrence,
    mamba,
    mamba2,
    retnet,
    rwkv6,
    rwkv7,
    simple_gla,
    transformer,
    xlstm,
)

FAMILIES = {
    "delta_net": delta_net,
    "gated_deltanet": gated_deltanet,
    "gla": gla,
    "hgrn": hgrn,
    "hgrn2": hgrn2,
    "kda": kda,
    "linear_attn": linear_attn,
    "linear_recurrence": linear_recurrence,
    "mamba": mamba,
    "mamba2": mamba2,
    "retnet": retnet,
    "rwkv6": rwkv6,
    "rwkv7": rwkv7,
    "simple_gla": simple_gla,
    "transformer": transformer,
    "xlstm": xlstm,
}
