"""Chat templates, as checkpoints bring them: Jinja."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from . import _said

# A template comes with a checkpoint, from anywhere.
MAX_TEMPLATE_CHARACTERS = 1 << 20
# What a template multiplies a string by may make it so long.
MAX_REPEATED_CHARACTERS = 1 << 24

# Filters that take a string apart by patterns, or as a number.
_BY_PATTERN = ("e", "escape", "float", "forceescape", "int", "striptags",
               "title", "urlencode", "urlize", "wordcount", "wordwrap")


def render_chat(template: str, messages: Sequence[Mapping[str, Any]], *,
                add_generation_prompt: bool = True, **variables: Any) -> str:
    """The text of a conversation by a model's template. `messages` have "role"
    and "content"; `variables` are what else the template reads, as bos_token;
    `tools` and `documents` are None unless they are among them.

    Needs jinja2, the extra "chat". The template runs in Jinja's sandbox: it
    reaches neither Python nor what it is given, but may take long, and make a
    long text.

    ImportError: jinja2 is missing. ValueError: the template is malformed, too
    long, or does not allow these messages.
    """
    try:
        import jinja2
    except ImportError:
        raise ImportError(
            "the model's chat template needs jinja2: pip install "
            "'steadystate[chat]', or give user_prefix") from None
    if len(template) > MAX_TEMPLATE_CHARACTERS:
        raise ValueError(f"the chat template has {len(template)} characters, "
                         f"at most {MAX_TEMPLATE_CHARACTERS} are taken")
    given = {"tools": None, "documents": None, **variables}
    try:
        text: str = _environment().from_string(template).render(
            messages=messages, add_generation_prompt=add_generation_prompt,
            **given)
        return text
    except jinja2.TemplateError as error:
        raise ValueError(f"the chat template: {error}") from error


@functools.cache
def _environment() -> Any:
    """Jinja's sandbox, in which strings stay _said.Traced. Its methods have the
    names that Jinja gives them."""
    import jinja2.compiler
    import jinja2.ext
    import jinja2.sandbox

    class Generator(jinja2.compiler.CodeGenerator):
        """`~` and `in`, which would not ask strings."""

        def visit_Concat(self, node: Any, frame: Any) -> None:
            self.write("concat(map(str, (")
            for operand in node.nodes:
                self.visit(operand, frame)
                self.write(", ")
            self.write(")))")

        def visit_Compare(self, node: Any, frame: Any) -> None:
            if len(node.ops) != 1 or node.ops[0].op not in ("in", "notin"):
                super().visit_Compare(node, frame)
                return
            self.write("(not " if node.ops[0].op == "notin" else "(")
            self.write("environment.tests['in'](")
            self.visit(node.expr, frame)
            self.write(", ")
            self.visit(node.ops[0].expr, frame)
            self.write("))")

    class Generation(jinja2.ext.Extension):
        """Marks of what the assistant says, for training: nothing here."""
        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",),
                                           drop_needle=True)

    class Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
        code_generator_class = Generator
        intercepted_binops = frozenset("+*%")
        concat = staticmethod(_said.joined)

        def call_binop(self, context: Any, operator: str, left: Any,
                       right: Any) -> Any:
            if operator == "*":
                _check_repeated(left, right)
            return _said.traced(
                super().call_binop(context, operator, left, right))

        def call(self, context: Any, function: Any, *arguments: Any,
                 **keywords: Any) -> Any:
            owner = getattr(function, "__self__", None)
            if isinstance(owner, str) and _said.has_said(
                    [owner, list(arguments), keywords]):
                arguments = tuple(map(_listed, arguments))
                function = getattr(_said.Traced(str(owner)),
                                   function.__name__)
            return _said.traced(
                super().call(context, function, *arguments, **keywords))

    environment = Environment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[jinja2.ext.loopcontrols, Generation])
    for name, function in environment.filters.items():
        environment.filters[name] = _traced_filter(name, function)
    environment.filters["attr"] = _attribute
    environment.filters["tojson"] = _to_json
    environment.tests["in"] = _is_in
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = (
        lambda form: datetime.datetime.now().strftime(form))
    return environment


def _check_repeated(left: Any, right: Any) -> None:
    for text, count in ((left, right), (right, left)):
        if (isinstance(text, (str, list, tuple)) and isinstance(count, int) and
                len(text) * count > MAX_REPEATED_CHARACTERS):
            raise ValueError(
                f"the chat template repeats {len(text)} characters {count} "
                f"times, to more than {MAX_REPEATED_CHARACTERS}")


def _listed(value: Any) -> Any:
    """What is gone through once, as a list."""
    return (list(value) if hasattr(value, "__next__") else value)


def _traced_filter(name: str, function: Any) -> Any:
    def follow(*arguments: Any, **keywords: Any) -> Any:
        if not _said.has_said([list(arguments), keywords]):
            return _said.traced(function(*arguments, **keywords))
        if name in _BY_PATTERN:
            found = function(*map(_said.released, arguments),
                             **_said.released(keywords))
            return _said.said(str(found)) if isinstance(found, str) else found
        # Strings of the template's own, too, with methods that follow others.
        arguments = tuple(
            _said.Traced(value) if isinstance(value, str) and
            not isinstance(value, _said.Traced) else value
            for value in arguments)
        return _said.traced(function(*arguments, **keywords))

    return functools.wraps(function)(follow)


def _attribute(value: Any, name: str) -> Any:
    raise ValueError(f"the chat template uses the filter attr for {name}, "
                     "which is not allowed: write value.name")


def _is_in(value: Any, container: Any) -> bool:
    if isinstance(container, str) and isinstance(value, str):
        return _said.words_of(value) in _said.words_of(container)
    return value in container


# The templates' authors rely on characters as they are.
def _to_json(value: Any, ensure_ascii: bool = False,
             indent: int | str | None = None,
             separators: tuple[str, str] | None = None,
             sort_keys: bool = False) -> str:
    return _said.to_json(value, ensure_ascii=ensure_ascii, indent=indent,
                         separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> None:
    raise ValueError("the chat template refuses the messages: " +
                     _said.words_of(str(message)))
