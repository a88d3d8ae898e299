#!/usr/bin/env python3
"""A chat over one session beside one that sends everything again.

  tests/bench/chat_turns.py --json chat.json --svg tests/bench/chat_turns.svg

Starts a server on random weights of a shape and holds the same chat twice, a
turn of each after a turn of the other: over one session, which is sent what is
new, and with a session of its own for each turn, which is sent the whole
conversation. A turn is a message of a user and the answer to it; before the
first there is a system prompt. All of it are token ids. Prints, of each turn,
the tokens that the server computed, by its own counters, the seconds to the
first token and to the last. Needs Python only.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import plot  # noqa: E402
from testing.scrape import scrape  # noqa: E402
from testing.server_process import BIN_DIR, ServerProcess  # noqa: E402

SESSION, AGAIN = "one session", "everything again"
ROW = "{:>4}  {:<16}  {:>15}  {:>14}  {:>10}"
READY_S = 300  # for a server that reads gigabytes


def count(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return value


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--shape", default="qwen3.5-0.8b",
                       help="of steadystate-bench checkpoint")
    model.add_argument("--model", type=pathlib.Path, metavar="DIR",
                       help="a checkpoint in place of a shape")
    for name, value, what in (("turns", 20, "of the chat"),
                              ("system", 2000, "tokens of the first prompt"),
                              ("user", 40, "tokens of a message"),
                              ("answer", 60, "tokens of an answer")):
        parser.add_argument(f"--{name}", type=count, default=value,
                            metavar="N", help=f"{what}, {value}")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="writes all figures")
    parser.add_argument("--svg", type=pathlib.Path, metavar="FILE",
                        help="draws them")
    return parser.parse_args()


class Server:
    """What is asked of a running server."""

    def __init__(self, process):
        self._process = process

    def run(self, *command, tokens=None):
        return subprocess.run(
            [BIN_DIR / "steadystate", *command, "--address",
             self._process.grpc], check=True, text=True,
            input=json.dumps(tokens), stdout=subprocess.PIPE).stdout

    def vocabulary(self):
        return json.loads(self.run("model", "--json"))["vocab_size"]

    def computed(self):
        """Tokens that it has taken in or drawn so far."""
        samples = scrape(self._process.metrics)["steadystate_tokens_total"]
        return sum(samples.values())

    def turn(self, tokens, answer, session=()):
        """(the answer to the tokens, the figures of the turn)."""
        before = self.computed()
        said = json.loads(self.run(
            "generate", "--json", "--token_ids_file", "-", "--max_tokens",
            str(answer), "--ignore_eos", "--temperature", "0", *session,
            tokens=tokens))
        first = said["time_to_first_token_seconds"]
        # The rate is that of the tokens after the first.
        rest = (answer - 1) / said["tokens_per_second"] if answer > 1 else 0
        return said["tokens"], {
            "tokens_computed": int(self.computed() - before),
            "seconds_to_first_token": first, "seconds": first + rest}


def chat(server, options):
    """One row for each turn and way."""
    draw = random.Random(1)
    size = server.vocabulary()

    def message(length):
        return [draw.randrange(size) for _ in range(length)]

    server.turn(message(options.user), options.answer)  # warms up
    server.run("session", "create", "--id", "chat")
    new = message(options.system)
    everything = list(new)
    rows = []
    for turn in range(1, options.turns + 1):
        user = message(options.user)
        new += user
        everything += user
        for way, tokens, session in ((SESSION, new, ("--session", "chat")),
                                     (AGAIN, everything, ())):
            answer, figures = server.turn(tokens, options.answer, session)
            rows.append({"turn": turn, "way": way, **figures})
            say(rows[-1])
        new = []
        everything += answer
    return rows


def say(row):
    print(ROW.format(row["turn"], row["way"], row["tokens_computed"],
                     f"{row['seconds_to_first_token']:.3f}",
                     f"{row['seconds']:.3f}"), flush=True)


def totals(rows):
    """{way: the sum of each figure over all turns}."""
    return {way: {name: sum(row[name] for row in rows if row["way"] == way)
                  for name in ("tokens_computed", "seconds_to_first_token",
                               "seconds")}
            for way in (SESSION, AGAIN)}


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def curve(rows, way, figure, name, dashes=""):
    return (name, [(row["turn"], row[figure]) for row in rows
                   if row["way"] == way], dashes)


def draw(report):
    """Tokens above, seconds below."""
    rows = report["rows"]
    marks = [(row["turn"], row["turn"]) for row in rows
             if row["way"] == SESSION]
    tokens = [curve(rows, way, "tokens_computed", way)
              for way in (SESSION, AGAIN)]
    seconds = [curve(rows, way, figure, f"{way}, {name}", dashes)
               for figure, name, dashes in (
                   ("seconds_to_first_token", "first token", "6 4"),
                   ("seconds", "in all", ""))
               for way in (SESSION, AGAIN)]
    return plot.stacked([
        plot.chart(f"tokens that a turn computes, {report['model']}", "turn",
                   "", tokens, marks, plot.LinearAxis),
        plot.chart("seconds that a turn takes", "turn", "", seconds, marks,
                   plot.LinearAxis)])


def measure(options, model):
    print(ROW.format("turn", "way", "tokens computed", "first token, s",
                     "in all, s"))
    with ServerProcess(model=model, timeout_s=READY_S) as process:
        rows = chat(Server(process), options)
    report = {"benchmark": "chat_turns", "cpu": processor(),
              "model": options.model.name if options.model else options.shape,
              "rows": rows, "totals": totals(rows)}
    for way, sums in report["totals"].items():
        say({"turn": "all", "way": way, **sums})
    return report


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        model = options.model
        if not model:
            model = pathlib.Path(folder) / options.shape
            subprocess.run([BIN_DIR / "steadystate-bench", "checkpoint",
                            "--shape", options.shape, "--out", model],
                           check=True, stdout=subprocess.DEVNULL)
        report = measure(options, model.resolve())
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if options.svg:
        options.svg.write_text(draw(report))


if __name__ == "__main__":
    main()
