"""fla's own pure PyTorch recurrences in place of its kernels, in its models.

Beside its kernels the library keeps plain recurrences that its tests compare
the kernels with. Each function here has the arguments of a kernel that a
layer calls and hands them to the plain one; the library's layers and models
stay around it. So a case is judged a second time, by code that a reader can
follow.
"""

import from_fla
import fla.layers
from fla.modules.l2norm import l2norm
from fla.ops.delta_rule.naive import delta_rule_recurrence
from fla.ops.gated_delta_rule.gate import naive_gdn_gate
from fla.ops.gated_delta_rule.naive import naive_recurrent_gated_delta_rule
from fla.ops.generalized_delta_rule.dplr.naive import dplr_recurrence
from fla.ops.gla.naive import naive_recurrent_gla
from fla.ops.kda.gate import naive_kda_gate, naive_kda_lowerbound_gate
from fla.ops.kda.naive import naive_recurrent_kda
from fla.ops.linear_attn.naive import naive_recurrent_linear_attn
from fla.ops.retention.naive import naive_retention
from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6
from fla.ops.rwkv7.gate_output_correction import gate_output_correction_ref
from fla.ops.simple_gla.naive import naive_recurrent_simple_gla

from checkpoints import read_config

LIBRARY = from_fla.LIBRARY


fla.layers.rwkv7.gate_output_correction = gate_output_correction_ref


def heads_first(*tensors):
    """[B, T, H, ...] to [B, H, T, ...] and back."""
    return [x.transpose(1, 2) for x in tensors]


def linear_attn(q, k, v, normalize, **rest):
    return naive_recurrent_linear_attn(q, k, v, normalize=normalize)


def retention(q, k, v, **rest):
    return naive_retention(*heads_first(q, k, v)).transpose(1, 2), None


def gla(q, k, v, gk, **rest):
    return naive_recurrent_gla(q, k, v, gk)


def simple_gla(q, k, v, g, **rest):
    return naive_recurrent_simple_gla(q, k, v, g)


def rwkv6(r, k, v, w, u, scale, **rest):
    o, _ = naive_recurrent_rwkv6(*heads_first(r, k, v, w), u, scale)
    return o.transpose(1, 2), None


def rwkv7(r, w, k, v, kk, a, **rest):
    q = r * r.shape[-1]**0.5  # dplr_recurrence scales by its inverse
    q, k, v, alpha, beta, w = heads_first(q, k, v, -kk, kk * a, w)
    o, _ = dplr_recurrence(q, k, v, alpha, beta, w)
    return o.transpose(1, 2), None


def delta_rule(q, k, v, beta, use_qk_l2norm_in_kernel, **rest):
    if use_qk_l2norm_in_kernel:
        q, k = l2norm(q), l2norm(k)
    o, _ = delta_rule_recurrence(*heads_first(q, k, v, beta))
    return o.transpose(1, 2), None


def gated_delta_rule(q, k, v, g, beta, A_log, dt_bias, allow_neg_eigval, **rest):
    groups = v.shape[2] // q.shape[2]
    q, k = (l2norm(x).repeat_interleave(groups, dim=2) for x in (q, k))
    beta = beta.sigmoid() * (2 if allow_neg_eigval else 1)
    return naive_recurrent_gated_delta_rule(
        q, k, v, beta, naive_gdn_gate(g, A_log, dt_bias))


def kda(q, k, v, g, beta, A_log, dt_bias, lower_bound, allow_neg_eigval, **rest):
    if lower_bound is None:
        g = naive_kda_gate(g, A_log, dt_bias)
    else:
        g = naive_kda_lowerbound_gate(g, A_log, dt_bias, lower_bound)
    beta = beta.sigmoid() * (2 if allow_neg_eigval else 1)
    return naive_recurrent_kda(l2norm(q), l2norm(k), v, g, beta)


# model_type: (module of fla.layers, its kernel's name, the plain function's
# name, what stands between them).
MODELS = {
    "delta_net": ("delta_net", "fused_recurrent_delta_rule",
                  "delta_rule_recurrence", delta_rule),
    "gated_deltanet": ("gated_deltanet", "fused_recurrent_gated_delta_rule",
                       "naive_recurrent_gated_delta_rule", gated_delta_rule),
    "gla": ("gla", "fused_recurrent_gla", "naive_recurrent_gla", gla),
    "hgrn2": ("hgrn2", "fused_recurrent_gla", "naive_recurrent_gla", gla),
    "kda": ("kda", "fused_recurrent_kda", "naive_recurrent_kda", kda),
    "linear_attn": ("linear_attn", "fused_recurrent_linear_attn",
                    "naive_recurrent_linear_attn", linear_attn),
    "retnet": ("multiscale_retention", "fused_recurrent_retention",
               "naive_retention", retention),
    "rwkv6": ("rwkv6", "fused_recurrent_rwkv6", "naive_recurrent_rwkv6", rwkv6),
    "rwkv7": ("rwkv7", "fused_mul_recurrent_rwkv7", "dplr_recurrence", rwkv7),
    "simple_gla": ("simple_gla", "fused_recurrent_simple_gla",
                   "naive_recurrent_simple_gla", simple_gla),
}


def logits(folder, tokens):
    """(float64 [tokens, vocab], the name of the plain function).

    tokens: at most 64, or the library takes another kernel.
    """
    module, kernel, name, plain = MODELS[read_config(folder)["model_type"]]
    module = getattr(fla.layers, module)
    calls = []

    def counted(**arguments):
        calls.append(1)
        return plain(**arguments)

    original = getattr(module, kernel)
    setattr(module, kernel, counted)
    try:
        result = from_fla.run(from_fla.load(folder), tokens)
    finally:
        setattr(module, kernel, original)
    assert calls, f"{kernel} was not called"
    return result, name
