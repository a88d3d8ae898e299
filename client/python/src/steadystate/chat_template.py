"""Chat templates, as checkpoints bring them: Jinja."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from . import _said

# A template comes with a checkpoint, from anywhere.
MAX_TEMPLATE_CHARACTERS = 1 << 20


def render_chat(template: str, messages: Sequence[Mapping[str, Any]], *,
                add_generation_prompt: bool = True, **variables: Any) -> str:
    """The text of a conversation by a model's template. `messages` have "role"
    and "content"; `variables` are what else the template reads, as bos_token.

    Needs jinja2, the extra "chat". The template runs in Jinja's sandbox: it
    reaches neither Python nor what it is given, but may take long.

    ImportError: jinja2 is missing. ValueError: the template is malformed, too
    long, or does not allow these messages.
    """
    try:
        import jinja2
        import jinja2.ext
        import jinja2.sandbox
    except ImportError:
        raise ImportError(
            "the model's chat template needs jinja2: pip install "
            "'steadystate[chat]', or give user_prefix") from None
    if len(template) > MAX_TEMPLATE_CHARACTERS:
        raise ValueError(f"the chat template has {len(template)} characters, "
                         f"at most {MAX_TEMPLATE_CHARACTERS} are taken")

    class Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
        """Methods of strings do not ask words for their marks: see _said."""

        def call(self, context: Any, function: Any, *arguments: Any,
                 **keywords: Any) -> Any:
            owner = getattr(function, "__self__", None)
            if (isinstance(owner, str) and not isinstance(owner, _said.Said) and
                    function.__name__ in ("join", "replace")):
                arguments = tuple(
                    _said.plain(value if isinstance(value, (str, int))
                                else list(value)) for value in arguments)
            return super().call(context, function, *arguments, **keywords)

    environment = Environment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[jinja2.ext.loopcontrols])
    environment.filters["tojson"] = _to_json
    for name in ("striptags", "title", "urlencode", "urlize", "wordwrap"):
        environment.filters[name] = _marked_first(environment.filters[name])
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = (
        lambda form: datetime.datetime.now().strftime(form))
    try:
        return environment.from_string(template).render(
            messages=messages, add_generation_prompt=add_generation_prompt,
            **variables)
    except jinja2.TemplateError as error:
        raise ValueError(f"the chat template: {error}") from error


# The templates' authors rely on characters as they are.
def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(_said.plain(value), ensure_ascii=False, indent=indent)


# Filters that take a string apart by patterns, which see no marks.
def _marked_first(function: Any) -> Any:
    if getattr(function, "jinja_pass_arg", None) is not None:
        return functools.wraps(function)(
            lambda first, value, *rest, **keywords: function(
                first, _said.plain(value), *rest, **keywords))
    return functools.wraps(function)(
        lambda value, *rest, **keywords: function(
            _said.plain(value), *rest, **keywords))


def _refuse(message: str) -> None:
    raise ValueError("the chat template refuses the messages: " +
                     _said.without_marks(str(message)))
