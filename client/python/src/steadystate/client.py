"""The client without asyncio: the same calls, which wait."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import grpc

from ._fields import refuse
from ._loop_thread import Runner, _close
from ._session import AsyncSession
from .aio import AsyncClient
from .multiplexer import AsyncMultiplexer, CarriedSession
from .retry import Retry

P = ParamSpec("P")
T = TypeVar("T")


class Parts(Generic[T], Iterator[T], AbstractContextManager[Any]):
    """An iterator over what a call answers. Whoever leaves it early closes it,
    or uses `with`; one that is let go is closed a little later."""

    def __init__(self, runner: Runner, iterator: AsyncIterator[T]) -> None:
        self._runner = runner
        self._iterator = iterator
        self._ended = False

    def __iter__(self) -> Parts[T]:
        return self

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        try:
            return self._runner.run(_next(self._iterator))
        except StopAsyncIteration:
            self._ended = True
            raise StopIteration from None
        except BaseException:
            self._ended = True
            raise

    def close(self) -> None:
        """Ends the call, and waits for that. May be called again."""
        if not self._ended:
            self._ended = True
            self._runner.run(_close(self._iterator))

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._ended:
            self._ended = True
            self._runner.abandon(self._iterator)


async def _next(iterator: AsyncIterator[T]) -> T:
    return await anext(iterator)


# The same method, with an object that has _runner and _wrapped as its self.
def _waits(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
           ) -> Callable[Concatenate[Any, P], T]:
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._runner.run(  # type: ignore[no-any-return]
            method(self._wrapped, *args, **kwargs))

    return call


def _iterates(method: Callable[Concatenate[Any, P], AsyncIterator[T]]
              ) -> Callable[Concatenate[Any, P], Parts[T]]:
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Parts[T]:
        return Parts(self._runner, method(self._wrapped, *args, **kwargs))

    return call


def _gives_session(
        method: Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncSession]]
        ) -> Callable[Concatenate[Any, P], Session]:
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Session:
        return Session(self._runner, self._runner.run(
            method(self._wrapped, *args, **kwargs)))

    return call


class Session:
    """A session on the server: AsyncSession's calls, which wait. Any thread may
    use it, but one at a time."""

    def __init__(self, runner: Runner, wrapped: AsyncSession) -> None:
        self._runner = runner
        self._wrapped = wrapped
        self.name = wrapped.name
        self.id = wrapped.id
        self.created_as = wrapped.created_as

    def __repr__(self) -> str:
        return repr(self._wrapped).replace("AsyncSession", "Session", 1)

    @property
    def position(self) -> int | None:
        """As AsyncSession.position."""
        return self._wrapped.position

    info = _waits(AsyncSession.info)
    generate = _iterates(AsyncSession.generate)
    absorb = _waits(AsyncSession.absorb)
    step = _waits(AsyncSession.step)
    score = _waits(AsyncSession.score)
    embed = _waits(AsyncSession.embed)
    rewind = _waits(AsyncSession.rewind)
    update = _waits(AsyncSession.update)
    checkpoint = _waits(AsyncSession.checkpoint)
    export = _waits(AsyncSession.export)
    export_to = _waits(AsyncSession.export_to)
    hibernate = _waits(AsyncSession.hibernate)
    delete = _waits(AsyncSession.delete)

    def _fork(method: Callable[  # type: ignore[misc]
            Concatenate[Any, P], Coroutine[Any, Any, list[AsyncSession]]]
            ) -> Callable[Concatenate[Any, P], list[Session]]:
        @functools.wraps(method)
        def call(self: Any, /, *args: P.args, **kwargs: P.kwargs
                 ) -> list[Session]:
            copies = self._runner.run(method(self._wrapped, *args, **kwargs))
            return [Session(self._runner, copy) for copy in copies]

        return call

    fork = _fork(AsyncSession.fork)
    del _fork


class Client:
    """A connection to a server, for programs without asyncio.

        with Client("127.0.0.1:50051") as client:
            session = client.create_session()
            for part in session.generate("The ", max_tokens=100):
                print(part, end="", flush=True)
            session.delete()

    Takes what AsyncClient takes, and has its calls. All Clients of a process
    share one thread, "steadystate", that does their work; it is joined when the
    last of them is closed. Any thread may use a Client. Not for use in a
    process that fork() made after it: its calls raise RuntimeError there, and
    close does nothing.
    """

    def __init__(self, address: str | None = None, *,
                 credentials: grpc.ChannelCredentials | None = None,
                 retry: Retry | None = None,
                 max_message_bytes: int = 64 << 20) -> None:
        self._wrapped = AsyncClient(address, credentials=credentials,
                                    retry=retry,
                                    max_message_bytes=max_message_bytes)
        self._runner = Runner()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._wrapped).replace("AsyncClient", "Client", 1)

    @property
    def address(self) -> str:
        """Where the server is, as gRPC takes it."""
        return self._wrapped.address

    def close(self) -> None:
        """Ends what is under way, with ClientClosed for those who wait, and the
        connection. May be called again, from any thread."""
        self._runner.close(self._wrapped.close())

    create_session = _gives_session(AsyncClient.create_session)
    get_session = _gives_session(AsyncClient.get_session)
    import_session = _gives_session(AsyncClient.import_session)
    list_sessions = _iterates(AsyncClient.list_sessions)
    watch_sessions = _iterates(AsyncClient.watch_sessions)
    delete_session = _waits(AsyncClient.delete_session)
    generate = _iterates(AsyncClient.generate)
    list_checkpoints = _iterates(AsyncClient.list_checkpoints)
    delete_checkpoint = _waits(AsyncClient.delete_checkpoint)
    model = _waits(AsyncClient.model)
    tokenize = _waits(AsyncClient.tokenize)
    detokenize = _waits(AsyncClient.detokenize)
    score = _waits(AsyncClient.score)
    embed = _waits(AsyncClient.embed)
    health = _waits(AsyncClient.health)
    wait_until_serving = _waits(AsyncClient.wait_until_serving)

    def multiplexer(self, streams: int = 4, *, max_in_flight: int = 1024,
                    max_sessions: int = 100_000) -> Multiplexer:
        """As AsyncClient.multiplexer."""
        async def make() -> AsyncMultiplexer:
            return self._wrapped.multiplexer(
                streams, max_in_flight=max_in_flight, max_sessions=max_sessions)

        return Multiplexer(self._runner, self._runner.run(make()))


class Multiplexer:
    """AsyncMultiplexer for threads: each session's calls come from one thread
    at a time, those of different sessions from any."""

    def __init__(self, runner: Runner, wrapped: AsyncMultiplexer) -> None:
        self._runner = runner
        self._wrapped = wrapped

    def __enter__(self) -> Multiplexer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    close = _waits(AsyncMultiplexer.close)

    def carry(self, session: Session) -> Carried:
        """As AsyncMultiplexer.carry."""
        if not isinstance(session, Session):
            refuse("session", session,
                   "a Session, such as client.create_session(),")

        async def take_up() -> CarriedSession:
            return self._wrapped.carry(session._wrapped)

        return Carried(self._runner, self._runner.run(take_up()))


class Carried:
    """CarriedSession's calls, which wait."""

    def __init__(self, runner: Runner, wrapped: CarriedSession) -> None:
        self._runner = runner
        self._wrapped = wrapped
        self.name = wrapped.name

    @property
    def position(self) -> int | None:
        """As CarriedSession.position."""
        return self._wrapped.position

    step = _waits(CarriedSession.step)
    generate = _iterates(CarriedSession.generate)
    settle = _waits(CarriedSession.settle)
    release = _gives_session(CarriedSession.release)
