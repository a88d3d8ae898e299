"""Runs README's commands in one shell, as a reader would, and compares what
they print with what README says that they print."""

import dataclasses
import re
import subprocess

from testing.server_process import BIN_DIR, ROOT

# Stands before every command's output, and after the last one's.
_MARK = "\036"


@dataclasses.dataclass(frozen=True)
class Result:
    command: object  # blocks.Command
    status: int
    output: str      # standard output and error, in the order of their arrival


def for_here(code, server):
    """A command as it must be to reach this build and this server."""
    code = code.replace("build/release/bin", str(BIN_DIR))
    code = code.replace(f"$PWD/{BIN_DIR}", str(BIN_DIR))
    for host in ("127.0.0.1", "localhost"):
        code = code.replace(f"{host}:50051", server.grpc)
        code = code.replace(f"{host}:9464", server.metrics)
    return code


def run_commands(commands, server, environment, timeout_s=300):
    """Runs commands one after the other in one bash; gives a Result each."""
    script = f"export STEADYSTATE_ADDRESS={server.grpc}\n"
    for command in commands:
        script += f"printf '{_MARK}'\n{for_here(command.code, server)}\n"
        script += f"printf '{_MARK}%d' $?\n"
    done = subprocess.run(
        ["bash", "-uc", script], cwd=ROOT, env=environment, text=True,
        errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=timeout_s, check=False)
    # "", output, status, output, status ...
    parts = done.stdout.split(_MARK)[1:]
    if len(parts) != 2 * len(commands):
        raise AssertionError(f"the shell ended early:\n{done.stdout}")
    return [Result(command, int(parts[2 * i + 1]), parts[2 * i])
            for i, command in enumerate(commands)]


def without_figures(text):
    """The lines of a text with what differs from run to run made equal: ids
    that the server makes, why a text ended, the type of the weights, numbers
    other than a plain 0 ("0 failed"), their units of time, and the blanks around
    them, of which a table has more or less."""
    text = text.replace(str(BIN_DIR), "build/release/bin")
    text = re.sub(r"sessions/[a-z2-7]{26}\b", "sessions/ID", text)
    text = re.sub(r"ended by [A-Z_]+", "ended by", text)
    text = re.sub(r"\bbf16\b", "f32", text)
    text = re.sub(r"\b\d+(?:\.\d+)? (?:us|ms|s)\b", "1 s", text)
    text = re.sub(r"\d+(?:[.,:]\d+)*",
                  lambda number: "0" if number[0] == "0" else "1", text)
    return [re.sub(r" {2,}", "  ", line).rstrip()
            for line in text.rstrip().splitlines()]


def matches(expected, output):
    """Whether an output is what README says: equal line by line but for its
    figures, where a line of three dots stands for any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n"
        for line in without_figures(expected))
    lines = "".join(line + "\n" for line in without_figures(output))
    return re.fullmatch(pattern, lines) is not None
