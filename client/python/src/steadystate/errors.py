"""What calls raise: one class for each group of reasons that a program treats
alike. proto/steadystate/v1/error_reason.proto explains every reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc

from . import _wire


class SteadystateError(Exception):
    """A call failed.

    code         the name of gRPC's status code, "NOT_FOUND"
    reason       why, "SESSION_EXPIRED"; empty for what gRPC says by itself
    message      for people
    metadata     what goes with the reason, as {"position": "7"}
    retry_after  seconds that the server asks to wait before another try;
                 None: it does not ask for one
    """

    def __init__(self, message: str, *, code: str = "UNKNOWN", reason: str = "",
                 metadata: Mapping[str, str] | None = None,
                 retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.metadata: dict[str, str] = dict(metadata or {})
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code} {self.reason}".rstrip() + f": {self.message}"

    def __reduce__(self) -> Any:
        return (_rebuild, (type(self), self.message, self.code, self.reason,
                           self.metadata, self.retry_after))

    @property
    def position(self) -> int | None:
        """Where the session is, in tokens, if the server said so."""
        text = self.metadata.get("position", "")
        return int(text) if text.isdigit() else None


def _rebuild(cls: type[SteadystateError], message: str, code: str, reason: str,
             metadata: dict[str, str],
             retry_after: float | None) -> SteadystateError:
    return cls(message, code=code, reason=reason, metadata=metadata,
               retry_after=retry_after)


class NotFound(SteadystateError):
    """A session, model or checkpoint of this name is not there."""


class SessionNotFound(NotFound):
    """The session was never created, has been deleted, or has expired."""


class SessionExpired(SessionNotFound):
    """The session was idle for longer than its ttl."""


class AlreadyExists(SteadystateError):
    """The id of a session or checkpoint is taken."""


class SessionBusy(SteadystateError):
    """Another call has work queued or running on the session."""


class PositionMismatch(SteadystateError):
    """The session is not where the caller takes it to be; `position` says
    where. Nothing was changed."""


class ResourceExhausted(SteadystateError):
    """There is no room."""


class BudgetExhausted(ResourceExhausted):
    """The memory for sessions is spent."""


class QueueFull(ResourceExhausted):
    """A queue of the server is full."""


class MessageTooLarge(ResourceExhausted):
    """The answer could be larger than messages may be. Ask for less."""


class Unavailable(SteadystateError):
    """The server cannot answer now; it may a little later."""


class ConnectionLost(Unavailable):
    """No server answers, or the connection broke while it did."""


class Draining(Unavailable):
    """The server is shutting down."""


class StoreUnavailable(Unavailable):
    """The server's store of sessions cannot be read or written now."""


class InvalidArgument(SteadystateError):
    """The request is wrong. `field` says where, a path within the request;
    metadata may have `value` and `bounds`."""

    @property
    def field(self) -> str:
        """The field at fault, "sampling.top_p"; empty if none is named."""
        return self.metadata.get("field", "")


class FailedPrecondition(SteadystateError):
    """The session, the model or the server cannot do this."""


class ReplayUnavailable(FailedPrecondition):
    """The request was carried out before, and its answer is not known any
    more. `position` says where the session is; go on from there."""


class StateNotFinite(FailedPrecondition):
    """The inputs led to NaN or infinity. Rewind the session."""


class TokenizerUnavailable(FailedPrecondition):
    """The model has no tokenizer. Send token ids."""


class SnapshotRejected(SteadystateError):
    """The snapshot is damaged, or of another model, version or form."""


class OutOfRange(SteadystateError):
    """A position is out of reach, the context's cap has been reached, or a
    cursor is too old."""


class DeadlineExceeded(SteadystateError):
    """The call took longer than its timeout."""


class Cancelled(SteadystateError):
    """The call was cancelled."""


class ClientClosed(SteadystateError):
    """The client, or the multiplexer, has been closed."""


class InternalError(SteadystateError):
    """A fault of the server."""


_BY_REASON: dict[str, type[SteadystateError]] = {
    "SESSION_NOT_FOUND": SessionNotFound,
    "SESSION_EXPIRED": SessionExpired,
    "SESSION_ALREADY_EXISTS": AlreadyExists,
    "SESSION_BUSY": SessionBusy,
    "POSITION_MISMATCH": PositionMismatch,
    "STATE_BUDGET_EXHAUSTED": BudgetExhausted,
    "QUEUE_FULL": QueueFull,
    "DRAINING": Draining,
    "TOKENIZER_UNAVAILABLE": TokenizerUnavailable,
    "MESSAGE_TOO_LARGE": MessageTooLarge,
    "REPLAY_UNAVAILABLE": ReplayUnavailable,
    "SNAPSHOT_CORRUPT": SnapshotRejected,
    "SNAPSHOT_VERSION_UNSUPPORTED": SnapshotRejected,
    "MODEL_FINGERPRINT_MISMATCH": SnapshotRejected,
    "NUMERICS_MISMATCH": SnapshotRejected,
    "STORE_UNAVAILABLE": StoreUnavailable,
    "STATE_NOT_FINITE": StateNotFinite,
}

# For the other reasons, and for those that this package does not know yet.
_BY_CODE: dict[str, type[SteadystateError]] = {
    "NOT_FOUND": NotFound,
    "ALREADY_EXISTS": AlreadyExists,
    "RESOURCE_EXHAUSTED": ResourceExhausted,
    "UNAVAILABLE": Unavailable,
    "INVALID_ARGUMENT": InvalidArgument,
    "FAILED_PRECONDITION": FailedPrecondition,
    "OUT_OF_RANGE": OutOfRange,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "CANCELLED": Cancelled,
    "INTERNAL": InternalError,
}

_CODES = {code.value[0]: code.name for code in grpc.StatusCode}
# What gRPC's libraries and proxies make of a connection that is cut, or of
# writing to a call that the server has ended, where they do not say
# UNAVAILABLE.
_CUT = ("RST_STREAM", "Stream removed", "GOAWAY", "Internal error from Core")


def error_class(code: str, reason: str) -> type[SteadystateError]:
    """The class of an error, by its reason, or else by its code."""
    return _BY_REASON.get(reason) or _BY_CODE.get(code, SteadystateError)


def from_status(status: _wire.Message) -> SteadystateError:
    """The exception for a google.rpc.Status, as answers in streams have it."""
    code = _CODES.get(status.code, "UNKNOWN")
    reason, metadata, retry_after = "", {}, None
    for detail in status.details:
        kind = detail.type_url.rpartition("/")[2]
        if kind == "google.rpc.ErrorInfo":
            info = _wire.rpc.ErrorInfo.FromString(detail.value)
            reason, metadata = info.reason, dict(info.metadata)
        elif kind == "google.rpc.RetryInfo":
            delay = _wire.rpc.RetryInfo.FromString(detail.value).retry_delay
            retry_after = max(delay.seconds + delay.nanos / 1e9, 0.0)
    return error_class(code, reason)(status.message, code=code, reason=reason,
                                     metadata=metadata, retry_after=retry_after)


def from_rpc_error(error: grpc.RpcError) -> SteadystateError:
    """The exception for what gRPC raised."""
    call: Any = error
    for key, value in call.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = _wire.rpc.Status.FromString(value)
            if status.code == call.code().value[0]:
                return from_status(status)
    code, message = call.code().name, call.details() or ""
    cut = code in ("INTERNAL", "UNKNOWN") and any(w in message for w in _CUT)
    if code == "UNAVAILABLE" or cut:
        return ConnectionLost(message, code="UNAVAILABLE")
    return error_class(code, "")(message, code=code)
