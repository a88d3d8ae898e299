"""Logits of a checkpoint from flash-linear-attention's own models, on a CPU.

The library computes with Triton kernels, which are interpreted: these are its
own kernels and layers, in float32. flash-attn, which its softmax layers call
and which needs a GPU, is PyTorch's own scaled_dot_product_attention.

Needs the packages of requirements.txt.
"""

import inspect

import torch

import interpreter  # noqa: F401  before fla
import fla
import fla.layers.attn
from fla.layers.simple_gla import SimpleGatedLinearAttention

import other_spellings
from checkpoints import (Unsupported, from_pretrained, load_strictly,
                         read_config, read_tensors, refuse_unknown_keys)

LIBRARY = "flash-linear-attention"

# Where fla.models keeps a family, and what its classes begin with.
MODELS = {
    "delta_net": "DeltaNet",
    "gated_deltanet": "GatedDeltaNet",
    "gla": "GLA",
    "hgrn": "HGRN",
    "hgrn2": "HGRN2",
    "kda": "KDA",
    "linear_attn": "LinearAttention",
    "mamba": "Mamba",
    "mamba2": "Mamba2",
    "retnet": "RetNet",
    "rwkv6": "RWKV6",
    "rwkv7": "RWKV7",
    "simple_gla": None,  # a layer without a model
    "transformer": "Transformer",
}


def softmax_attention(q, k, v, causal=True, window_size=(-1, -1)):
    """flash_attn_func: q [B, T, H, d]; k, v [B, T, G, d], causal."""
    assert causal
    T, groups = q.shape[1], q.shape[2] // k.shape[2]
    distance = torch.arange(T)[:, None] - torch.arange(T)[None, :]
    seen = distance >= 0
    if window_size[0] >= 0:
        seen &= distance <= window_size[0]
    k, v = (x.repeat_interleave(groups, dim=2) for x in (k, v))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    return o.transpose(1, 2)


fla.layers.attn.flash_attn_func = softmax_attention

# RWKV-7's initial values, which the checkpoint replaces, cannot be made for
# values of another width than the model.
fla.layers.RWKV7Attention._initialize_weights = lambda self, module: None


def classes(model_type):
    """(configuration class, model class) of the library."""
    name = MODELS[model_type]
    return (getattr(fla.models, name + "Config"),
            getattr(fla.models, name + "ForCausalLM"))


def simple_gla(values):
    """A GLA model with the layer of simple GLA: fla has no model of it."""
    config = fla.models.GLAConfig(**{"use_short_conv": True, **values})
    if not config.use_output_gate:
        raise Unsupported("the layer always has its output gate")
    if config.clamp_min is not None:
        raise Unsupported("the layer has no clamp_min")
    model = fla.models.GLAForCausalLM(config)
    for block in model.model.layers:
        if not isinstance(block.attn, fla.layers.attn.Attention):
            parameters = inspect.signature(SimpleGatedLinearAttention).parameters
            options = {name: value for name, value in vars(config).items()
                       if name in parameters}
            block.attn = SimpleGatedLinearAttention(
                **options, gate_fn=config.hidden_act)
    return model


def refuse_differences_of_meaning(values):
    """What loads and means something else, or goes wrong without a GPU."""
    if values.get("feature_map") == "dpfp":
        raise Unsupported("since 0.6.0 its dpfp takes [relu(x), relu(-x)], "
                          "before and here [relu(x), -relu(x)]")
    if values["model_type"] == "mamba2" and values.get("n_groups", 1) > 1:
        raise Unsupported("without CUDA it gives head h the group h mod G, "
                          "with CUDA and here h div (H / G)")


def decays_by_head(tensors, groups):
    """The layer has a decay for each head, and the server one for each group:
    the heads of a group get the same."""
    return {name: (tensor.repeat_interleave(groups, dim=0)
                   if ".gk_proj." in name else tensor)
            for name, tensor in tensors.items()}


def load(folder):
    """The library's model of a checkpoint, in float32.

    Raises Unsupported, naming what the library does not have.
    """
    values = read_config(folder)
    refuse_differences_of_meaning(values)
    model_type = values["model_type"]
    if model_type == "simple_gla":
        values.pop("model_type")
        refuse_unknown_keys(values, fla.models.GLAConfig)
        model = simple_gla(values)
        groups = model.config.num_heads // (
            model.config.num_kv_heads or model.config.num_heads)
        load_strictly(model, decays_by_head(read_tensors(folder), groups))
        return model.eval()
    model = None
    if model_type not in ("mamba", "mamba2"):
        try:
            model = other_spellings.load(folder, values, *classes(model_type))
        except NotImplementedError as error:  # a feature map
            raise Unsupported(str(error)) from error
    return model or from_pretrained(folder, *classes(model_type))


def run(model, tokens):
    """float64 [tokens, vocab]."""
    with torch.no_grad():
        output = model(torch.tensor([tokens]), use_cache=False)
    return output.logits[0].double().numpy()


def logits(folder, tokens):
    """(float64 [tokens, vocab], the name of the class that made them)."""
    model = load(folder)
    if any(isinstance(module, fla.layers.RWKV7Attention)
           and module.head_v_dim != module.head_dim
           for module in model.modules()):
        raise Unsupported("its kernel gate_output_correction takes values to "
                          "be as wide as keys")
    return run(model, tokens), type(model).__name__
