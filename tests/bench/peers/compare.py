#!/usr/bin/env python3
"""Compares Steadystate with llama.cpp and PyTorch on the same weights.

Makes a random checkpoint (steadystate-bench checkpoint), writes it as
GGUF for llama.cpp, compares everybody's logits with a float64 reference,
searches the peers' best settings, and measures: in each round each
contender once, in a process of its own, in turns. A rate is the median of a
contender's rounds, a ratio the median of the rounds' ratios, beside the least
and the largest.

Ends with 1 if somebody's logits are further from the reference than rounding
explains. A peer that crashes is left out of what it crashed at, and the report
says so. `run` installs what this needs.
"""

import json
import sys

import logits
import options as command_line
import quantize
import report
import to_gguf
from contenders import LlamaCpp, Steadystate, Torch
from steadystate_peer import make_checkpoint
from turns import measure_group, say
from work import Work

# The most that logits may be off with such weights: four times what was found
# with mamba2-370m, and with the hybrids of random weights. Of four bits, by which
# these are off by 0.25 to 0.45, less than logits of something else are: 1.4.
BOUNDS = {"f32": 1e-4, "bf16": 0.05, "int8": 0.2, "q8_0": 0.2,
          **dict.fromkeys(("int4", "q4_0", "q4_k_m"), 0.9)}
HYBRID_BOUNDS = {**BOUNDS, "bf16": 0.25}


def works(options):
    """What is measured."""
    return [*(Work("prefill", count) for count in options.prefill),
            *(Work("decode", count, behind) for behind in options.behind
              for count in options.sequences)]


def gguf_file(options, folder, kind):
    """The checkpoint as GGUF in that type; what is there is kept."""
    file = options.folder / f"{options.shape}-{kind}.gguf"
    if file.exists():
        return file
    if kind in quantize.TYPES:
        source = gguf_file(options, folder, "bf16")
        say(f"making {file}")
        quantize.convert(source, file, kind)
    else:
        say(f"making {file}")
        to_gguf.convert(folder, file, kind)
    return file


def make_files(options):
    """(folder of the checkpoint, {type: GGUF file}); keeps what is there."""
    folder = options.folder / options.shape
    if not (folder / "model.safetensors").exists():
        say(f"making {folder}")
        options.folder.mkdir(parents=True, exist_ok=True)
        make_checkpoint(options.shape, folder)
    return folder, {kind: gguf_file(options, folder, kind)
                    for weights in options.weights
                    for kind in command_line.WEIGHTS[weights]}


def groups(options, folder, files):
    """[contenders that are measured in turns], ours first."""
    for weights in options.weights:
        group = [Steadystate(folder, weights, options.threads)]
        if options.state_dtype:
            group.append(Steadystate(folder, weights, options.threads,
                                     options.state_dtype))
        group += [LlamaCpp(files[kind], kind, options.threads)
                  for kind in command_line.WEIGHTS[weights]]
        if options.torch and weights == "bf16":
            group.append(Torch(folder, options.threads))
        yield group


def far_off(table, bounds):
    """Names of those whose logits are too far from the reference."""
    return [name for name, errors in table.items()
            if not max(errors["prefill"], errors["decode"])
            <= bounds[name.split(", ")[1]]]


def main():
    options = command_line.parse()
    folder, files = make_files(options)
    contenders = list(groups(options, folder, files))
    figures = {"shape": options.shape, "threads": options.threads,
               "logits": {}, "settings": [], "rows": [], "crashed": []}
    if options.tokens:
        say(f"logits of {options.tokens} tokens, seed {options.seed}")
        everybody = [contender for group in contenders for contender in group]
        figures["logits"] = logits.compare(everybody, folder, options.tokens,
                                           options.seed, figures["crashed"])
    if options.rounds:
        for group in contenders:
            measure_group(group, works(options), options, figures)
    figures["about"] = {contender.name: contender.about
                        for group in contenders for contender in group}
    print(report.text(figures, options.markdown))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    is_hybrid = options.shape in command_line.HYBRIDS
    wrong = far_off(figures["logits"], HYBRID_BOUNDS if is_hybrid else BOUNDS)
    if wrong:
        say("logits too far from the reference: " + "; ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
