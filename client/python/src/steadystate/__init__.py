"""Client of Steadystate, a gRPC server of linear-attention language models.

Client is for programs without asyncio, AsyncClient for those with it. README.md
of the package shows both.
"""

import pkgutil

# Stubs that somebody has generated from the protos are steadystate.v1.*: they
# are found beside this package, wherever they are in the path.
__path__ = pkgutil.extend_path(__path__, __name__)

from ._session import AsyncSession
from ._version import __version__
from .aio import AsyncClient
from .chat import AsyncChat, Chat
from .chat_template import render_chat
from .client import Carried, Client, Multiplexer, Parts, Session
from .errors import (AlreadyExists, BudgetExhausted, Cancelled, ClientClosed,
                     ConnectionLost, DeadlineExceeded, Draining,
                     FailedPrecondition, InternalError, InvalidArgument,
                     MessageTooLarge, NotFound, OutOfRange, PositionMismatch,
                     QueueFull, ReplayUnavailable, ResourceExhausted,
                     SessionBusy, SessionExpired, SessionNotFound,
                     SnapshotRejected, StateNotFinite, SteadystateError,
                     StoreUnavailable, TokenizerUnavailable, Unavailable)
from .multiplexer import AsyncMultiplexer, CarriedSession, StreamedToken
from .retry import Retry
from .types import (CheckpointInfo, EmbedResult, GeneratedToken, GeneratePart,
                    ModelInfo, Sampling, ScoredToken, ScoreResult,
                    SessionEvent, SessionInfo, SpecialToken, StepResult,
                    TextPart, TokenLogprob, Usage, WatchPart)

__all__ = [
    "AlreadyExists", "AsyncChat", "AsyncClient", "AsyncMultiplexer",
    "AsyncSession", "BudgetExhausted", "Cancelled", "Carried",
    "CarriedSession", "Chat", "CheckpointInfo", "Client", "ClientClosed",
    "ConnectionLost", "DeadlineExceeded", "Draining", "EmbedResult",
    "FailedPrecondition", "GeneratePart", "GeneratedToken", "InternalError",
    "InvalidArgument", "MessageTooLarge", "ModelInfo", "Multiplexer",
    "NotFound", "OutOfRange", "Parts", "PositionMismatch", "QueueFull",
    "ReplayUnavailable", "ResourceExhausted", "Retry", "Sampling",
    "ScoreResult", "ScoredToken", "Session", "SessionBusy", "SessionEvent",
    "SessionExpired", "SessionInfo", "SessionNotFound", "SnapshotRejected", "SpecialToken",
    "StateNotFinite", "SteadystateError", "StepResult", "StoreUnavailable",
    "StreamedToken", "TextPart", "TokenLogprob", "TokenizerUnavailable",
    "Unavailable", "Usage", "WatchPart", "__version__", "render_chat",
]
