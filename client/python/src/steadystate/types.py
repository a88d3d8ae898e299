"""What calls take and give. Of what the server sends, each class has the fields
of the proto's message of the same name; their meaning is written there."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from . import _wire
from ._fields import refuse, value_of, write_field, write_labels, write_tokens

T = TypeVar("T")

# Text, or the ids of tokens.
Prompt: TypeAlias = str | Sequence[int]


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How a token is drawn. What is None is left to the server; the bounds are
    those of the proto's Sampling.

    temperature         0 takes the most likely token; default 1
    top_k, top_p, min_p cut the unlikely ones off
    repetition_penalty, presence_penalty, frequency_penalty
                        on the latest `penalty_window` tokens (default 64)
    seed                the same seed gives the same tokens
    logit_bias          added to the logits of the tokens named
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    penalty_window: int | None = None
    seed: int | None = None
    logit_bias: Mapping[int, float] = dataclasses.field(default_factory=dict)

    def write(self, message: _wire.Message) -> None:
        """Sets the fields of a proto's Sampling."""
        message.SetInParent()
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "logit_bias":
                write_field(message, field.name, value)
        try:
            for token, bias in self.logit_bias.items():
                message.logit_bias[token] = bias
        except (AttributeError, TypeError, ValueError) as error:
            refuse("logit_bias", self.logit_bias,
                   "a mapping of token ids to numbers", error)


@dataclasses.dataclass(frozen=True)
class SessionInfo:
    """A session as it was when the server answered."""

    name: str = ""
    model: str = ""
    position: int = 0
    state_bytes: int = 0
    state: str = "STATE_UNSPECIFIED"
    create_time: datetime.datetime | None = None
    last_step_time: datetime.datetime | None = None
    expire_time: datetime.datetime | None = None
    ttl: datetime.timedelta | None = None
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    uid: str = ""
    other_numerics: bool = False
    durability: str = "DURABILITY_UNSPECIFIED"
    earliest_position: int = 0
    state_not_finite: bool = False
    ephemeral: bool = False
    context_cap: int = 0
    unusable: str = ""


@dataclasses.dataclass(frozen=True)
class CheckpointInfo:
    """A checkpoint: a session as it once was, which stays so."""

    name: str = ""
    position: int = 0
    state_bytes: int = 0
    create_time: datetime.datetime | None = None
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    uid: str = ""
    other_numerics: bool = False
    durability: str = "DURABILITY_UNSPECIFIED"


@dataclasses.dataclass(frozen=True)
class SessionEvent:
    """What happened to a session: `kind` is "CREATED", "FORKED", "IMPORTED",
    "HIBERNATED", "EVICTED", "WOKEN", "REWOUND", "EXPIRED" or "DELETED". Later
    sessions of its name do not have its uid."""

    kind: str = "KIND_UNSPECIFIED"
    session: str = ""
    uid: str = ""
    position: int = 0
    time: datetime.datetime | None = None
    parent: str = ""


@dataclasses.dataclass(frozen=True)
class WatchPart:
    """Events in their order, each once; `cursor` lets another watch go on after
    them, as long as the server runs."""

    events: tuple[SessionEvent, ...] = ()
    cursor: str = ""


@dataclasses.dataclass(frozen=True)
class SpecialToken:
    """A token that stands for no text, and how it is spelled in one."""

    id: int = 0
    text: str = ""


@dataclasses.dataclass(frozen=True)
class TextPart:
    """A part of a text. Of a literal one, the words of others, the server reads
    nothing but text: no special tokens, nor other marks of the tokenizer."""

    text: str
    literal: bool = False


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """The model that is served. `chat_template` is empty if the model has none,
    or the server is too old to tell; so are `bos_token` and `eos_token`, the
    texts that such templates write, if the checkpoint's tokenizer has none."""

    name: str = ""
    family: str = ""
    fingerprint: str = ""
    vocab_size: int = 0
    hidden_size: int = 0
    layer_count: int = 0
    softmax_layer_count: int = 0
    parameter_count: int = 0
    session_bytes: int = 0
    context_cap: int = 0
    max_context_cap: int = 0
    weight_dtype: str = ""
    state_dtype: str = ""
    tokenizer: str = ""
    bos_tokens: tuple[int, ...] = ()
    eos_tokens: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    bidirectional: bool = False
    max_step_tokens: int = 0
    chat_template: str = ""
    bos_token: str = ""
    eos_token: str = ""
    text_prefix_tokens: tuple[int, ...] = ()
    special_tokens: tuple[SpecialToken, ...] = ()


@dataclasses.dataclass(frozen=True)
class TokenLogprob:
    """A token and the natural logarithm of its probability."""

    token: int = 0
    logprob: float = 0.0


@dataclasses.dataclass(frozen=True)
class GeneratedToken:
    """A token that was drawn; log-probabilities if they were asked for.
    `replayed`: it had been drawn before the stream broke."""

    token: int = 0
    logprob: float | None = None
    top_logprobs: tuple[TokenLogprob, ...] = ()
    replayed: bool = False


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a generation took."""

    prompt_tokens: int = 0
    generated_tokens: int = 0
    seed: int = 0
    queue: datetime.timedelta | None = None
    time_to_first_token: datetime.timedelta | None = None
    replayed_tokens: int = 0
    reused_tokens: int = 0
    prefix_reuse: str = "PREFIX_REUSE_UNSPECIFIED"


@dataclasses.dataclass(frozen=True)
class GeneratePart:
    """What arrived of a generation. str(part) is its text.

    text           whole characters, never a part of a stop string
    tokens         those drawn, in order
    position       of the session, after them
    finish_reason  "LENGTH", "STOP_TOKEN" or "STOP_STRING"; empty before the
                   last part
    usage          in the last part
    going_away     the server shuts down and takes requests until then
    """

    text: str = ""
    tokens: tuple[GeneratedToken, ...] = ()
    position: int = 0
    finish_reason: str = ""
    usage: Usage | None = None
    going_away: datetime.datetime | None = None

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class StepResult:
    """What a step answered. `sampled_token` has not been absorbed: send it with
    the next step; `text_delta` is the text that becomes certain with it.
    Vectors are f32[vocab_size] and f32[hidden_size]."""

    position: int = 0
    sampled_token: int | None = None
    sampled_logprob: float | None = None
    top_logprobs: tuple[TokenLogprob, ...] = ()
    logits: tuple[float, ...] = ()
    hidden: tuple[float, ...] = ()
    replayed: bool = False
    text_delta: str = ""


@dataclasses.dataclass(frozen=True)
class ScoredToken:
    """A token of a given text, and what the model thought of it. The first
    token of a fresh state has no log-probability."""

    token: int = 0
    logprob: float | None = None
    top_logprobs: tuple[TokenLogprob, ...] = ()
    logits: tuple[float, ...] = ()
    position: int = 0


@dataclasses.dataclass(frozen=True)
class ScoreResult:
    """The log-probabilities of a text: of each token, and their sum over
    `scored_tokens` of them."""

    tokens: tuple[ScoredToken, ...]
    scored_tokens: int
    total_logprob: float
    position: int


@dataclasses.dataclass(frozen=True)
class EmbedResult:
    """Hidden vectors f32[hidden_size]: one for each input, or a single one if
    they are pooled. `tokens` inputs were taken in."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: int
    position: int


_NESTED: dict[str, Any] = {
    "steadystate.v1.TokenLogprob": TokenLogprob,
    "steadystate.v1.GenerateResponse.GeneratedToken": GeneratedToken,
    "steadystate.v1.GenerateResponse.Usage": Usage,
    "steadystate.v1.ScoreResponse.ScoredToken": ScoredToken,
    "steadystate.v1.Model.SpecialToken": SpecialToken,
    "steadystate.v1.SessionEvent": SessionEvent,
}


def read(cls: type[T], message: _wire.Message) -> T:
    """A message as one of these classes. What the message's proto does not
    have keeps its default."""
    values = {}
    by_name = message.DESCRIPTOR.fields_by_name
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        if field.name in by_name:
            values[field.name] = _value(message, by_name[field.name])
    return cls(**values)


def timestamp(message: _wire.Message) -> datetime.datetime:
    """A google.protobuf.Timestamp, in UTC."""
    at: datetime.datetime = message.ToDatetime(tzinfo=datetime.timezone.utc)
    return at


def _value(message: _wire.Message, field: Any) -> Any:
    value = getattr(message, field.name)
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        return dict(value)
    if hasattr(value, "append") or hasattr(value, "add"):  # repeated
        return tuple(value if kind is None else
                     (_single(one, kind) for one in value))
    if field.containing_oneof is not None or kind is not None:
        if not message.HasField(field.name):
            return None
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    return value if kind is None else _single(value, kind)


def _single(message: _wire.Message, kind: Any) -> Any:
    if kind.full_name == "google.protobuf.Timestamp":
        return timestamp(message)
    if kind.full_name == "google.protobuf.Duration":
        return message.ToTimedelta()
    if kind.full_name == "steadystate.v1.GoingAway":
        return timestamp(message.requests_until)
    return read(_NESTED[kind.full_name], message)


def write_prompt(prompt: Prompt | None, message: _wire.Message) -> None:
    """Sets `text` or `tokens` of a request."""
    if prompt is None:
        return
    if isinstance(prompt, str):
        message.text = prompt
    else:
        message.tokens.SetInParent()
        write_tokens(message.tokens.ids, "the prompt", prompt)


def write_sampling(sampling: Sampling | None, message: _wire.Message) -> None:
    """Sets the fields of a proto's Sampling, if there is one."""
    if sampling is None:
        return
    if not isinstance(sampling, Sampling):
        refuse("sampling", sampling,
               "a Sampling, such as Sampling(temperature=0.7),")
    sampling.write(message)


def _seconds(name: str, value: float) -> datetime.timedelta:
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {value!r}, a number of seconds is needed, "
                        "such as 600")
    try:
        return datetime.timedelta(seconds=value)
    except (OverflowError, ValueError):  # of what is infinite, and of NaN
        raise ValueError(f"{name} is {value!r}, a number of seconds is "
                         "needed, such as 600") from None


def write_session(message: _wire.Message, *, ttl: float | None = None,
                  labels: Mapping[str, str] | None = None,
                  durability: str | None = None,
                  context_cap: int | None = None) -> None:
    """Sets what of a Session is the client's to choose. ttl is in seconds."""
    if context_cap is not None:
        message.context_cap = context_cap
    if ttl is not None:
        message.ttl.FromTimedelta(_seconds("ttl", ttl))
    write_labels(message.labels, labels)
    if durability is not None:
        message.durability = value_of("durability", durability,
                                      "steadystate.v1.Session.Durability")
