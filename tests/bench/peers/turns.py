"""Measures contenders in turns. One whose process crashes is left out of the
work that it crashed at, and noted.

The figures that are filled are those of report.py; options has `rounds`,
`seconds` and `no_search`.
"""

import sys

from work import Crashed


def say(text):
    print(text, file=sys.stderr, flush=True)


def note_crash(crash, contender, what, crashed):
    say(f"{what}, {contender.name}: crashed, {crash}")
    crashed.append({"contender": contender.name, "what": str(what),
                    "signal": str(crash)})


def search(contender, work, seconds, settings):
    """Adds what was tried to `settings`, unless the best ones are known."""
    say(f"settings: {work}, {contender.name}")
    tried = contender.search(work, seconds)
    if tried:
        settings.append({"work": str(work), "contender": contender.name,
                         "best": str(contender.settings(work)),
                         "tried": [{"settings": str(one), "rate": rate}
                                   for one, rate in tried]})


def search_all(group, work, options, figures):
    """Those of the group that have settings and those that have none, less
    those who crash."""
    left = []
    for contender in group:
        try:
            if hasattr(contender, "search") and not options.no_search:
                search(contender, work, options.seconds / 2,
                       figures["settings"])
            left.append(contender)
        except Crashed as crash:
            note_crash(crash, contender, work, figures["crashed"])
    return left


def measure(group, work, options, crashed):
    """{contender: the rates of its rounds}; each round begins with another."""
    rates = {contender.name: [] for contender in group}
    for i in range(options.rounds):
        turn = i % len(group)
        for contender in group[turn:] + group[:turn]:
            if contender.name not in rates:
                continue
            try:
                rate = contender.rate(work, options.seconds)
            except Crashed as crash:
                note_crash(crash, contender, work, crashed)
                del rates[contender.name]
                continue
            rates[contender.name].append(rate)
            say(f"{work}, {contender.name}: {rate:.1f} tokens/s")
    return rates


def measure_group(group, works, options, figures):
    for work in works:
        able = [contender for contender in group if contender.can(work)]
        able = search_all(able, work, options, figures)
        figures["rows"].append({
            "work": str(work),
            "rates": measure(able, work, options, figures["crashed"])})
