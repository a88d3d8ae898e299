"""The fenced code blocks of README.md, and of the clients'."""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
CLIENT_README = ROOT / "client/README.md"
PYTHON_README = ROOT / "client/python/README.md"


@dataclasses.dataclass(frozen=True)
class Block:
    language: str  # "console", "text" or a programming language
    section: str   # the heading above it
    line: int      # of its first line of code, from 1
    code: str


@dataclasses.dataclass(frozen=True)
class Command:
    """One command of a console block."""
    line: int
    code: str      # without the prompt; may have several lines
    expected: str  # what README says that it prints


def read_blocks(text=None):
    """All blocks in order. ValueError for one that never ends."""
    text = README.read_text() if text is None else text
    blocks, section, opened = [], "", None
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.fullmatch(r"```(\w*)", line)
        if opened:
            if line == "```":
                language, start, lines = opened
                blocks.append(Block(language, section, start,
                                    "".join(l + "\n" for l in lines)))
                opened = None
            else:
                opened[2].append(line)
        elif fence:
            opened = (fence.group(1), number + 1, [])
        elif line.startswith("#"):
            section = line.lstrip("# ")
    if opened:
        raise ValueError(f"README.md:{opened[1] - 1}: this block has no end")
    return blocks


def commands_of(block):
    """The commands of a console block, each with the output below it.

    A command stands behind "$ " and goes on, behind a backslash or within a
    quote, on lines that begin with "> ".
    """
    commands = []
    for number, line in enumerate(block.code.splitlines(), block.line):
        if line.startswith("$ "):
            commands.append(Command(number, line[2:], ""))
        elif not commands:
            raise ValueError(
                f"README.md:{number}: output before the first command")
        elif line.startswith("> ") and not commands[-1].expected:
            last = commands[-1]
            commands[-1] = Command(last.line, f"{last.code}\n{line[2:]}", "")
        else:
            last = commands[-1]
            commands[-1] = Command(last.line, last.code,
                                   f"{last.expected}{line}\n")
    return commands


def client_block(language, readme=CLIENT_README, section=None):
    """The only block of a language in a client's README, or in a section of
    it."""
    found = [block for block in read_blocks(readme.read_text())
             if block.language == language and
             section in (None, block.section)]
    if len(found) != 1:
        raise ValueError(f"{readme} has {len(found)} {language} blocks in "
                         f"{section or 'all'}, not 1")
    return found[0]
