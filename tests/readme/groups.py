"""Which test carries out which of README's commands."""

from readme.blocks import commands_of, read_blocks

# By their first word.
_GROUPS = {
    "main": ("./deploy/run", "./tests/run"),
    "server": ("steadystate-server",),
    "tools": ("grpcurl", "ghz"),
    "container": ("docker",),
    "shell": ("PATH=$PWD/build/release/bin:$PATH", "steadystate", "curl"),
}


def group_of(command):
    """The group of a command; KeyError if no test would carry it out."""
    word = command.code.split()[0]
    for group, words in _GROUPS.items():
        if word in words:
            return group
    raise KeyError(f"README.md:{command.line}: no test carries out {word!r}")


def commands_in(group):
    """README's commands of a group, in order."""
    return [command for block in read_blocks() if block.language == "console"
            for command in commands_of(block) if group_of(command) == group]
