#!/usr/bin/python3
"""Draws what steadystate-bench found, as SVG files. Needs Python only.

  steadystate-bench engine --json > engine.json
  steadystate-bench age --json > age.json
  tests/bench/plot.py --engine engine.json tests/bench/decode.svg
  tests/bench/plot.py --age age.json tests/bench/age.svg

--engine: the time of a decode step by the number of sessions, beside its limit.
--age: the latency of a token by the tokens so far, of linear families and of
softmax attention.
"""

import argparse
import json
import math

WIDTH, HEIGHT = 880, 400
LEFT, RIGHT, TOP, BOTTOM = 80, 220, 40, 60
COLOURS = ("#1f6f8b", "#b5541c", "#5b7d3a", "#7a4f8a", "#8a7a2f", "#3a5f7d",
           "#a23b52", "#4f8a7a", "#6b6b6b", "#8b5a2b", "#2f5f3a", "#8a4f6b",
           "#4b4f9a", "#9a7b4b", "#3b8ea2", "#5a2b8b", "#7d3a3a")


class Axis:
    """Places positive numbers along a logarithmic axis."""

    def __init__(self, numbers, first, last):
        self.low = min(numbers)
        self.high = max(max(numbers), 2 * self.low)
        self.first, self.last = first, last

    def place(self, number):
        share = (math.log(number / self.low)
                 / math.log(self.high / self.low))
        return self.first + share * (self.last - self.first)


class LinearAxis(Axis):
    """Places numbers along an axis of equal steps."""

    def place(self, number):
        share = (number - self.low) / (self.high - self.low)
        return self.first + share * (self.last - self.first)


def round_numbers(low, high):
    """1, 2 and 5 times powers of ten within [low, high]."""
    exponents = range(math.floor(math.log10(low)),
                      math.ceil(math.log10(high)) + 1)
    return [m * 10.0 ** e for e in exponents for m in (1, 2, 5)
            if low <= m * 10.0 ** e <= high]


def text(x, y, words, anchor="middle", colour="#333"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
            f'fill="{colour}">{words}</text>')


def line(points, colour, dashes=""):
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (f'<polyline points="{places}" fill="none" stroke="{colour}" '
            f'stroke-width="2"{dashed}/>')


def grid(x_axis, y_axis, x_marks):
    parts = []
    for number, label in x_marks:
        x = x_axis.place(number)
        parts.append(line([(x, TOP), (x, HEIGHT - BOTTOM)], "#ddd"))
        parts.append(text(x, HEIGHT - BOTTOM + 20, label))
    for number in round_numbers(y_axis.low, y_axis.high):
        y = y_axis.place(number)
        parts.append(line([(LEFT, y), (WIDTH - RIGHT, y)], "#ddd"))
        parts.append(text(LEFT - 8, y + 4, f"{number:g}", "end"))
    return parts


def chart(title, x_name, y_name, curves, x_marks, x_kind=Axis):
    """curves: (name, [(x, y), ...], dashes), all numbers above 0."""
    numbers = [point for _, points, _ in curves for point in points]
    x_axis = x_kind([x for x, _ in numbers], LEFT, WIDTH - RIGHT)
    y_axis = Axis([y for _, y in numbers], HEIGHT - BOTTOM, TOP)
    parts = grid(x_axis, y_axis, x_marks)
    parts.append(text(LEFT, TOP - 16, title, "start"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_name))
    parts.append(text(8, TOP - 16, y_name, "start"))
    for i, (name, points, dashes) in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        placed = [(x_axis.place(x), y_axis.place(y)) for x, y in points]
        parts.append(line(placed, colour, dashes))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
                  for x, y in placed]
        y = TOP + 10 + 18 * i
        parts.append(line([(WIDTH - RIGHT + 16, y - 4),
                           (WIDTH - RIGHT + 40, y - 4)], colour, dashes))
        parts.append(text(WIDTH - RIGHT + 46, y, name, "start"))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            'font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def stacked(charts):
    """Several charts as one, from top to bottom."""
    parts = [f'<svg y="{i * HEIGHT}" width="{WIDTH}" height="{HEIGHT}">\n'
             f'{part}</svg>' for i, part in enumerate(charts)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" '
            f'viewBox="0 0 {WIDTH} {HEIGHT * len(charts)}">\n'
            + "\n".join(parts) + "\n</svg>\n")


def draw_engine(report):
    rows = report["decode"]
    environment = report["environment"]
    curves = [
        ("measured", [(r["sessions"], r["step_ms"]) for r in rows], ""),
        ("limit of memory", [(r["sessions"], r["limit_ms"]) for r in rows],
         "6 4")]
    title = (f"ms per decode step, {environment['model']}, "
             f"{environment['weight_dtype']} weights, "
             f"{environment['state_dtype']} states")
    return chart(title, "sessions that decode at once", "",
                 curves, [(r["sessions"], r["sessions"]) for r in rows])


def draw_age(report):
    """A fresh session stands at 1 token: the axis has no 0."""
    curves = []
    for row in report["age"]:
        curves.append((row["family"], [(1, row["fresh_us"]),
                                       (row["position"], row["old_us"])], ""))
    softmax = [(max(row["position"], 1), row["us"])
               for row in report.get("softmax", [])]
    if softmax:
        curves.append(("softmax, KV cache", softmax, "6 4"))
    last = max(x for _, points, _ in curves for x, _ in points)
    marks = [(10.0 ** e, f"{10 ** e:,}")
             for e in range(0, int(math.log10(last)) + 1)]
    return chart("us per token", "tokens that the session has absorbed", "",
                 curves, marks)


def read_report(path, wanted):
    """Raises OSError or ValueError if there is no report of that command."""
    with open(path, encoding="utf-8") as file:
        try:
            report = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(report, dict) or report.get("benchmark") != wanted:
        raise ValueError(f"{path} is no report of steadystate-bench {wanted}")
    if not report.get("decode" if wanted == "engine" else "age"):
        raise ValueError(f"{path} has nothing to draw")
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--engine", help="report of steadystate-bench engine")
    kind.add_argument("--age", help="report of steadystate-bench age")
    parser.add_argument("svg", help="the file to write")
    arguments = parser.parse_args()
    wanted = "engine" if arguments.engine else "age"
    try:
        report = read_report(arguments.engine or arguments.age, wanted)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    draw = draw_engine if arguments.engine else draw_age
    with open(arguments.svg, "w", encoding="utf-8") as file:
        file.write(draw(report))


if __name__ == "__main__":
    main()
