#!/usr/bin/env python3
"""Makes the tables of errors and of state sizes in server/model/mixers/README.md
and here.

  table.py BUILD_DIR          measures and writes
  table.py BUILD_DIR --check  measures the state sizes, and compares

Errors are what BUILD_DIR/tests/steadystate_model_golden_test measures over
all golden cases of a family, the worst of them, rounded up to one digit with
something to spare, so that they hold on other machines too: that test fails
where they do not. Bytes of state are what a server tells of a checkpoint of
the family's usual widths, hidden_size 1024, and 24 layers. Needs NumPy and
a CPU with native bf16 (--check: any).
"""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).resolve().parent
ROOT = GOLDEN.parents[1]
FAMILIES_README = ROOT / "server/model/mixers/README.md"
sys.path[:0] = [str(ROOT / "tests/reference"), str(ROOT / "tests")]

BEGIN = "<!-- made by tests/golden/table.py: begin -->\n"
END = "<!-- made by tests/golden/table.py: end -->\n"

WIDTH, LAYERS = 1024, 24

# What a config of that width has beside the family's defaults; as many layers
# as tell the shares of their kinds, 1 where there is one kind.
SIZES = {
    "bailing_hybrid": {
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_experts": 8,
        "num_experts_per_tok": 1,
        "moe_intermediate_size": 16,
    },
    "bamba": {
        "num_hidden_layers": 6,
        "attn_layer_indices": [5],
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "mamba_n_heads": 32,
        "mamba_d_state": 128,
    },
    "delta_net": {"num_heads": 8},
    "falcon_h1": {
        "hidden_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "mamba_d_ssm": 2048,
        "mamba_n_heads": 32,
        "mamba_d_state": 128,
    },
    "gated_deltanet": {"num_heads": 4, "head_dim": 256},
    "gla": {},
    "granitemoehybrid": {
        "num_local_experts": 0,
        "num_hidden_layers": 6,
        "layer_types": ["mamba"] * 5 + ["attention"],
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "mamba_n_heads": 32,
        "mamba_d_state": 128,
    },
    "hgrn": {},
    "hgrn2": {},
    "jamba": {
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "num_experts": 1,
    },
    "kda": {"num_heads": 8, "head_dim": 128},
    "kimi_linear": {
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "linear_attn_config": {
            "num_heads": 8,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
            "kda_layers": [1, 2, 3],
            "full_attn_layers": [4],
        },
        "num_experts": 2,
        "num_experts_per_token": 1,
        "moe_intermediate_size": 16,
    },
    "lfm2": {
        "num_hidden_layers": 3,
        "num_attention_heads": 16,
        "full_attn_idxs": [2],
    },
    "lfm2_moe": {
        "num_hidden_layers": 3,
        "num_attention_heads": 16,
        "layer_types": ["conv", "conv", "full_attention"],
        "num_experts": 2,
        "num_experts_per_tok": 1,
        "moe_intermediate_size": 16,
    },
    "lfm3": {
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
    },
    "linear_attn": {"feature_map": "elu", "num_heads": 8},
    "linear_recurrence": {"num_heads": 8, "head_k_dim": 64, "head_v_dim": 128},
    "falcon_mamba": {"intermediate_size": 2048},
    "mamba": {},
    "mamba2": {"num_heads": 32, "n_groups": 1},
    "nemotron_h": {
        "hybrid_override_pattern": "M-M-M-M-M*M-",
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "mamba_num_heads": 32,
    },
    "olmo_hybrid": {"num_hidden_layers": 4, "num_attention_heads": 8},
    "qwen3_5": {
        "model_type": "qwen3_5_text",
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "linear_num_value_heads": 16,
    },
    "qwen3_5_moe": {
        "model_type": "qwen3_5_moe_text",
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "linear_num_value_heads": 16,
        "num_experts": 2,
        "num_experts_per_tok": 1,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    },
    "qwen3_next": {
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "linear_num_value_heads": 16,
        "num_experts": 2,
        "num_experts_per_tok": 1,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    },
    "recurrent_gemma": {
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
    },
    "retnet": {},
    "rwkv6": {},
    "rwkv7": {
        "decay_low_rank_dim": 64,
        "gate_low_rank_dim": 128,
        "a_low_rank_dim": 64,
        "v_low_rank_dim": 32,
    },
    "simple_gla": {},
    "transformer": {"num_heads": 16},
    "xlstm": {},
}

# Other instruction sets round differently; bf16's error hardly cares.
SPARE = {"f32": 1.5, "bf16": 1.2}

# Libraries as tests/reference/libraries/README.md calls them, and here.
LIBRARIES = {
    "transformers": "transformers",
    "transformers, float64": "transformers",
    "flash-linear-attention": "fla",
    "fla, kernels": "fla",
    "fla, plain": "fla",
    "mamba-ssm": "mamba-ssm",
    "pytorch-fast-transformers": "fast-transformers",
}


def families():
    """model_type of every row of the registry, by name."""
    sources = (ROOT / "server/model/mixers").glob("*.cc")
    return sorted(
        name for source in sources
        for name in re.findall(r'\.model_type = "(\w+)"', source.read_text()))


def family_of(case):
    return case.split("-")[0]


def judges():
    """{model_type: the libraries that agree with the float64 reference}."""
    found = {}
    header = []
    text = (ROOT / "tests/reference/libraries/README.md").read_text()
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in ("case", "what") or len(cells) < 2:
            header = cells
            continue
        family = re.match(r"\w*", cells[0])[0]
        if header[:2] == ["what", "library"] and cells[1] in LIBRARIES:
            found.setdefault(family, set()).add(LIBRARIES[cells[1]])
        if header[:1] == ["case"]:
            for library, error in zip(header[1:], cells[1:]):
                if re.match(r"\d", error):
                    found.setdefault(family, set()).add(LIBRARIES[library])
    return {family: ", ".join(sorted(names)) for family, names in found.items()}


# --- bytes of state -----------------------------------------------------------


def write_checkpoint(folder, model_type):
    from cases import VOCAB, Case
    from families import FAMILIES
    from tensor_file import write_weights

    values = {
        "model_type": model_type,
        "hidden_size": WIDTH,
        "num_hidden_layers": 1,
        "vocab_size": VOCAB,
        "intermediate_size": 64,
        **SIZES[model_type],
    }
    (folder / "config.json").write_text(json.dumps(values))
    tensors = Case(FAMILIES[model_type], values, {}, 1).make()
    write_weights(str(folder), tensors, "F16")


def describe(folder):
    """GetModel of the server that serves `folder`."""
    from testing.server_process import BIN_DIR, ServerProcess

    # With weights in bf16 caches are too.
    with ServerProcess("--cache_dtype", "f32", model=folder) as server:
        command = [BIN_DIR / "steadystate", "model", "--json"]
        return json.loads(
            subprocess.check_output([*command, "--address", server.grpc])
        )


def state_of(model_type):
    """What a session of the usual size keeps, in words."""
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(pathlib.Path(folder), model_type)
        kinds = describe(folder)["layer_kinds"]
    times = LAYERS // sum(kind["layer_count"] for kind in kinds)
    fixed = times * sum(kind["fixed_bytes"] for kind in kinds)
    growing = times * sum(kind["bytes_per_token"] for kind in kinds)
    return " and ".join(
        [f"{fixed:,}"] * (fixed > 0) + [f"{growing:,} a token"] * (growing > 0))


# --- errors -------------------------------------------------------------------


def measure(build):
    """{(case, "f32" or "bf16"): error} as the golden test measures it."""
    with tempfile.NamedTemporaryFile("r") as results:
        subprocess.run(
            [build / "tests/steadystate_model_golden_test", "--gtest_brief=1"],
            env={**os.environ, "STEADYSTATE_GOLDEN_RESULTS": results.name},
            stdout=subprocess.DEVNULL,
        )
        lines = [line.split() for line in results]
    return {(case, weights): float(error) for case, weights, error in lines}


def round_up(error, digits=1):
    """To so many digits, as text."""
    exponent = math.floor(math.log10(error))
    unit = 10.0 ** (exponent - digits + 1)
    return "%.*e" % (digits - 1, math.ceil(error / unit - 1e-9) * unit)


def short(number):
    """2e-06 as 2e-6."""
    return re.sub(r"e-0", "e-", number)


def worst(errors, model_type, weights):
    """The bound of a family's errors."""
    found = [
        error
        for (case, of), error in errors.items()
        if family_of(case) == model_type and of == weights
    ]
    return short(round_up(SPARE[weights] * max(found)))


# --- tables -------------------------------------------------------------------


def readme_table(errors):
    lines = [
        "| `model_type` | state of a session, bytes | cases | f32 | bf16 "
        "| reference agrees with |",
        "|---|---|---|---|---|---|",
    ]
    agreeing = judges()
    for model_type in families():
        cases = {case for case, _ in errors if family_of(case) == model_type}
        lines.append(
            "| `%s` | %s | %d | %s | %s | %s |"
            % (
                model_type,
                state_of(model_type),
                len(cases),
                worst(errors, model_type, "f32"),
                worst(errors, model_type, "bf16"),
                agreeing.get(model_type, "-"),
            )
        )
    return "".join(line + "\n" for line in lines)


def between_markers(path):
    """(what is before, what is between, what is after) the markers."""
    before, rest = path.read_text().split(BEGIN)
    table, after = rest.split(END)
    return before + BEGIN, table, END + after


def fill_cases(errors):
    """The columns f32 and bf16 of the cases' table."""
    path = GOLDEN / "README.md"
    lines = path.read_text().split("\n")
    for i, line in enumerate(lines):
        cells = line.split(" | ")
        case = cells[0].removeprefix("| ")
        if len(cells) == 5 and (case, "f32") in errors:
            cells[2] = short("%.1e" % errors[case, "f32"])
            cells[3] = short("%.1e" % errors[case, "bf16"])
            lines[i] = " | ".join(cells)
    path.write_text("\n".join(lines))


def check():
    """Whether the README tells the state sizes that a server tells."""
    _, table, _ = between_markers(FAMILIES_README)
    wrong = 0
    for model_type in families():
        row = "| `%s` | %s |" % (model_type, state_of(model_type))
        if row not in table:
            print(FAMILIES_README, "lacks:", row)
            wrong += 1
    return wrong


def main(arguments):
    if arguments[0] == "--help":
        print(__doc__)
        return 0
    build = pathlib.Path(arguments[0]).resolve()
    os.environ.setdefault("STEADYSTATE_BIN_DIR", str(build / "bin"))
    if arguments[1:] == ["--check"]:
        return check()
    errors = measure(build)
    before, _, after = between_markers(FAMILIES_README)
    (FAMILIES_README).write_text(before + readme_table(errors) + after)
    fill_cases(errors)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
