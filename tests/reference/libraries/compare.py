#!/usr/bin/env python3
"""Compares the reference with the libraries whose models it describes.

  compare.py [CASE...]    the golden cases of these names, or all of them,
                          with every library that has their family; without
                          names also the plain recurrences and the models
                          that the libraries make themselves

One line per comparison: what, library and version, its class or function and
the error, which is the RMS of the difference relative to that of the float64
values, or why the library was left out. The libraries compute in float32, so
1e-5 is asked for; where one can be had to compute in float64, it does so too.

Ends with 1 if a comparison is worse, and with 77 where a package is missing.
`run` installs the packages.
"""

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "../../golden")
BOUND = 1e-5
SKIPPED = 77

# Where `run` installs by default.
PYTHON = os.path.abspath(
    os.path.join(HERE, "../../../build/libraries/bin/python"))

PACKAGES = ("numpy", "torch", "triton", "transformers", "fla", "mamba_ssm",
            "fast_transformers", "safetensors")

# Each runs in a process of its own: transformers would use mamba_ssm, and fla
# takes names of transformers' models.
JOBS = ("from_transformers", "from_fla", "naive_fla", "from_mamba_ssm",
        "recurrences")


class Report:
    """Prints the comparisons of a job and counts them."""

    def __init__(self):
        self.compared = self.worse = 0

    def line(self, what, library, name, verdict):
        version = importlib.metadata.version(library)
        print(f"{what:46} {library:26} {version:12} {name or '-':44} {verdict}",
              flush=True)

    def compare(self, what, library, name, values, expected):
        import numpy as np  # may be missing, see main
        error = np.sqrt(np.mean((values - expected)**2) / np.mean(expected**2))
        self.compared += 1
        worse = not error <= BOUND
        self.worse += worse
        self.line(what, library, name,
                  f"{error:.1e}" + (" WORSE" if worse else ""))


def golden_cases(names, model_types):
    """(name, folder) of the cases of these families."""
    for name in names or sorted(os.listdir(GOLDEN)):
        folder = os.path.join(GOLDEN, name)
        path = os.path.join(folder, "config.json")
        if not os.path.exists(path):
            continue  # README.md
        with open(path) as file:
            if json.load(file)["model_type"] in model_types:
                yield name, folder


def compare_golden(report, library, names):
    import numpy as np
    from checkpoints import Unsupported
    for name, folder in golden_cases(names, library.MODELS):
        with open(os.path.join(folder, "token_ids.json")) as file:
            tokens = json.load(file)
        try:
            values, maker = library.logits(folder, tokens)
        except Unsupported as reason:
            report.line(name, library.LIBRARY, "", f"left out: {reason}")
            continue
        expected = np.load(os.path.join(folder, "logits.npy"))
        report.compare(name, library.LIBRARY, maker, values, expected)
        if hasattr(library, "logits_double"):
            values, maker = library.logits_double(folder, tokens)
            report.compare(name, library.LIBRARY, maker, values, expected)


def compare_initialised(report, library):
    import initialised
    with tempfile.TemporaryDirectory() as folder:
        for what, name, values, expected in initialised.results(
                library, library.classes, folder):
            report.compare(what + " (written by the library)",
                           library.LIBRARY, name, values, expected)


def run_job(job, names):
    """What a process of its own does; its exit code."""
    import torch
    torch.set_num_threads(1)
    report, library = Report(), importlib.import_module(job)
    if job == "recurrences":
        for what, package, name, values, expected in library.results():
            report.compare(what, package, name, values, expected)
    else:
        compare_golden(report, library, names)
        if hasattr(library, "classes") and not names:
            compare_initialised(report, library)
    print(f"{job}: {report.compared} compared, {report.worse} worse than "
          f"{BOUND:g}", flush=True)
    return 1 if report.worse or not (names or report.compared) else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", metavar="CASE", nargs="*")
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        return run_job(arguments.job, arguments.cases)
    missing = [name for name in PACKAGES
               if importlib.util.find_spec(name) is None]
    if missing and os.path.exists(PYTHON) and sys.executable != PYTHON:
        os.execv(PYTHON, [PYTHON, "-B", *sys.argv])
    if missing:
        print("skipped: without " + ", ".join(missing)
              + "; tests/reference/libraries/run installs them")
        return SKIPPED
    jobs = [job for job in JOBS
            if not (arguments.cases and job == "recurrences")]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore",
                   "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1",
                   "TQDM_DISABLE": "1"}
    codes = [subprocess.run([sys.executable, __file__, "--job", job,
                             *arguments.cases], env=environment,
                            check=False).returncode for job in jobs]
    return max(1 if code else 0 for code in codes)


if __name__ == "__main__":
    sys.exit(main())
