"""A second implementation of the model: NumPy, float64, one token at a time."""

import math

import numpy as np


class NumpyModel:
    """Evaluates an exported model as its formulas are written down.

    Shares no code with gla.py, so that agreement means that names,
    layout and meaning of the exported tensors are right.
    """

    def __init__(self, tensors, config):
        self._w = {n: t.astype(np.float64) for n, t in tensors.items()}
        self._config = config
        D, self._H = config["hidden_size"], config["num_heads"]
        self._K = int(D * config["expand_k"]) // self._H
        self._V = int(D * config["expand_v"]) // self._H
        layers = range(config["num_hidden_layers"])
        self._states = [np.zeros((self._H, self._K, self._V)) for _ in layers]
        self._windows = [{} for _ in layers]

    def logits(self, token):
        """Feeds one token; returns f64[vocabulary] for the next."""
        w = self._w
        x = w["model.embeddings.weight"][token]
        for n in range(self._config["num_hidden_layers"]):
            p = f"model.layers.{n}."
            x = x + self._attention(n, self._norm(x, w[p + "attn_norm.weight"]))
            u = self._norm(x, w[p + "mlp_norm.weight"])
            gate = w[p + "mlp.gate_proj.weight"] @ u
            up = w[p + "mlp.up_proj.weight"] @ u
            x = x + w[p + "mlp.down_proj.weight"] @ (self._silu(gate) * up)
        return w["lm_head.weight"] @ self._norm(x, w["model.norm.weight"])

    def _attention(self, n, x):
        w, p = self._w, f"model.layers.{n}.attn."
        q, k, v = (self._convolve(n, s, w[f"{p}{s}_proj.weight"] @ x)
                   for s in "qkv")
        a = w[p + "gk_proj.1.weight"] @ (w[p + "gk_proj.0.weight"] @ x)
        a = a + w[p + "gk_proj.1.bias"]
        alpha = (1 / (1 + np.exp(-a))) ** (1 / 16)
        heads = []
        for h in range(self._H):
            keys = slice(h * self._K, (h + 1) * self._K)
            values = slice(h * self._V, (h + 1) * self._V)
            S = self._states[n][h]
            S[:] = alpha[keys, None] * S + np.outer(k[keys], v[values])
            o = S.T @ q[keys] / np.sqrt(self._K)
            heads.append(self._norm(o, w[p + "g_norm_swish_gate.weight"]))
        gate = self._silu(w[p + "g_proj.weight"] @ x)
        return w[p + "o_proj.weight"] @ (np.concatenate(heads) * gate)

    def _convolve(self, n, stream, x):
        taps = self._w[f"model.layers.{n}.attn.{stream}_conv1d.weight"][:, 0]
        past = self._windows[n].get(stream, np.zeros(taps.shape)[:, 1:])
        inputs = np.concatenate([past, x[:, None]], axis=1)
        self._windows[n][stream] = inputs[:, 1:]
        return self._silu((inputs * taps).sum(axis=1))

    def _norm(self, x, weight):
        eps = self._config["norm_eps"]
        return x / np.sqrt(np.mean(x * x) + eps) * weight

    @staticmethod
    def _silu(x):
        return x / (1 + np.exp(-x))


def bits_per_byte(model, text):
    """Bits per byte of u8[bytes], the first byte at 8 bits."""
    nats = 0.0
    for token, target in zip(text[:-1], text[1:]):
        logits = model.logits(token)
        top = logits.max()
        nats += top + np.log(np.exp(logits - top).sum()) - logits[target]
    return (8 + nats / math.log(2)) / len(text)
