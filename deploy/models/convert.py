#!/usr/bin/env python3
"""Converts pickled checkpoints into the form that the server loads.

  convert.py SOURCE DESTINATION

SOURCE is one of
  * a folder with config.json and pytorch_model.bin as mamba_ssm writes them
    (state-spaces/mamba-*, state-spaces/mamba2-*: Mamba-1 and Mamba-2);
  * a .pth file, not its folder, of RWKV-6 or RWKV-7 in the names of its
    authors.
DESTINATION is a folder, made if need be, that gets config.json and
model.safetensors. Nothing there is overwritten.

Values are kept as they are stored, bit for bit, with one exception: RWKV-6
normalises its heads with an epsilon of 64e-5, and the converted form has one
epsilon, 1e-5, for all norms. An eighth of the values into that norm makes the
two the same, so the value projections are divided by 8. That is exact, save for
float16 values so small that they would lose digits: then the tensor is stored
as float32.

What cannot be converted is refused, by name. A tokenizer is not converted:
put its files beside the result. Needs PyTorch and safetensors; pickles are
read with weights_only, so that they can run no code.
"""

import argparse
import json
import os
import pickle
import sys

try:
    import safetensors.torch
    import torch
except ImportError as error:
    MISSING = str(error)
else:
    MISSING = None


class Refused(Exception):
    """What cannot be converted and why, in one sentence."""


class Tensors:
    """The tensors of a checkpoint, each to be taken once."""

    def __init__(self, tensors):
        self._left = dict(tensors)

    def __contains__(self, name):
        return name in self._left

    def take(self, name, shape=None):
        """shape: what it has to be, None for any size of that axis."""
        if name not in self._left:
            raise Refused(f"the checkpoint has no tensor {name}")
        tensor = self._left.pop(name)
        if shape is not None:
            fits = len(shape) == tensor.dim() and all(
                wanted in (None, size)
                for wanted, size in zip(shape, tensor.shape))
            if not fits:
                raise Refused(f"tensor {name} has shape {list(tensor.shape)}, "
                              f"expected {list(shape)}")
        return tensor

    def drop(self, *names):
        """Forgets tensors that are known not to be used."""
        for name in names:
            self._left.pop(name, None)

    def count(self, prefix):
        """How many layers there are below names such as prefix.0.x."""
        numbers = [int(name[len(prefix) + 1:].split(".")[0])
                   for name in self._left if name.startswith(prefix + ".")]
        return max(numbers, default=-1) + 1

    def finish(self):
        """Refuses what nobody took: it would have had some effect."""
        if self._left:
            names = ", ".join(sorted(self._left)[:3])
            raise Refused(f"{len(self._left)} tensors are unknown here: {names}"
                          + (", ..." if len(self._left) > 3 else ""))


# --- mamba_ssm ----------------------------------------------------------------

NORM_EPS = 1e-5  # mamba_ssm's, of every norm; not in its config.json
NO_LIMIT = [0.0, float("inf")]  # of dt

# Where a value other than the one here would change the result.
MAMBA_MUST_BE = {"rms_norm": True, "d_intermediate": 0, "attn_layer_idx": []}
MAMBA_INERT = {"residual_in_fp32", "fused_add_norm", "attn_cfg"}
MAMBA_USED = {"d_model", "n_layer", "vocab_size", "ssm_cfg",
              "pad_vocab_size_multiple", "tie_embeddings"}

SSM_INERT = {"dt_min", "dt_max", "dt_init", "dt_scale", "dt_init_floor",
             "A_init_range", "conv_init", "use_fast_path", "use_mem_eff_path",
             "chunk_size", "sequence_parallel", "layer"}


def take_options(values, defaults, what):
    """`defaults` with the given values; refuses a key that is unknown."""
    unknown = sorted(set(values) - set(defaults) - SSM_INERT)
    if unknown:
        raise Refused(f"{what} has the unknown key {unknown[0]}")
    return {**defaults, **{key: value for key, value in values.items()
                           if key in defaults}}


def check_mamba_config(config):
    for key, wanted in MAMBA_MUST_BE.items():
        value = config.get(key, wanted)
        if value != wanted:
            raise Refused(f"config.json has {key} {json.dumps(value)}, and "
                          f"only {json.dumps(wanted)} can be converted")
    unknown = sorted(set(config) - set(MAMBA_MUST_BE) - MAMBA_INERT - MAMBA_USED)
    if unknown:
        raise Refused(f"config.json has the unknown key {unknown[0]}")
    for key in ("d_model", "n_layer", "vocab_size"):
        if key not in config:
            raise Refused(f"config.json has no {key}")


def mamba1_layer(config, ssm, tensors, prefix):
    """(converted keys, tensors of one mixer by name)."""
    options = take_options(ssm, {
        "d_state": 16, "d_conv": 4, "expand": 2, "dt_rank": "auto",
        "conv_bias": True, "bias": False}, "ssm_cfg of Mamba1")
    D, N, W = config["d_model"], options["d_state"], options["d_conv"]
    E = int(options["expand"] * D)
    R = options["dt_rank"]
    R = -(-D // 16) if R == "auto" else R
    shapes = {"in_proj.weight": (2 * E, D), "conv1d.weight": (E, 1, W),
              "x_proj.weight": (R + 2 * N, E), "dt_proj.weight": (E, R),
              "dt_proj.bias": (E,), "A_log": (E, N), "D": (E,),
              "out_proj.weight": (D, E)}
    if options["conv_bias"]:
        shapes["conv1d.bias"] = (E,)
    if options["bias"]:
        shapes.update({"in_proj.bias": (2 * E,), "out_proj.bias": (D,)})
    keys = {"model_type": "mamba", "state_size": N, "expand": options["expand"],
            "intermediate_size": E, "time_step_rank": R, "conv_kernel": W,
            "use_conv_bias": options["conv_bias"], "use_bias": options["bias"],
            "layer_norm_epsilon": NORM_EPS}
    return keys, {name: tensors.take(prefix + name, shape)
                  for name, shape in shapes.items()}


def mamba2_layer(config, ssm, tensors, prefix):
    """As mamba1_layer. The keys are fla's, which has all of the options."""
    options = take_options(ssm, {
        "d_state": 128, "d_conv": 4, "expand": 2, "headdim": 64, "ngroups": 1,
        "d_ssm": None, "D_has_hdim": False, "rmsnorm": True,
        "norm_before_gate": False, "dt_limit": NO_LIMIT,
        "bias": False, "conv_bias": True}, "ssm_cfg of Mamba2")
    D, N, G = config["d_model"], options["d_state"], options["ngroups"]
    E, W = int(options["expand"] * D), options["d_conv"]
    if options["d_ssm"] not in (None, E):
        raise Refused(f"ssm_cfg has d_ssm {options['d_ssm']}, and only the full "
                      f"width {E} can be converted")
    if E % options["headdim"]:
        raise Refused(f"ssm_cfg has headdim {options['headdim']}, which does "
                      f"not divide the width {E}")
    H, channels = E // options["headdim"], E + 2 * G * N
    shapes = {"in_proj.weight": (E + channels + H, D),
              "conv1d.weight": (channels, 1, W), "dt_bias": (H,),
              "A_log": (H,), "D": (E if options["D_has_hdim"] else H,),
              "out_proj.weight": (D, E)}
    if options["rmsnorm"]:
        shapes["norm.weight"] = (E,)
    if options["conv_bias"]:
        shapes["conv1d.bias"] = (channels,)
    if options["bias"]:
        shapes.update({"in_proj.bias": (E + channels + H,),
                       "out_proj.bias": (D,)})
    keys = {"model_type": "mamba2", "head_dim": options["headdim"],
            "state_size": N, "n_groups": G, "expand": options["expand"],
            "conv_kernel": W, "use_conv_bias": options["conv_bias"],
            "use_bias": options["bias"], "norm_eps": NORM_EPS}
    keys.update({key: options[key] for key in (
        "rmsnorm", "norm_before_gate", "D_has_hdim")})
    if list(options["dt_limit"]) != NO_LIMIT:  # JSON has no infinity
        keys["dt_limit"] = list(options["dt_limit"])
    return keys, {name: tensors.take(prefix + name, shape)
                  for name, shape in shapes.items()}


def mamba_head(config, tensors, embedding):
    """The head, or None where it is the embedding."""
    V, D = embedding.shape
    if not config.get("tie_embeddings", True):
        return tensors.take("lm_head.weight", (V, D))
    if "lm_head.weight" in tensors:
        if not torch.equal(tensors.take("lm_head.weight", (V, D)), embedding):
            raise Refused("lm_head.weight is not the embedding, against "
                          "tie_embeddings in config.json")
    return None


def convert_mamba(config, tensors):
    """(config, tensors) of a mamba_ssm checkpoint, converted."""
    check_mamba_config(config)
    ssm = config.get("ssm_cfg") or {}
    layer = ssm.get("layer", "Mamba1")
    if layer not in ("Mamba1", "Mamba2"):
        raise Refused(f"ssm_cfg has layer {layer}; known: Mamba1, Mamba2")
    mixer = mamba2_layer if layer == "Mamba2" else mamba1_layer
    D, layers = config["d_model"], config["n_layer"]
    multiple = config.get("pad_vocab_size_multiple", 8)
    V = -(-config["vocab_size"] // multiple) * multiple
    embedding = tensors.take("backbone.embedding.weight", (V, D))
    out = {"backbone.embeddings.weight": embedding}
    for n in range(layers):
        prefix = f"backbone.layers.{n}."
        norm = prefix + "norm.weight"
        out[norm] = tensors.take(norm, (D,))
        keys, parts = mixer(config, ssm, tensors, prefix + "mixer.")
        out.update({prefix + "mixer." + name: part
                    for name, part in parts.items()})
    out["backbone.norm_f.weight"] = tensors.take("backbone.norm_f.weight", (D,))
    head = mamba_head(config, tensors, embedding)
    if head is not None:
        out["lm_head.weight"] = head
    # 0 is <|endoftext|> in the tokenizer of all of these models.
    keys.update({"hidden_size": D, "num_hidden_layers": layers, "vocab_size": V,
                 "hidden_act": "silu", "tie_word_embeddings": head is None,
                 "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0})
    return keys, out


# --- RWKV ---------------------------------------------------------------------


def rwkv_frame(tensors, layers):
    """What RWKV-6 and RWKV-7 have in common: embedding, norms, head."""
    embedding = tensors.take("emb.weight", (None, None))
    V, D = embedding.shape
    out = {"model.embeddings.weight": embedding,
           "lm_head.weight": tensors.take("head.weight", (V, D))}
    norms = {"ln_out": "model.norm", "blocks.0.ln0": "model.layers.0.pre_norm"}
    for n in range(layers):
        block, layer = f"blocks.{n}.", f"model.layers.{n}."
        norms[block + "ln1"] = layer + "attn_norm"
        norms[block + "ln2"] = layer + "ffn_norm"
        norms[block + "att.ln_x"] = layer + "attn.g_norm"
    for old, new in norms.items():
        for part in (".weight", ".bias"):
            out[new + part] = tensors.take(old + part, (D,))
    keys = {"hidden_size": D, "num_hidden_layers": layers, "vocab_size": V,
            "norm_first": True, "norm_bias": True, "norm_eps": 1e-5,
            "hidden_act": "sqrelu", "tie_word_embeddings": False,
            "bos_token_id": 0, "eos_token_id": 0}
    return keys, out


def rename(tensors, old, new, table, shape):
    """Tensors below `old`, under their names of `table` below `new`."""
    return {new + table[name]: tensors.take(old + name, shape)
            for name in table}


def low_rank(tensors, old, new, bias):
    """old1 [D, r] and old2 [r, D] as two linear layers, with old0 [1, 1, D]."""
    first = tensors.take(old + "1", (None, None))
    second = tensors.take(old + "2", (first.shape[1], None))
    out = {new + ".lora.0.weight": first.T, new + ".lora.2.weight": second.T}
    if bias:
        width = (1, 1, second.shape[1])
        out[new + ".lora.2.bias"] = tensors.take(old + "0", width).reshape(-1)
    return out


def rwkv7_layer(tensors, n, D):
    """(heads, their width, tensors of layer n)."""
    old, new = f"blocks.{n}.att.", f"model.layers.{n}.attn."
    r_k = tensors.take(old + "r_k", (None, None))
    out = {new + "r_k": r_k}
    out.update(rename(tensors, old, new, {
        "receptance.weight": "r_proj.weight", "key.weight": "k_proj.weight",
        "value.weight": "v_proj.weight", "output.weight": "o_proj.weight",
    }, (D, D)))
    mixes = {"x_" + part: "x_" + part for part in "rwkvag"}
    out.update(rename(tensors, old, new, mixes, (1, 1, D)))
    for name in ("k_k", "k_a"):
        out[new + name] = tensors.take(old + name, (1, 1, D)).reshape(-1)
    if n == 0:  # some files have them; v is v_first there
        tensors.drop(old + "v0", old + "v1", old + "v2")
    for part in "wav" if n else "wa":
        out.update(low_rank(tensors, old + part, new + part + "_lora", True))
    out.update(low_rank(tensors, old + "g", new + "g_lora", False))
    old, new = f"blocks.{n}.ffn.", f"model.layers.{n}.ffn."
    out[new + "x_k"] = tensors.take(old + "x_k", (1, 1, D)).reshape(-1)
    out[new + "key.weight"] = tensors.take(old + "key.weight", (None, D))
    out[new + "value.weight"] = tensors.take(old + "value.weight", (D, None))
    return r_k.shape, out


def convert_rwkv7(tensors):
    layers = tensors.count("blocks")
    keys, out = rwkv_frame(tensors, layers)
    D = keys["hidden_size"]
    for n in range(layers):
        (H, K), parts = rwkv7_layer(tensors, n, D)
        if H * K != D:
            raise Refused(f"blocks.{n}.att.r_k has shape {[H, K]}, whose "
                          f"product is not the width {D}")
        if K != 64:  # 64e-5 there, norm_eps times this here
            raise Refused(f"heads of {K} cannot be converted, only of 64: the "
                          f"epsilon of their norm would be another")
        out.update(parts)
    first = "model.layers.0."

    def rank(name):
        return out[first + f"attn.{name}_lora.lora.0.weight"].shape[0]

    keys.update({
        "model_type": "rwkv7", "head_dim": K, "value_dim": D,
        "intermediate_size": out[first + "ffn.key.weight"].shape[0],
        "decay_low_rank_dim": rank("w"), "a_low_rank_dim": rank("a"),
        "gate_low_rank_dim": rank("g"), "fuse_norm": False})
    if layers > 1:
        value = out["model.layers.1.attn.v_lora.lora.0.weight"]
        keys["v_low_rank_dim"] = value.shape[0]
    return keys, out


def rwkv6_mixes(tensors, old, new, D):
    """The data-dependent mixes: stored as w, k, v, r, g, wanted r first."""
    w2 = tensors.take(old + "time_maa_w2", (5, None, D))
    rank = w2.shape[1]
    w1 = tensors.take(old + "time_maa_w1", (D, 5 * rank))
    order = ["wkvrg".index(part) for part in "rwkvg"]
    bias = [tensors.take(old + "time_maa_" + part, (1, 1, D)).reshape(-1)
            for part in "rwkvg"]
    return {
        new + "x_proj.0.mu":
            tensors.take(old + "time_maa_x", (1, 1, D)).reshape(-1),
        new + "x_proj.0.linear.weight":
            w1.T.reshape(5, rank, D)[order].reshape(5 * rank, D),
        new + "x_proj.2.weight":
            w2[order].permute(2, 0, 1).reshape(D, 5 * rank),
        new + "x_bias": torch.stack(bias),
    }


def an_eighth(tensor):
    """The tensor divided by 8, exactly: in float32 where its own type would
    round."""
    divided = tensor / 8
    return divided if torch.equal(divided * 8, tensor) else tensor.float() / 8


def rwkv6_layer(tensors, n, D):
    old, new = f"blocks.{n}.att.", f"model.layers.{n}.attn."
    out = rwkv6_mixes(tensors, old, new, D)
    out.update(rename(tensors, old, new, {
        "receptance.weight": "r_proj.linear.weight",
        "key.weight": "k_proj.linear.weight",
        "value.weight": "v_proj.linear.weight",
        "gate.weight": "g_proj.linear.weight",
        "output.weight": "o_proj.weight"}, (D, D)))
    # See the head of this file: norm(v / 8, 1e-5) = norm(v, 64e-5).
    out[new + "v_proj.linear.weight"] = an_eighth(out[new + "v_proj.linear.weight"])
    w1 = tensors.take(old + "time_decay_w1", (D, None))
    w2 = tensors.take(old + "time_decay_w2", (w1.shape[1], D))
    decay = tensors.take(old + "time_decay", (1, 1, D))
    out[new + "w_proj.linear.lora.0.weight"] = w1.T
    out[new + "w_proj.linear.lora.2.weight"] = w2.T
    out[new + "w_proj.linear.lora.2.bias"] = decay.reshape(-1)
    out[new + "bonus"] = tensors.take(old + "time_faaaa", (None, None))
    old, new = f"blocks.{n}.ffn.", f"model.layers.{n}.ffn."
    for part, name in (("k", "key"), ("r", "receptance")):
        mix = tensors.take(old + "time_maa_" + part, (1, 1, D))
        out[new + name + ".mu"] = mix.reshape(-1)
    out[new + "key.linear.weight"] = tensors.take(old + "key.weight", (None, D))
    out[new + "value.weight"] = tensors.take(old + "value.weight", (D, None))
    out[new + "receptance.linear.weight"] = tensors.take(
        old + "receptance.weight", (D, D))
    return out


def convert_rwkv6(tensors):
    layers = tensors.count("blocks")
    keys, out = rwkv_frame(tensors, layers)
    D = keys["hidden_size"]
    for n in range(layers):
        out.update(rwkv6_layer(tensors, n, D))
    first = "model.layers.0."
    H, K = out[first + "attn.bonus"].shape
    if H * K != D:
        raise Refused(f"blocks.0.att.time_faaaa has shape {[H, K]}, whose "
                      f"product is not the width {D}")
    keys.update({
        "model_type": "rwkv6", "num_heads": H, "expand_k": 1.0, "expand_v": 1.0,
        "intermediate_size": out[first + "ffn.key.linear.weight"].shape[0],
        "proj_low_rank_dim":
            out[first + "attn.x_proj.0.linear.weight"].shape[0] // 5,
        "gate_low_rank_dim":
            out[first + "attn.w_proj.linear.lora.0.weight"].shape[0]})
    return keys, out


def convert_rwkv(tensors):
    """(config, tensors) of an RWKV checkpoint, by its generation."""
    if "blocks.0.att.r_k" in tensors:
        return convert_rwkv7(tensors)
    if "blocks.0.att.time_maa_w1" in tensors:
        return convert_rwkv6(tensors)
    if "blocks.0.att.time_decay" in tensors:
        raise Refused("this is RWKV-5 or older; known: RWKV-6, RWKV-7")
    raise Refused("these are not the tensors of an RWKV model: there is no "
                  "blocks.0.att.r_k and no blocks.0.att.time_maa_w1")


# --- files --------------------------------------------------------------------


def read_pickle(path):
    """Tensors by name."""
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, IndexError,
            TypeError, AttributeError, pickle.UnpicklingError) as error:
        raise Refused(f"{path} cannot be read as a pickle of tensors: "
                      f"{(str(error).splitlines() or [repr(error)])[0]}"
                      ) from error
    if not isinstance(tensors, dict) or not all(
            isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
        raise Refused(f"{path} is not a table of tensors")
    return Tensors(tensors)


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise Refused(f"{path} cannot be read: {error}") from error


def convert(source):
    """(config, tensors) of a checkpoint in its authors' form."""
    if not os.path.isdir(source):
        tensors = read_pickle(source)
        converted = convert_rwkv(tensors)
    else:
        pickles = [name for name in sorted(os.listdir(source))
                   if name.endswith(".pth")]
        if pickles and not os.path.exists(
                os.path.join(source, "pytorch_model.bin")):
            raise Refused(f"{source} has {pickles[0]}: of RWKV give the file, "
                          f"{os.path.join(source, pickles[0])}")
        config = read_json(os.path.join(source, "config.json"))
        tensors = read_pickle(os.path.join(source, "pytorch_model.bin"))
        converted = convert_mamba(config, tensors)
    tensors.finish()
    return converted


def write(folder, config, tensors):
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, name)
             for name in ("model.safetensors", "config.json")]
    for path in paths:
        if os.path.exists(path):
            raise Refused(f"{path} is there already")
    safetensors.torch.save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        paths[0], metadata={"format": "pt"})
    with open(paths[1], "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("destination", metavar="DESTINATION")
    arguments = parser.parse_args()
    if MISSING:
        sys.exit(f"convert.py: needs PyTorch and safetensors: {MISSING}")
    try:
        config, tensors = convert(arguments.source)
        write(arguments.destination, config, tensors)
    except Refused as error:
        sys.exit(f"convert.py: {error}")
    print(f"{arguments.destination}: {config['model_type']}, "
          f"{len(tensors)} tensors")


if __name__ == "__main__":
    main()
