"""The thread on which the clients without asyncio do their work."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
import weakref
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from .errors import ClientClosed

T = TypeVar("T")


class LoopThread:
    """One thread with an event loop, for all clients of a process that do not
    use asyncio: it begins with the first, and is joined when the last has been
    closed. gRPC for asyncio is at its best with a single loop.
    """

    _lock = threading.Lock()
    _shared: LoopThread | None = None

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._users = 0
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(_report)
        # A daemon, so that a client that nobody closed does not keep the
        # program from ending; see close_all.
        self._thread = threading.Thread(target=self._run, daemon=True,
                                        name="steadystate")
        self._thread.start()

    @classmethod
    def acquire(cls) -> LoopThread:
        """The thread, for a user more."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
            cls._shared._users += 1
            return cls._shared

    def release(self) -> None:
        """A user less; joins the thread after the last.
        REQUIRES: not called on the thread."""
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
            LoopThread._shared = None
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def is_current(self) -> bool:
        """Whether the caller is on the thread."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()


# The thread stays with the parent, and so does whoever held the lock.
def _forget() -> None:
    LoopThread._lock = threading.Lock()
    LoopThread._shared = None


os.register_at_fork(after_in_child=_forget)


class Runner:
    """Runs one client's coroutines on the shared thread, for callers on any
    other one, and ends those that are left when the client is closed."""

    def __init__(self) -> None:
        self._thread = LoopThread.acquire()
        self._tasks: set[asyncio.Task[Any]] = set()  # of the loop's thread
        self._lock = threading.Lock()
        self._closed = False
        _open_runners.add(self)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Waits for a coroutine's result. An interrupt cancels it."""
        try:
            self._check_process()
            with self._lock:
                self._check_open()
                future = asyncio.run_coroutine_threadsafe(
                    self._tracked(coroutine), self._thread.loop)
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClientClosed("the client has been closed",
                               code="CANCELLED") from None
        except BaseException:
            future.cancel()
            raise

    def abandon(self, iterator: AsyncIterator[Any]) -> None:
        """Closes a generator that nobody reads any more, without waiting."""
        if self._thread.pid != os.getpid():
            return
        with self._lock:
            if self._closed:
                return
            asyncio.run_coroutine_threadsafe(
                self._tracked(_close(iterator)), self._thread.loop)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Runs `last`, ends what else runs, and lets the thread go. May be
        called again, and from several threads: all but the first do nothing."""
        if self._thread.pid != os.getpid():
            last.close()
            return
        with self._lock:
            done, self._closed = self._closed, True
        if done:
            last.close()
            return
        _open_runners.discard(self)
        try:
            asyncio.run_coroutine_threadsafe(
                self._end(last), self._thread.loop).result()
        finally:
            self._thread.release()

    def _check_process(self) -> None:
        if self._thread.pid != os.getpid():
            raise RuntimeError(
                "this client was made before fork(); its thread and gRPC's "
                "connections do not survive that: make a client in each "
                "process")

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the client has been closed", code="CANCELLED")
        if self._thread.is_current():
            raise RuntimeError("a call would wait for the thread that it is "
                               "on: use AsyncClient within coroutines")

    async def _tracked(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await coroutine
        finally:
            self._tasks.discard(task)

    async def _end(self, last: Coroutine[Any, Any, None]) -> None:
        try:
            await last
        finally:
            left = list(self._tasks)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)


async def _close(iterator: AsyncIterator[Any]) -> None:
    close: Any = getattr(iterator, "aclose", None)
    if close is not None:
        await close()


# gRPC 1.51's wake-ups are noisy where a program has other loops, too.
def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), BlockingIOError):
        loop.default_exception_handler(context)


_open_runners: weakref.WeakSet[Runner] = weakref.WeakSet()


async def _nothing() -> None:
    pass


@atexit.register
def close_all() -> None:
    """Ends what is open when the program ends: a thread that runs while the
    interpreter is taken down could crash it."""
    for runner in list(_open_runners):
        runner.close(_nothing())
