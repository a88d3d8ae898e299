"""Reads YAML with what Debian packages: python3-yaml."""

import json
import subprocess

# The system's Python has it; the one that runs the tests may be another.
_TO_JSON = """
import json, sys, yaml
json.dump(yaml.safe_load(sys.stdin), sys.stdout)
"""


def available():
    """Whether load() works here; if not, install python3-yaml."""
    try:
        probe = subprocess.run(["/usr/bin/python3", "-c", "import yaml"],
                               capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return probe.returncode == 0


def load(path):
    """The content of a file as dicts, lists, strings and numbers."""
    with open(path, encoding="utf-8") as file:
        converted = subprocess.run(
            ["/usr/bin/python3", "-c", _TO_JSON], stdin=file,
            capture_output=True, text=True, check=False)
    if converted.returncode != 0:
        raise ValueError(f"{path}: {converted.stderr.strip()}")
    return json.loads(converted.stdout)
