#!/usr/bin/env python3
"""Makes the tables of README.md of what compare.py prints.

  compare.py | table.py

Cases that one library left out and another compared are no news: they are
not among those left out.
"""

import re
import sys

LINE = re.compile(r"(\S.*?) {2,}(\S+) +(\d\S*) +(\S.*?) {2,}(left out: .*|\S+)$")
COLUMNS = ("transformers", "transformers, float64", "fla, kernels",
           "fla, plain", "mamba-ssm")


def column(library, name):
    """Which of COLUMNS a comparison of a golden case belongs to."""
    if library == "flash-linear-attention":
        return "fla, kernels" if name.endswith("ForCausalLM") else "fla, plain"
    return library + (", float64" if name.endswith(", float64") else "")


def main():
    cases, others, reasons = {}, [], {}
    for line in sys.stdin:
        match = LINE.match(line.rstrip())
        if not match:
            continue
        what, library, version, name, verdict = match.groups()
        if verdict.startswith("left out: "):
            reason = (library, verdict.removeprefix("left out: "))
            reasons.setdefault(reason, {})[what] = True
        elif ":" in what or "(" in what:
            others.append((what, library, name, verdict))
        else:
            cases.setdefault(what, {})[column(library, name)] = verdict
    print("| case | " + " | ".join(COLUMNS) + " |")
    print("|---|" + "---|" * len(COLUMNS))
    for what in sorted(cases):
        print(f"| {what} | " + " | ".join(
            cases[what].get(name, "-") for name in COLUMNS) + " |")
    print("\n| what | library | its class or function | error |")
    print("|---|---|---|---|")
    for row in others:
        print("| " + " | ".join(row) + " |")
    print("\n| left out | library | because |\n|---|---|---|")
    for (library, reason), whats in reasons.items():
        alone = [what for what in whats if what not in cases]
        if alone:
            print(f"| {', '.join(alone)} | {library} | {reason} |")


if __name__ == "__main__":
    main()
