"""mLSTM. Per head:

    i, f = cap tanh(preactivation / cap)               gate_soft_cap
    m' = max(log sigmoid(f) + m, i)
    F = exp(log sigmoid(f) + m - m'),  I = exp(i - m')
    C <- F C + I k v^T;  n <- F n + I k;  q = q K^-1/2
    h = C^T q / (max(|q . n|, exp(-m')) + eps)

with C, n and m zero at first. Output: LayerNorm of each head with one weight
over all heads, times sigmoid of a gate. The feed-forward layer is SwiGLU
under other names; logits are capped as the gates (output_logit_soft_cap).
use_bias gives a bias to every linear layer and norm but the last norm. There
are num_blocks layers, whatever num_hidden_layers says beside it. With
add_out_norm false and no tensor for it there is no last norm.
"""

import math

import numpy as np

from language_model import CausalLm
from layer import Layer
from pointwise import layer_norm, log_sigmoid, rms_norm, sigmoid, silu

DEFAULTS = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_heads": 8,
    "use_bias": False,
    "qk_dim_factor": 0.5,
    "v_dim_factor": 1.0,
    "ffn_proj_factor": 2.667,
    "ffn_round_up_to_multiple_of": 64,
    "gate_soft_cap": 15.0,
    "output_logit_soft_cap": 30.0,
    "eps": 1e-6,
}


def soft_cap(x, cap):
    return cap * np.tanh(x / cap)


def sizes(config):
    """Heads, key width, value width."""
    D, H = config["hidden_size"], config["num_heads"]
    K, V = int(D * config["qk_dim_factor"]), int(D * config["v_dim_factor"])
    return H, K // H, V // H


class Mixer(Layer):
    def __init__(self, model, n, prefix):
        super().__init__(model, prefix)
        self.H, self.K, self.V = sizes(self.config)
        self.C = np.zeros((self.H, self.K, self.V))
        self.n = np.zeros((self.H, self.K))
        self.m = np.zeros(self.H)

    def read_out(self, h, q):
        q = q / math.sqrt(self.K)
        least = math.exp(-self.m[h])
        denominator = max(abs(q @ self.n[h]), least) + self.config["eps"]
        return self.C[h].T @ q / denominator

    def step(self, x, position):
        H, cap = self.H, self.config["gate_soft_cap"]
        spelt = self.tensor("query.weight") is not None
        names = ("query", "key", "value") if spelt else "qkv"
        q = self.project(names[0], x).reshape(H, self.K)
        k = self.project(names[1], x).reshape(H, self.K)
        v = self.project(names[2], x).reshape(H, self.V)
        i = soft_cap(self.project("igate_preact", x), cap)
        f = log_sigmoid(soft_cap(self.project("fgate_preact", x), cap))
        out = np.zeros((H, self.V))
        for h in range(H):
            m = max(f[h] + self.m[h], i[h])
            F, I = math.exp(f[h] + self.m[h] - m), math.exp(i[h] - m)
            self.C[h] = F * self.C[h] + I * np.outer(k[h], v[h])
            self.n[h] = F * self.n[h] + I * k[h]
            self.m[h] = m
            read = self.read_out(h, q[h])
            out[h] = layer_norm(read, None, None, self.config.norm_eps())
        out = out.reshape(-1) * self.tensor("multihead_norm.weight")
        if self.tensor("multihead_norm.bias") is not None:
            out = out + self.tensor("multihead_norm.bias")
        return self.project("out_proj", sigmoid(self.project("ogate_preact", x)) * out)


class FeedForward(Layer):
    def step(self, x):
        gate, up = self.project("proj_up_gate", x), self.project("proj_up", x)
        return self.project("proj_down", silu(gate) * up)


class Block(Layer):
    def __init__(self, model, n):
        super().__init__(model, "backbone.blocks.%d." % n)
        self.mixer = Mixer(model, n, self.prefix + "mlstm_layer.")
        self.feed_forward = FeedForward(model, self.prefix + "ffn.")

    def order_matters(self):
        return True

    def norm(self, name, h):
        y = rms_norm(h, self.tensor(name + ".weight"), self.config.norm_eps())
        bias = self.tensor(name + ".bias")
        return y if bias is None else y + bias

    def step(self, h, position):
        h = h + self.mixer.step(self.norm("norm_mlstm", h), position)
        return h + self.feed_forward.step(self.norm("norm_ffn", h))


def depth(config):
    return config.get("num_blocks", config["num_hidden_layers"])


class Model(CausalLm):
    EMBEDDINGS = "backbone.embeddings.weight"

    def __init__(self, family, values, tensors, rounded):
        # transformers knows the flag and does not tie.
        values = {**values, "tie_word_embeddings": False}
        values["num_hidden_layers"] = depth(values)
        super().__init__(family, values, tensors, rounded)

    def make_block(self, n):
        return Block(self, n)

    def final_norm(self, h):
        weight = self.tensors.get("backbone.out_norm.weight")
        if weight is None:
            return h
        return rms_norm(h, weight, self.config.norm_eps())

    def cap(self, logits):
        return soft_cap(logits, self.config["output_logit_soft_cap"])


def linear(case, name, rows, columns, bias):
    case.matrix(name + ".weight", rows, columns)
    if bias:
        case.vector(name + ".bias", rows, 0.0, 0.5)


def norm(case, name, width):
    case.vector(name + ".weight", width, 1.0, 0.3)
    if case.config["use_bias"]:
        case.vector(name + ".bias", width, 0.0, 0.5)


def tensors(case, n, p):
    D, bias = case.config["hidden_size"], case.config["use_bias"]
    H, K, V = sizes(case.config)
    names = ("query", "key", "value") if case.stored.get("spelt") else "qkv"
    for name, width in zip(names, (H * K, H * K, H * V)):
        linear(case, p + name, width, D, bias)
    linear(case, p + "ogate_preact", H * V, D, bias)
    # Preactivations of some size: the caps shall bite.
    for name, center in (("igate_preact", 0.0), ("fgate_preact", 3.0)):
        case.matrix(p + name + ".weight", H, D, 2.0)
        case.vector(p + name + ".bias", H, center, 1.0)
    norm(case, p + "multihead_norm", H * V)
    linear(case, p + "out_proj", D, H * V, bias)


def feed_forward_tensors(case, p):
    config, D, bias = case.config, case.config["hidden_size"], case.config["use_bias"]
    multiple = config["ffn_round_up_to_multiple_of"]
    width = int((D * config["ffn_proj_factor"] + multiple - 1) // multiple * multiple)
    linear(case, p + "proj_up_gate", width, D, bias)
    linear(case, p + "proj_up", width, D, bias)
    linear(case, p + "proj_down", D, width, bias)


def all_tensors(case):
    D = case.config["hidden_size"]
    case.embeddings(Model.EMBEDDINGS)
    for n in range(depth(case.config)):
        p = "backbone.blocks.%d." % n
        norm(case, p + "norm_mlstm", D)
        tensors(case, n, p + "mlstm_layer.")
        norm(case, p + "norm_ffn", D)
        feed_forward_tensors(case, p + "ffn.")
    if case.config.get("add_out_norm", True):
        case.vector("backbone.out_norm.weight", D, 1.0, 0.3)
    case.matrix("lm_head.weight", case.config["vocab_size"], D)


SMALL = {
    "intermediate_size": None,
    "num_heads": 2,
    "ffn_proj_factor": 1.25,
    "ffn_round_up_to_multiple_of": 16,
}

# The keys that transformers writes, besides those of the machinery.
WRITTEN = {
    "intermediate_size": None,
    "architectures": ["xLSTMForCausalLM"],
    "add_out_norm": True,
    "autocast_kernel_dtype": "bfloat16",
    "bos_token_id": 0,
    "chunk_size": 64,
    "chunkwise_kernel": "chunkwise--native_autograd",
    "embedding_dim": 32,
    "eos_token_id": 2,
    "eps": 1e-6,
    "ffn_proj_factor": 2.667,
    "ffn_round_up_to_multiple_of": 64,
    "gate_soft_cap": 15.0,
    "inference_state_dtype": "float32",
    "max_inference_chunksize": 16384,
    "mode": "inference",
    "norm_reduction_force_float32": True,
    "num_blocks": 2,
    "num_heads": 2,
    "output_logit_soft_cap": 30.0,
    "pad_token_id": 1,
    "qk_dim_factor": 0.5,
    "return_last_states": True,
    "sequence_kernel": "native_sequence__native",
    "step_kernel": "native",
    "tie_word_embeddings": False,
    "use_bias": False,
    "use_cache": True,
    "v_dim_factor": 1.0,
    "weight_mode": "single",
}

CASES = {
    "xlstm": (WRITTEN, {}),
    "xlstm-caps": (
        {**SMALL, "gate_soft_cap": 2.0, "output_logit_soft_cap": 1.5, "eps": 1e-2},
        {},
    ),
    # The flag is there and transformers does not tie.
    "xlstm-names": ({**SMALL, "tie_word_embeddings": True}, {"spelt": True, "seed": 6}),
    "xlstm-blocks": (
        {**SMALL, "num_hidden_layers": 32, "num_blocks": 2},
        {"seed": 2},
    ),
    "xlstm-no-out-norm": ({**SMALL, "add_out_norm": False}, {}),
    "xlstm-bias": ({**SMALL, "use_bias": True, "norm_eps": 1e-4}, {"seed": 3}),
    "xlstm-widths": (
        {**SMALL, "num_heads": 4, "qk_dim_factor": 0.75, "v_dim_factor": 0.5},
        {},
    ),
}
