"""Mixtures of experts: a router, experts of which each token has a few, and
perhaps one that all tokens have.

    p = W_r x;  s = softmax(p) over all experts, or sigmoid(p)
    the k experts of the largest s (+ bias), of the best groups if there are
    w_e = factor s_e / (sum of those chosen + divided_with)
    y = sum_e w_e E_e(x) + g shared(x),  g = sigmoid(w_s . x) or 1
    E(x) = W_d (act(W_g x) * (W_u x)), or W_d act(W_u x) without gates;
    with a limit L: W_d (min(act(W_g x), L) * clamp(W_u x, -L, L))

The router is never rounded: it decides.
"""

import dataclasses

import numpy as np

from layer import Layer
from pointwise import ACTIVATIONS, sigmoid, softmax


@dataclasses.dataclass
class Shape:
    experts: int
    chosen: int
    width: int
    scores: str = "softmax"  # or "sigmoid"
    divided_with: float | None = 0.0  # None: nothing is divided
    factor: float = 1.0
    act: str = "silu"
    matrix: str = "gate.weight"
    bias: str = ""  # of what chooses; "": none
    groups: int = 1
    groups_kept: int = 1
    names: tuple = ("gate_proj", "up_proj", "down_proj")  # gate None: none
    fused: tuple = ("experts.gate_up_proj", "experts.down_proj")
    shared: str = ""  # prefix of the shared expert; "": none
    shared_names: tuple = ("gate_proj", "up_proj", "down_proj")
    shared_gate: str = ""
    limit: float = 0.0  # 0: none
    shared_limit: float = 0.0


def gated(act, gate, up, limit):
    """What goes into the last matrix of an expert with gates."""
    if not limit:
        return act(gate) * up
    return np.minimum(act(gate), limit) * np.clip(up, -limit, limit)


class Mixture(Layer):
    def __init__(self, model, prefix, shape):
        super().__init__(model, prefix)
        self.shape = shape

    def choose(self, x):
        """[(expert, weight)] of a token."""
        shape = self.shape
        p = self.tensor(shape.matrix) @ x
        s = softmax(p) if shape.scores == "softmax" else sigmoid(p)
        by = s + self.tensor(shape.bias) if shape.bias else s.copy()
        if shape.groups > 1:
            of_group = by.reshape(shape.groups, -1)
            best = np.sort(of_group)[:, -2:].sum(axis=1)
            for group in np.argsort(best)[: -shape.groups_kept]:
                of_group[group] = -np.inf
        chosen = np.argsort(-by, kind="stable")[: shape.chosen]
        weights = s[chosen]
        if shape.divided_with is not None:
            weights = weights / (weights.sum() + shape.divided_with)
        return zip(chosen, shape.factor * weights)

    def matrices(self, e):
        """Gate (or None), up and down of expert e."""
        up, down = (self.tensor(name) for name in self.shape.fused)
        gate_name, *others = self.shape.names
        if up is not None:
            rows = up[e]
            gate, rows = np.split(rows, 2) if gate_name else (None, rows)
            return gate, rows, down[e]
        stored = [
            self.tensor("experts.%d.%s.weight" % (e, name)) for name in others
        ]
        gate = gate_name and self.tensor(
            "experts.%d.%s.weight" % (e, gate_name))
        return gate, *stored

    def expert(self, e, x):
        gate, up, down = self.matrices(e)
        act = ACTIVATIONS[self.shape.act]
        y = self.multiply(up, x)
        if gate is None:
            y = act(y)
        else:
            y = gated(act, self.multiply(gate, x), y, self.shape.limit)
        return self.multiply(down, y)

    def shared(self, x):
        gate, up, down = self.shape.shared_names
        act, p = ACTIVATIONS[self.shape.act], self.shape.shared
        y = self.project(p + up, x)
        if not gate:
            y = act(y)
        elif gate == up:  # both in one matrix
            g, y = np.split(y, 2)
            y = act(g) * y
        else:
            limit = self.shape.shared_limit
            y = gated(act, self.project(p + gate, x), y, limit)
        y = self.project(p + down, y)
        if self.shape.shared_gate:
            y = y * sigmoid(self.tensor(self.shape.shared_gate) @ x)
        return y

    def step(self, x):
        y = self.shared(x) if self.shape.shared else 0.0
        for e, weight in self.choose(x):
            y = y + weight * self.expert(e, x)
        return y


def mixture_tensors(case, p, shape, fused, inner=None):
    """Random tensors; `fused`: those of all experts in one; `inner`: the width
    of what experts see, if that is not hidden_size."""
    E, width, D = shape.experts, shape.width, case.config["hidden_size"]
    # Far apart, so that rounding changes no choice.
    case.matrix(p + shape.matrix, E, D, 3.0)
    D = inner or D
    if shape.bias:
        case.vector(p + shape.bias, E, 0.0, 0.5)
    gate, up, down = shape.names
    for e in range(E):
        q = p + "experts.%d." % e
        for name in (gate, up):
            if name:
                case.matrix(q + name + ".weight", width, D)
        case.matrix(q + down + ".weight", D, width)
    if fused:
        fuse(case.tensors, p, shape)


def fuse(tensors, p, shape):
    gate, up, down = shape.names

    def take(name):
        return [
            tensors.pop(p + "experts.%d.%s.weight" % (e, name))
            for e in range(shape.experts)
        ]

    rows = take(up)
    if gate:
        rows = [np.concatenate(pair) for pair in zip(take(gate), rows)]
    of_all, downs = shape.fused
    tensors[p + of_all] = np.stack(rows)
    tensors[p + downs] = np.stack(take(down))
