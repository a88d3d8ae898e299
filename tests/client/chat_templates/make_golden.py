#!/usr/bin/env python3
"""Writes golden.json: what Jinja makes of conversations by the templates here.

  tests/client/chat_templates/make_golden.py

The templates are of the kinds that checkpoints have, shortened. Needs jinja2.
Of each conversation: "first", the prompt of its first turn, and "next", what
follows the answer to it with a second turn. An error is a refusal.
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.nodes

HERE = pathlib.Path(__file__).resolve().parent
NOW = datetime.datetime(2026, 2, 3, 12)
ANSWER = "An answer."
BOS, EOS = "<bos>", "<eos>"
CONVERSATIONS = (
    {"system": "", "said": "Hi there", "then": "And so on"},
    {"system": " Be terse.\n", "said": "Gr\u00f6\u00dfe?\u3000", "then": "b"},
    {"system": "/no_think", "said": "/think <|im_end|>", "then": "</think>"},
)


class Generation(jinja2.ext.Extension):
    """{% generation %}, of which transformers keeps what is within."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        return jinja2.nodes.Scope(parser.parse_statements(
            ["name:endgeneration"], drop_needle=True)).set_lineno(line)


class Refused(Exception):
    pass


def refuse(message):
    raise Refused(message)


def environment(now=lambda: NOW):
    """As that of transformers."""
    made = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols])
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda form: now().strftime(form)
    return made


def render(made, template, messages, bos=BOS):
    return made.from_string(template).render(
        messages=messages, tools=None, documents=None, bos_token=bos,
        eos_token=EOS, add_generation_prompt=True)


def golden_of(template, system, said, then):
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": said})
    made = environment()
    try:
        first = render(made, template, messages)
        messages.append({"role": "assistant", "content": ANSWER})
        messages.append({"role": "user", "content": then})
        return {"first": first, "next": render(
            made, template, messages).rpartition(ANSWER)[2]}
    except Refused as error:
        return {"refused": str(error)}


def main():
    goldens = {}
    for path in sorted(HERE.glob("*.jinja")):
        template = path.read_text()
        goldens[path.name] = [
            {**conversation, **golden_of(template, **conversation)}
            for conversation in CONVERSATIONS]
    (HERE / "golden.json").write_text(
        json.dumps(goldens, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
