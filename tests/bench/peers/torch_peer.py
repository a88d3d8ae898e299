#!/usr/bin/env python3
"""Mamba-2 in plain PyTorch, one token of every sequence at a time.

The formulas of server/model/mixers/mamba2.cc in whole-tensor operations:
matrices, their inputs and outputs in bfloat16 (or float32), states, norms and
everything between in float32. A worker, see worker.py; prompts are read token
by token.
"""

import torch
import torch.nn.functional as F
import worker
from checkpoint import Checkpoint


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


class Layer:
    """One block with the states of all sequences."""

    def __init__(self, model, n, dtype, sequences):
        def take(name):
            name = f"backbone.layers.{n}.{name}"
            return torch.from_numpy(model.floats(name))

        self.model = model
        self.norm = take("norm.weight")
        self.inner_norm = take("mixer.norm.weight").view(model.G, -1)
        self.w_in = take("mixer.in_proj.weight").to(dtype)
        self.w_out = take("mixer.out_proj.weight").to(dtype)
        self.taps = take("mixer.conv1d.weight").squeeze(1).T.contiguous()
        self.conv_bias = take("mixer.conv1d.bias")
        self.dt_bias = take("mixer.dt_bias")
        self.rate = -torch.exp(take("mixer.A_log"))
        self.skip = take("mixer.D").view(-1, 1)
        self.S = torch.zeros(sequences * model.H, model.P, model.N)
        self.window = torch.zeros(sequences, *self.taps.shape)

    def reset(self):
        self.S.zero_()
        self.window.zero_()

    def recur(self, xBC, dt):
        """y [n, H, P] of inputs [n, channels] and steps of time [n, H]."""
        m, n = self.model, len(xBC)
        x, B, C = xBC.split([m.E, m.G * m.N, m.G * m.N], dim=-1)
        x = x.view(n, m.H, m.P)
        # [n, G, N] -> [n H, N], consecutive heads sharing a group.
        B, C = (part.view(n, m.G, m.N).repeat_interleave(m.H // m.G, 1)
                .view(n * m.H, m.N) for part in (B, C))
        v = (dt[..., None] * x).view(n * m.H, m.P, 1)
        self.S.mul_(torch.exp(dt * self.rate).view(-1, 1, 1))
        self.S.addcmul_(v, B[:, None, :])
        y = torch.bmm(self.S, C[..., None]).view(n, m.H, m.P)
        return y + self.skip * x

    def step(self, h):
        m, n = self.model, len(h)
        u = rms_norm(h, self.norm, m.eps).to(self.w_in.dtype)
        z, xBC, dt = F.linear(u, self.w_in).float().split(
            [m.E, m.E + 2 * m.G * m.N, m.H], dim=-1)
        self.window = torch.cat([self.window[:, 1:], xBC[:, None]], dim=1)
        xBC = F.silu((self.window * self.taps).sum(1) + self.conv_bias)
        y = self.recur(xBC, F.softplus(dt + self.dt_bias)).view(n, m.E)
        y = (y * F.silu(z)).view(n, m.G, -1)
        y = rms_norm(y, self.inner_norm, m.eps).view(n, m.E)
        return h + F.linear(y.to(self.w_out.dtype), self.w_out).float()


class TorchModel:
    def __init__(self, options):
        torch.set_num_threads(options.threads)
        torch.set_grad_enabled(False)
        model = Checkpoint(options.model)
        dtype = getattr(torch, options.dtype)
        self.vocab, self.eps = model.vocab, model.eps

        def take(name):
            return torch.from_numpy(model.floats(name))

        self.table = take("backbone.embeddings.weight").to(dtype)
        self.head = (self.table if model.tied
                     else take("lm_head.weight").to(dtype))
        self.norm = take("backbone.norm_f.weight")
        self.layers = [Layer(model, n, dtype, options.sequences)
                       for n in range(model.layers)]

    def reset(self):
        for layer in self.layers:
            layer.reset()

    def step(self, tokens):
        h = self.table[torch.tensor(tokens)].float()
        for layer in self.layers:
            h = layer.step(h)
        u = rms_norm(h, self.norm, self.eps).to(self.head.dtype)
        return F.linear(u, self.head).float().numpy()

    def absorb(self, tokens, every):
        logits = [self.step([token]) for token in tokens]
        return [row for (row,) in logits] if every else logits[-1]

    def about(self):
        return {"torch": torch.__version__}


def add_options(parser):
    parser.add_argument("--dtype", choices=("bfloat16", "float32"),
                        default="bfloat16", help="of the matrices")


if __name__ == "__main__":
    worker.run(__doc__, TorchModel, add_options)
