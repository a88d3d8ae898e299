"""Plain recurrences of the libraries against those of the reference.

No library has `linear_recurrence` whole, nor models of some feature maps of
`linear_attn`; each has some of the rows as a function of q, k, v and a decay.
The reference gets the same random numbers: its input is all of them side by
side, and its projections pick them out.

Where no library has a feature map, fast-transformers' recurrence gets the map
as a function of two lines, from its publication.
"""

import functools
import os
import sys
import types

import numpy as np
import torch

import interpreter  # noqa: F401  before fla
import from_mamba_ssm  # noqa: F401  what mamba_ssm needs on a CPU
from fast_transformers.attention import CausalLinearAttention
from fast_transformers.feature_maps import (ActivationFunctionFeatureMap,
                                            Favor)
from fast_transformers.masking import LengthMask, TriangularCausalMask
from fast_transformers.recurrent.attention import RecurrentLinearAttention
from fla.modules.feature_map import TaylorFeatureMap
from fla.ops.gla.naive import naive_recurrent_gla
from fla.ops.lightning_attn import fused_recurrent_lightning_attn
from fla.ops.linear_attn.naive import naive_recurrent_linear_attn
from fla.ops.retention.naive import naive_retention
from fla.ops.simple_gla.naive import naive_recurrent_simple_gla
from mamba_ssm.ops.selective_scan_interface import selective_scan_ref
from transformers.models.minimax.modeling_minimax import (
    MiniMaxConfig, MiniMaxLightningAttention)

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

from families import linear_attn, linear_recurrence  # noqa: E402
from layer import Config  # noqa: E402
from tensor_file import exact  # noqa: E402

H, K, V, T = 3, 5, 7, 40
FEATURES = 6  # rows of a map's matrix
LAYER, LAYERS = 1, 4

# A part of the input and the tensor that picks it out.
PROJECTIONS = {"q": "q_proj.weight", "k": "k_proj.weight", "v": "v_proj.weight",
               "scalar": "decay_proj.weight", "key": "decay_k_proj.weight",
               "value": "decay_v_proj.weight"}


class Inputs:
    """Random numbers [T, H, n] by part, the same for both sides."""

    def __init__(self, seed, heads=H):
        random = np.random.default_rng(seed)
        widths = {"q": K, "k": K, "v": V, "scalar": 1, "key": K, "value": V}
        self.parts = {part: random.normal(size=(T, heads, width))
                      for part, width in widths.items()}
        self.A_log = random.normal(size=(heads, K, V))
        self.W = random.normal(size=(FEATURES, K))

    def torch(self, part):
        """float64 [1, T, H, n]."""
        return torch.tensor(self.parts[part])[None]

    def reference(self, options):
        """float64 [T, H, V]: the reference's o for these keys of config."""
        family = linear_recurrence if "decay" in options else linear_attn
        heads = self.parts["q"].shape[1]
        rows = np.concatenate(
            [x.reshape(T, -1) for x in self.parts.values()], axis=1)
        tensors = {"A_log": self.A_log,
                   **self.map_tensors(options.get("feature_map"))}
        begin = 0
        for part, x in self.parts.items():
            width = x[0].size
            tensors[PROJECTIONS[part]] = np.eye(rows.shape[1])[
                begin:begin + width]
            begin += width
        tensors["o_proj.weight"] = np.eye(heads * V)
        values = {"num_heads": heads, "head_k_dim": K, "head_v_dim": V,
                  "num_hidden_layers": LAYERS, **options,
                  # linear_attn has the widths of heads by these.
                  "hidden_size": heads * K, "expand_v": V / K}
        model = types.SimpleNamespace(
            config=Config(values, family.DEFAULTS),
            tensors=tensors, rounded=exact)
        mixer = family.Mixer(model, LAYER, "")
        return np.stack([mixer.step(x, t) for t, x in enumerate(rows)]).reshape(
            T, heads, V)


    def map_tensors(self, feature_map):
        """W, by the names that this map has for it."""
        if feature_map == "performer":  # the library's has w and -w
            return {"feature_map.projection_matrix":
                    np.concatenate([self.W, -self.W])}
        return {f"feature_map_{part}.layer.weight": self.W for part in "qk"}


def qkv(inputs):
    return [inputs.torch(part) for part in "qkv"]


def fla_none(inputs):
    return naive_recurrent_linear_attn(*qkv(inputs))[0]


def fla_retnet(inputs):
    q, k, v = (x.transpose(1, 2) for x in qkv(inputs))
    return naive_retention(q, k, v).transpose(1, 2)


def fla_scalar(inputs):
    g = torch.nn.functional.logsigmoid(inputs.torch("scalar")[..., 0]) / 16
    return naive_recurrent_simple_gla(*qkv(inputs), g)[0]


def fla_key(inputs):
    g = torch.nn.functional.logsigmoid(inputs.torch("key")) / 16
    return naive_recurrent_gla(*qkv(inputs), g)[0]


def fla_complement(inputs):
    q, _, v = qkv(inputs)
    alpha = torch.sigmoid(inputs.torch("key"))
    return naive_recurrent_gla(q, 1 - alpha, v, alpha.log())[0]


def fla_lightning(inputs):
    q, k, v = (x.float() for x in qkv(inputs))
    return fused_recurrent_lightning_attn(
        q, k, v, layer_idx=LAYER, num_layers=LAYERS)[0]


def minimax(inputs):
    """Its slopes, which are what it defines otherwise than fla."""
    config = MiniMaxConfig(
        hidden_size=H * 4, num_attention_heads=H, num_key_value_heads=H,
        head_dim=4, num_hidden_layers=LAYERS)
    slopes = MiniMaxLightningAttention(config, LAYER).slope_rate.reshape(-1)
    g = -slopes.double().expand(1, T, H)
    return naive_recurrent_simple_gla(*qkv(inputs), g, scale=1.0)[0]


def ft_recurrent(inputs, feature_map=None, eps=1e-6):
    q, k, v = qkv(inputs)
    layer = RecurrentLinearAttention(K, feature_map, eps)
    state, out = None, []
    for t in range(T):
        o, state = layer(q[:, t], k[:, t], v[:, t], state)
        out.append(o)
    return torch.stack(out, 1)


def ft_causal(inputs):
    q, k, v = (x.float() for x in qkv(inputs))
    lengths = LengthMask(torch.tensor([T]))
    return CausalLinearAttention(K)(
        q, k, v, TriangularCausalMask(T), lengths, lengths)


def ft_favor(inputs):
    """Its features are in pairs of w and -w."""
    class Stored(Favor):

        def new_feature_map(self, device):
            self.omega = torch.tensor(inputs.W.T)

    return ft_recurrent(
        inputs, lambda width: Stored(width, n_dims=2 * FEATURES), eps=0.0)


def ft_map(inputs, phi, eps):
    """phi(x, W): a feature map without a library."""
    W = torch.tensor(inputs.W)
    feature_map = ActivationFunctionFeatureMap.factory(
        lambda x: phi(x, W))
    return ft_recurrent(inputs, feature_map, eps)


def hedgehog_exp(x, W):
    return torch.cat([(x @ W.T).exp(), (-x @ W.T).exp()], -1)


def cosine(x, W):
    unit = x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    return torch.cat([torch.ones_like(x[..., :1]), unit], -1)


def fla_taylor(inputs):
    q, k, v = qkv(inputs)
    phi = TaylorFeatureMap(K)
    return naive_recurrent_linear_attn(phi(q), phi(k), v, scale=1.0,
                                       normalize=True)[0]


def mamba_full(inputs):
    """One head: B, C = k, q; u = v / dt, since its v is dt u."""
    q, k, v, a = (inputs.torch(part)[:, :, 0].transpose(1, 2)
                  for part in ("q", "k", "v", "value"))
    A = -torch.tensor(inputs.A_log[0].T).exp().float()
    dt = torch.nn.functional.softplus(a)
    u, a, k, q = (x.float() for x in (v / dt, a, k, q))
    o = selective_scan_ref(u, a, A, k, q, delta_softplus=True)
    return o.transpose(1, 2)[:, :, None]


def decay(kind, **options):
    return {"decay": {"kind": kind, **options}}


def normalized(feature_map):
    return {"feature_map": feature_map, "output_norm": "identity"}


FLA, FT = "flash-linear-attention", "pytorch-fast-transformers"
FT_NAME = "RecurrentLinearAttention"
Z = {"feature_map": "elu", "normalizer": "z", "q_scale": 1.0}

# (what, keys of config, library, its function, heads, what calls it)
ROWS = [
    ("none", decay("none"), FLA, "naive_recurrent_linear_attn", H, fla_none),
    ("none, elu, z", {**decay("none"), **Z}, FT, FT_NAME, H, ft_recurrent),
    ("none, elu, z", {**decay("none"), **Z}, FT, "CausalLinearAttention", H,
     ft_causal),
    ("constant retnet", decay("constant", values="retnet"), FLA,
     "naive_retention", H, fla_retnet),
    ("constant lightning_fla", decay("constant", values="lightning_fla"), FLA,
     "fused_recurrent_lightning_attn", H, fla_lightning),
    ("constant lightning_minimax",
     {**decay("constant", values="lightning_minimax"), "q_scale": 1.0},
     "transformers", "MiniMaxLightningAttention.slope_rate", H, minimax),
    ("scalar", decay("scalar", temperature=16), FLA,
     "naive_recurrent_simple_gla", H, fla_scalar),
    ("key", decay("key", temperature=16), FLA, "naive_recurrent_gla", H,
     fla_key),
    ("key, complement", {**decay("key"), "input": "complement"}, FLA,
     "naive_recurrent_gla", H, fla_complement),
    ("full", {**decay("full"), "q_scale": 1.0}, "mamba-ssm",
     "selective_scan_ref", 1, mamba_full),
    ("performer", normalized("performer"), FT, FT_NAME + " of Favor", H,
     ft_favor),
    ("taylor", normalized("taylor"), FLA, "TaylorFeatureMap", H, fla_taylor),
    ("softmax", normalized("softmax"), FT, FT_NAME, H, functools.partial(
        ft_map, phi=lambda x, W: x.softmax(-1), eps=1e-12)),
    ("cosine", normalized("cosine"), FT, FT_NAME, H, functools.partial(
        ft_map, phi=cosine, eps=1e-6)),
    ("hedgehog_exp", normalized("hedgehog_exp"), FT, FT_NAME, H,
     functools.partial(ft_map, phi=hedgehog_exp, eps=0.0)),
]


def results(seed=1):
    """(what, library, function, its output, the reference's) for each row."""
    for what, options, library, name, heads, call in ROWS:
        inputs = Inputs(seed, heads)
        with torch.no_grad():
            output = call(inputs)[0].double().numpy()
        family = "linear_recurrence" if "decay" in options else "linear_attn"
        yield f"{family}: {what}", library, name, output, inputs.reference(options)
