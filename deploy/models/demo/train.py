#!/usr/bin/python3
"""Trains the demo model: a byte-level gated linear attention (GLA) model.

All steps from the text to model.safetensors:

  corpus     extract prose from a Debian package of HTML documentation
  train      train, or continue a killed run, writing checkpoints to --work
  export     write the files beside this one from the last checkpoint: model,
             texts, and the figure that a server must reproduce
  evaluate   held-out bits per byte of the last checkpoint
  verify     check an exported model with a second, NumPy-only implementation
  sample     continue a prompt with an exported model
  selfcheck  compare the chunkwise recurrence with the plain one in float64

Needs Debian's python3-torch (1.13 or newer, CPU) and python3-numpy, for speed
also libopenblas0-openmp, and for `corpus` the file that `apt-get download
sqlite3-doc` fetches. MODEL_CARD.md gives the commands of the published model.

The model is in gla.py, where letters in shapes are explained: B rows, T tokens.
"""

import argparse
import json
import math
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import corpus
import gla
import reference
import tensor_file


class Streams:
    """B readers of the corpus, each a row of every batch.

    A reader goes on where it stopped, and its row keeps its state, so that the
    model learns from more than one segment's context. With probability
    `restart` it jumps to a random place instead and its state becomes zero.
    """

    def __init__(self, text, rows, tokens, restart, seed):
        self._text = text
        self._tokens = tokens
        self._restart = restart
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._places = np.full(rows, len(text))  # forces a restart

    def next(self):
        """Returns i64[B, T + 1] tokens and f32[B], 0 where a row restarted."""
        limit = len(self._text) - self._tokens - 1
        draws = self._random.random(len(self._places))
        fresh = self._random.integers(0, limit, len(self._places))
        jumps = (draws < self._restart) | (self._places >= limit)
        self._places = np.where(jumps, fresh, self._places)
        rows = [self._text[p:p + self._tokens + 1] for p in self._places]
        self._places = self._places + self._tokens
        return (torch.from_numpy(np.stack(rows).astype(np.int64)),
                torch.from_numpy((~jumps).astype(np.float32)))

    def position(self):
        """Returns what resume() needs to go on from here."""
        return {"places": self._places,
                "random": self._random.bit_generator.state}

    def resume(self, position):
        """Goes on from a position() of an earlier process."""
        self._places = position["places"]
        self._random.bit_generator.state = position["random"]


def learning_rate(step, args):
    """The share of the peak rate: warm-up, plateau, then linear to zero."""
    cooldown = args.cooldown * args.steps
    return min(1.0, (step + 1) / args.warmup, (args.steps - step) / cooldown)


def orthogonalised(matrix):
    """Returns the nearest semi-orthogonal matrix, roughly, by Newton-Schulz."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix).bfloat16()
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.T if tall else x).float()


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalised, for the layers' matrices."""

    def __init__(self, matrices, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(matrices, dict(lr=lr, momentum=momentum,
                                        weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                average = self.state[w].setdefault("average",
                                                   torch.zeros_like(w))
                average.lerp_(w.grad, 1 - group["momentum"])
                update = orthogonalised(
                    w.grad.lerp(average, group["momentum"]))
                scale = max(1.0, w.shape[0] / w.shape[1]) ** 0.5
                w.mul_(1 - group["lr"] * group["weight_decay"])
                w.add_(update, alpha=-group["lr"] * scale)


def make_optimisers(weights, args):
    """AdamW for all weights, or only for those that are no layer's matrix."""
    is_hidden = lambda n, w: (args.optimiser == "muon" and w.dim() == 2
                              and n.startswith("model.layers"))
    hidden = [w for n, w in weights.items() if is_hidden(n, w)]
    others = [(n, w) for n, w in weights.items() if not is_hidden(n, w)]
    groups = [
        {"params": [w for n, w in others if w.dim() == 2], "weight_decay": 0.1},
        {"params": [w for n, w in others if w.dim() != 2], "weight_decay": 0.0},
    ]
    optimisers = [torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.98))]
    if hidden:
        optimisers.append(Muon(hidden, lr=args.muon_lr, weight_decay=0.1))
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["peak_lr"] = group["lr"]
    return optimisers


def train_step(weights, optimisers, streams, state, rate):
    """One update. Returns the loss in bits per byte and the carried state."""
    tokens, kept = streams.next()
    state = [(matrix * kept[:, None, None, None], window * kept[:, None, None])
             for matrix, window in state]
    logits, state = gla.forward(weights, gla.CONFIG, tokens[:, :-1], state,
                                torch.bfloat16)
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group["peak_lr"] * rate
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    state = [(matrix.detach(), window) for matrix, window in state]
    return loss.item() / math.log(2), state


def checkpoint_path(work):
    return os.path.join(work, "checkpoint.pt")


def save_checkpoint(work, weights, optimisers, streams, state, step):
    """Replaces the checkpoint in one rename: a kill leaves a whole one."""
    path = checkpoint_path(work)
    torch.save({"weights": {name: w.detach() for name, w in weights.items()},
                "optimisers": [o.state_dict() for o in optimisers],
                "streams": streams.position(), "state": state, "step": step},
               path + ".new")
    os.replace(path + ".new", path)


def load_checkpoint(work, weights, optimisers, streams):
    """Fills the arguments from the last checkpoint. Returns (state, step)."""
    saved = torch.load(checkpoint_path(work))
    for name, w in weights.items():
        w.data.copy_(saved["weights"][name])
    for optimiser, old in zip(optimisers, saved["optimisers"]):
        optimiser.load_state_dict(old)
    streams.resume(saved["streams"])
    return saved["state"], saved["step"]


def load_weights(work):
    """Returns (weights, steps done) of the last checkpoint."""
    checkpoint = torch.load(checkpoint_path(work))
    return checkpoint["weights"], checkpoint["step"]


def train(args):
    """Trains up to --steps, from the last checkpoint where there is one."""
    torch.set_num_threads(args.threads)
    weights = gla.initial_weights(gla.CONFIG, args.seed)
    optimisers = make_optimisers(weights, args)
    streams = Streams(corpus.load_bytes(args.work, "train.bin"), args.rows,
                      args.tokens, args.restart, args.seed)
    state, first = gla.initial_state(gla.CONFIG, args.rows), 0
    if os.path.exists(checkpoint_path(args.work)):
        state, first = load_checkpoint(args.work, weights, optimisers, streams)
    started, losses = time.time(), []
    for step in range(first, args.steps):
        loss, state = train_step(weights, optimisers, streams, state,
                                 learning_rate(step, args))
        losses.append(loss)
        done = step + 1
        if done % args.report == 0 or done == args.steps:
            rate = ((done - first) * args.rows * args.tokens
                    / (time.time() - started))
            print(f"step {done} bits_per_byte {np.mean(losses):.4f} "
                  f"bytes_per_second {rate:.0f}", flush=True)
            losses = []
        if done % args.save == 0 or done == args.steps:
            save_checkpoint(args.work, weights, optimisers, streams, state,
                            done)


@torch.no_grad()
def stream_bits(weights, config, text, tokens=4096):
    """Returns f32[bytes], the bits that each byte of u8[bytes] costs.

    One stream from a zero state, which is never reset. Nothing precedes the
    first byte; it costs 8 bits.
    """
    padding = -(len(text) - 1) % gla.CHUNK
    sequence = torch.from_numpy(np.pad(text, (0, padding)).astype(np.int64))
    inputs, targets = sequence[:-1], sequence[1:]
    state, losses = gla.initial_state(config, 1), []
    for x, y in zip(inputs.split(tokens), targets.split(tokens)):
        logits, state = gla.forward(weights, config, x[None], state)
        losses.append(F.cross_entropy(logits[0], y, reduction="none"))
    bits = torch.cat(losses)[:len(text) - 1] / math.log(2)
    return np.concatenate([[8.0], bits.numpy()])


def make_corpus(args):
    """Writes train.bin and heldout.bin from the package's pages."""
    corpus.write_corpus(args.deb, args.work)


def evaluate(args):
    """Measures the last checkpoint on the held-out text, in float32."""
    torch.set_num_threads(args.threads)
    weights, step = load_weights(args.work)
    text = corpus.load_bytes(args.work, "heldout.bin")[:args.limit]
    figure = stream_bits(weights, gla.CONFIG, text).mean()
    print(f"step {step} held-out bytes {len(text)} bits_per_byte {figure:.4f}")


def export(args):
    """Writes the model of the last checkpoint, its texts and its figure."""
    torch.set_num_threads(args.threads)
    weights, step = load_weights(args.work)
    with open(os.path.join(args.model, "config.json"), "w") as out:
        out.write(json.dumps(gla.CONFIG, indent=2) + "\n")
    path = os.path.join(args.model, "model.safetensors")
    tensor_file.write(path, {n: w.numpy() for n, w in weights.items()})
    corpus.publish(args.work, args.model)
    text = corpus.load_bytes(args.work, "heldout.bin")
    figure = stream_bits(weights, gla.CONFIG, text).mean()
    with open(os.path.join(args.model, "evaluation.json"), "w") as out:
        json.dump({"step": step, "held_out_bytes": len(text),
                   "bits_per_byte": round(float(figure), 6)}, out, indent=2)
        out.write("\n")
    print(f"exported step {step}: {sum(w.numel() for w in weights.values())} "
          f"parameters, {os.path.getsize(path)} bytes, {figure:.4f} bits per "
          f"byte of the {len(text)} held-out bytes")


def load_model(folder):
    """Returns (f32 NumPy tensors, config) of an exported model."""
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    return tensor_file.read(os.path.join(folder, "model.safetensors")), config


def verify(args):
    """Compares both implementations on the start of the held-out text."""
    tensors, config = load_model(args.model)
    shapes = {n: tuple(t.shape) for n, t in tensors.items()}
    if shapes != gla.weight_shapes(config):
        sys.exit("the tensors do not have the names and shapes of the config")
    text = np.fromfile(os.path.join(args.model, "heldout.bin"), dtype=np.uint8)
    text = text[:args.limit or 4096]
    weights = {n: torch.from_numpy(t.copy()) for n, t in tensors.items()}
    chunkwise = stream_bits(weights, config, text).mean()
    plain = reference.bits_per_byte(reference.NumpyModel(tensors, config), text)
    print(f"bits per byte of {len(text)} held-out bytes: "
          f"chunkwise {chunkwise:.6f}, NumPy {plain:.6f}")
    if abs(chunkwise - plain) > 0.01 * plain:
        sys.exit("the two implementations differ by more than 1 %")


@torch.no_grad()
def sample(args):
    """Continues --prompt by --length bytes at --temperature."""
    tensors, config = load_model(args.model)
    weights = {n: torch.from_numpy(t.copy()) for n, t in tensors.items()}
    random = torch.Generator().manual_seed(args.seed)
    tokens = [config["bos_token_id"], *args.prompt.encode()]
    state = gla.initial_state(config, 1)
    for position in range(len(tokens) + args.length - 1):
        token = torch.tensor([[tokens[position]]])
        logits, state = gla.forward(weights, config, token, state)
        if position + 1 < len(tokens):
            continue
        if args.temperature > 0:
            odds = F.softmax(logits[0, 0] / args.temperature, 0)
            tokens.append(torch.multinomial(odds, 1, generator=random).item())
        else:
            tokens.append(logits[0, 0].argmax().item())
        if tokens[-1] == config["eos_token_id"]:
            break
    print(bytes(tokens[1:]).decode("utf-8", "replace"))


def selfcheck(args):
    """Checks the chunkwise form against the plain one in float64."""
    torch.manual_seed(args.seed)
    shape = (2, 4 * gla.CHUNK, 3)
    for strength in (0.01, 1.0, 3.0):  # about 50 nepers of decay in a chunk
        draw = lambda width: torch.randn(*shape, width, dtype=torch.float64,
                                         requires_grad=True)
        inputs = [draw(8), draw(8), draw(12), draw(8)]
        start = torch.randn(2, 3, 8, 12, dtype=torch.float64)
        results = []
        for form in (gla.plain, gla.chunkwise):
            q, k, v, gate = inputs
            o, state = form(q, k, v, -strength * gate.sigmoid(), start)
            loss = o.square().sum() + state.sin().sum()
            results.append((o, state, *torch.autograd.grad(loss, inputs)))
        worst = max(((a - b).abs().max() / b.abs().max()).item()
                    for a, b in zip(*results))
        print(f"decay {strength}: worst relative difference {worst:.1e}")
        if worst > 1e-9:
            sys.exit("the chunkwise form is wrong")


OPTIONS = {
    "deb": dict(required=True, help="file of the package sqlite3-doc"),
    "work": dict(required=True, help="folder of the corpus and checkpoints"),
    "model": dict(default=os.path.dirname(os.path.abspath(__file__)),
                  help="folder of config.json and model.safetensors"),
    "steps": dict(type=int, default=4600, help="updates in all"),
    "seed": dict(type=int, default=1, help="of weights, batches or samples"),
    "threads": dict(type=int, default=1, help="of torch"),
    "rows": dict(type=int, default=12, help="B, rows of a batch"),
    "tokens": dict(type=int, default=512, help="T, bytes of a row"),
    "restart": dict(type=float, default=0.01,
                    help="probability that a row jumps, with a zero state"),
    "warmup": dict(type=int, default=100, help="steps of rising rate"),
    "cooldown": dict(type=float, default=0.9,
                     help="share of --steps over which the rate falls to zero"),
    "optimiser": dict(choices=("adamw", "muon"), default="muon",
                      help="of the layers' matrices"),
    "lr": dict(type=float, default=3e-3, help="peak rate of AdamW"),
    "muon_lr": dict(type=float, default=0.02, help="peak rate of Muon"),
    "report": dict(type=int, default=25, help="steps between reports"),
    "save": dict(type=int, default=25, help="steps between checkpoints"),
    "limit": dict(type=int, help="bytes of held-out text"),
    "prompt": dict(default="The SELECT statement ", help="text to continue"),
    "length": dict(type=int, default=400, help="bytes to add"),
    "temperature": dict(type=float, default=0.7, help="0 takes the likeliest"),
}


def parse_arguments():
    """Returns the options of the chosen command, its function as `run`."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(function, *options, name=None):
        sub = commands.add_parser(
            name or function.__name__, description=function.__doc__,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        sub.set_defaults(run=function)
        for option in options:
            sub.add_argument(f"--{option}", **OPTIONS[option])

    command(make_corpus, "deb", "work", name="corpus")
    command(train, "work", "steps", "seed", "threads", "rows", "tokens",
            "restart", "warmup", "cooldown", "optimiser", "lr", "muon_lr",
            "report", "save")
    command(evaluate, "work", "threads", "limit")
    command(export, "work", "model", "threads")
    command(verify, "model", "limit")
    command(sample, "model", "prompt", "length", "temperature", "seed")
    command(selfcheck, "seed")
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse_arguments()
    arguments.run(arguments)
