"""What has been measured, as text for people and as rows for Markdown.

The figures are what compare.py writes with --json:
  about      {contender: {name: value}}
  logits     {contender: {"prefill", "decode", "from_first"}}, see logits.py
  settings   [{"work", "contender", "tried": [{"settings", "rate"}], "best"}]
  rows       [{"work", "rates": {contender: [rate of each round]}}], tokens per
             second; the first contender of a row is the one that is compared
  crashed    [{"contender", "what", "signal"}], and what is not in the others
             for that
"""

import statistics


def ratios(ours, theirs):
    """(median, least, largest) of the rounds' ratios."""
    each = [a / b for a, b in zip(ours, theirs)]
    return statistics.median(each), min(each), max(each)


def pairs(row):
    """(one of ours, one of the others) of a row, by name."""
    names = list(row["rates"])
    ours = [name for name in names if name.startswith("Steadystate")]
    others = [name for name in names if name not in ours]
    return [(a, b) for a in ours for b in others]


def table(header, lines, markdown):
    """The lines below the header, in columns."""
    if markdown:
        rule = "|" + "---|" * len(header)
        rows = ["| " + " | ".join(line) + " |" for line in [header, *lines]]
        return "\n".join([rows[0], rule, *rows[1:]])
    widths = [max(map(len, column)) for column in zip(header, *lines)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width
                               in zip(line, widths)).rstrip()
                     for line in [header, *lines])


def rate_table(figures, markdown):
    lines = []
    for row in figures["rows"]:
        for ours, theirs in pairs(row):
            rates = row["rates"]
            middle, least, largest = ratios(rates[ours], rates[theirs])
            lines.append([
                row["work"], ours, f"{statistics.median(rates[ours]):.1f}",
                theirs, f"{statistics.median(rates[theirs]):.1f}",
                f"{middle:.2f}", f"{least:.2f} - {largest:.2f}"])
    return table(["what", "ours", "tokens/s", "theirs", "tokens/s", "ratio",
                  "of the rounds"], lines, markdown)


def logits_table(figures, markdown):
    lines = [[name, f"{errors['prefill']:.1e}", f"{errors['decode']:.1e}",
              f"{errors['from_first']:.1e}"]
             for name, errors in figures["logits"].items()]
    first = next(iter(figures["logits"]))
    return table(["logits", "prefill from float64", "decode from float64",
                  f"decode from {first}"], lines, markdown)


def settings_table(figures, markdown):
    lines = [[search["work"], search["contender"], entry["settings"],
              f"{entry['rate']:.1f}",
              "best" if entry["settings"] == search["best"] else ""]
             for search in figures["settings"] for entry in search["tried"]]
    return table(["what", "contender", "settings tried", "tokens/s", ""],
                 lines, markdown)


def about(figures, markdown):
    lines = [[name, key, str(value).strip()]
             for name, values in figures["about"].items()
             for key, value in values.items()]
    return table(["contender", "", ""], lines, markdown)


def crashed_table(figures, markdown):
    lines = [[crash["contender"], crash["what"], crash["signal"]]
             for crash in figures["crashed"]]
    return table(["crashed", "at", "signal"], lines, markdown)


def text(figures, markdown):
    parts = [about(figures, markdown)]
    for name, make in (("logits", logits_table), ("settings", settings_table),
                       ("rows", rate_table), ("crashed", crashed_table)):
        if figures[name]:
            parts.append(make(figures, markdown))
    return "\n\n".join(parts)
