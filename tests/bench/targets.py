#!/usr/bin/python3
"""Runs every benchmark that has a target and prints the table of tests/bench.

Each report is kept as DIR/NAME.json and is not made again while it is there.
With --quick, which measures nothing, models are tiny, and a folder with such
reports is refused without it. The program is that of build/release, or
--program. The comparison with other engines is tests/bench/peers/run. Needs
Python only, 24 GiB of memory and, on a quiet machine of two processors, about
an hour.

  tests/bench/targets.py /tmp/reports
  tests/bench/targets.py /tmp/reports --only kernels,mixed
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def spread(row, key, digits=2):
    """A median with its 10th and 90th percentile, where they are known."""
    text = f"{row[key]:.{digits}f}"
    if f"{key}_p10" in row:
        text += (f" ({row[f'{key}_p10']:.{digits}f}-"
                 f"{row[f'{key}_p90']:.{digits}f})")
    return text


def kernels(report):
    """The step kernels by the larger team, worst first."""
    threads = max(row["threads"] for row in report["steps_in_dram"])
    rows = sorted((row for row in report["steps_in_dram"]
                   if row["threads"] == threads), key=lambda r: r["fraction"])
    yield ("step kernels with states in DRAM over the bandwidth of read+write",
           ">= 0.9",
           "; ".join(f"{row['kernel']} {row['head']} {spread(row, 'fraction')}"
                     for row in rows))


def engine(report):
    targets = {1: 0.65, 8: 0.65, 32: 0.75, 128: 0.75}
    for row in report["decode"]:
        target = targets.get(row["sessions"])
        yield (f"decode step at {row['sessions']} sessions: limit over measured",
               f">= {target}" if target else "",
               spread(row, "limit_over_measured")
               + f"; {spread(row, 'tokens_per_second', 1)} tokens/s")
    for row in report["prefill"]:
        yield (f"prefill of {row['prompt_tokens']} tokens", "",
               spread(row, "tokens_per_second", 0) + " tokens/s")


def served(target):
    def rows(report):
        for row in report["serve"]:
            yield (f"{row['model']} over gRPC, {row['streams']} streams, over "
                   "in process", f">= {target}",
                   spread(row, "served_over_engine", 3)
                   + f"; {spread(row, 'tokens_per_second', 0)} tokens/s")
    return rows


def server_cpu(target):
    def rows(report):
        for row in report["serve"]:
            yield (f"server CPU per step of a no-op model, {row['sessions']} "
                   f"sessions over {row['streams']} streams",
                   f"<= {target} us",
                   spread(row, "server_cpu_us_per_step") + " us")
    return rows


def age(report):
    for row in report["age"]:
        yield (f"latency after {row['position']:,} tokens over a fresh "
               f"session, {row['family']}", "<= 1.02",
               f"{row['ratio']:.3f} ({row['ratio_low']:.3f}-"
               f"{row['ratio_high']:.3f})")


def sessions(report):
    for row in report["sessions"]:
        yield (f"live sessions of {row['model']}, {row['checked']:,} of them "
               "replayed alone", "100,000",
               f"{row['sessions']:,}; {row['differing']} differ")
        yield ("their resident memory over the exact bytes of their states",
               "<= 1.10", f"{row['resident_over_states']:.3f}")


def mixed(report):
    for row in report["mixed"]:
        yield (f"{row['model']}, {row['sessions']} streams beside prompts of "
               f"{row['prompt_tokens']}: p99 between tokens over unloaded",
               "<= 3", f"{row['p99_ratio']:.2f}")
        yield ("prefill beside them over unloaded", ">= 0.5",
               f"{row['prefill_ratio']:.2f}")


# name: (arguments, what makes rows (what, target, measured) of the report)
BENCHMARKS = {
    "kernels": ("kernels", kernels),
    "engine": ("engine --shape mamba2-370m", engine),
    "serve-gla-340m": ("serve --shape gla-340m --compare_engine", served(0.95)),
    "serve-demo": ("serve --model deploy/models/demo --compare_engine",
                   served(0.6)),
    "serve-noop": ("serve --shape noop", server_cpu(12)),
    "serve-noop-one-stream": ("serve --shape noop --streams 1",
                              server_cpu(1.5)),
    "age": ("age", age),
    "mixed": ("mixed --shape mamba2-130m", mixed),
    "sessions": ("sessions --model deploy/models/demo", sessions),
}


class Unusable(Exception):
    """Why there is no table."""


def command_line(name, quick):
    """The arguments of a benchmark; quickly with a tiny model."""
    text = BENCHMARKS[name][0]
    if not quick:
        return text
    return re.sub("--shape (?!noop)[^ ]+", "--shape mamba2-tiny",
                  text) + " --quick"


def is_quick(report):
    return report["environment"].get("quick", False)


def read_report(name, arguments):
    """The report of a benchmark that has been run, or None."""
    path = arguments.folder / f"{name}.json"
    if not path.exists():
        return None
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        benchmark, quick = report["benchmark"], is_quick(report)
    except (ValueError, KeyError, TypeError) as error:
        raise Unusable(f"{path} is no report: remove it") from error
    if benchmark != BENCHMARKS[name][0].split()[0]:
        raise Unusable(f"{path} is a report of {benchmark}: remove it")
    if quick and not arguments.quick:
        raise Unusable(f"{path} was made with --quick and measures nothing: "
                       "remove it, or say --quick")
    return report


def make_report(name, arguments):
    print(f"{name} ...", file=sys.stderr, flush=True)
    command = [arguments.program,
               *shlex.split(command_line(name, arguments.quick)), "--json"]
    done = subprocess.run(command, cwd=ROOT, check=False, text=True,
                          stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise Unusable(f"{name}: steadystate-bench ended with "
                       f"{done.returncode}")
    path = arguments.folder / f"{name}.json"
    path.write_text(done.stdout, encoding="utf-8")
    return json.loads(done.stdout)


def print_table(arguments):
    # An hour may pass until the last of them is looked at: look first.
    reports = {name: read_report(name, arguments) for name in arguments.only}
    if None in reports.values() and not os.access(arguments.program, os.X_OK):
        raise Unusable(f"no program {arguments.program}: build the tests in "
                       "release, or say --program")
    print("| what | target | measured | by steadystate-bench |\n"
          "|---|---|---|---|", flush=True)
    for name, report in reports.items():
        if report is None:
            report = make_report(name, arguments)
        command = command_line(name, is_quick(report))
        for what, target, measured in BENCHMARKS[name][1](report):
            print(f"| {what} | {target} | {measured} | `{command}` |",
                  flush=True)


def names(text):
    chosen = text.split(",")
    for name in chosen:
        if name not in BENCHMARKS:
            raise argparse.ArgumentTypeError(
                f"'{name}' is none of {', '.join(BENCHMARKS)}")
    return chosen


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="of the reports")
    parser.add_argument("--only", type=names, default=list(BENCHMARKS),
                        help="some of " + ",".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true",
                        help="shows that everything works, measures nothing")
    parser.add_argument("--program", metavar="FILE",
                        type=lambda path: pathlib.Path(path).resolve(),
                        default=ROOT / "build/release/bin/steadystate-bench")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    try:
        print_table(arguments)
    except Unusable as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
