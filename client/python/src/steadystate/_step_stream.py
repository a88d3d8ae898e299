"""One StreamStep stream that is opened again whenever it breaks."""

from __future__ import annotations

import asyncio
import copy
import datetime
from collections import deque
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from . import _wire
from ._transport import Transport
from .errors import (ClientClosed, ConnectionLost, Draining, PositionMismatch,
                     SteadystateError, Unavailable, from_status)
from .retry import Backoff
from .types import StepResult, read, timestamp

_Request = _wire.message_class("steadystate.v1.StreamStepRequest.Request")

# Of one message; the server takes 1024 steps, and 4 MiB.
_MOST_STEPS = 256
_MOST_BYTES = 1 << 20


class PendingStep:
    """A step of which the caller has no answer yet.

    It is sent as often as it takes, under the same name and with the position
    that it expects, so that the server carries it out once. `done` is set when
    there is an answer, or an error. After an error that left open whether the
    server has carried it out, `in_doubt` is true: to know, send it again.
    """

    def __init__(self, session: str, request_id: str, position: int,
                 tokens: list[int] | str, output: _wire.Message) -> None:
        self.session = session
        self.request_id = request_id
        self.position = position  # expected
        self.tokens = tokens
        self.output = output
        self.done = asyncio.Event()
        self.answer: StepResult | None = None
        self.error: SteadystateError | None = None
        self.was_sent = False
        self.in_doubt = False
        self.backoff: Backoff | None = None  # of refusals of this step
        self.on_done: Callable[[PendingStep], None] = lambda step: None
        self.request = self._make_request()

    def _make_request(self) -> Any:
        # One request of a StreamStepRequest's many.
        request = _Request(request_id=self.request_id)
        request.step.session = self.session
        request.step.expected_position = self.position
        if isinstance(self.tokens, str):
            request.step.text = self.tokens
        else:
            request.step.tokens.ids.extend(self.tokens)
        if self.output is not None:
            request.step.output.CopyFrom(self.output)
        return request

    def finish(self, answer: StepResult | None = None,
               error: SteadystateError | None = None,
               in_doubt: bool = False) -> None:
        """Tells the caller. Does nothing if that has been done."""
        if self.done.is_set():
            return
        self.answer, self.error, self.in_doubt = answer, error, in_doubt
        self.done.set()
        self.on_done(self)

    def failure(self) -> SteadystateError:
        """The error, to be raised. A copy for each caller: what looks at the
        trace of one (unittest clears its frames) must not reach the task that
        found it.
        REQUIRES: there is one."""
        assert self.error is not None
        return copy.copy(self.error)

    def keep_rest(self, position: int | None) -> bool:
        """Makes this the step of what is left of it, where the server says that
        it carried out a part, up to `position`. False: it did not, or the step
        is text, of which only the server knows what is left: sent again as it
        is, it goes on with that."""
        if isinstance(self.tokens, str):
            return False
        taken = -1 if position is None else position - self.position
        if not 0 < taken < len(self.tokens):
            return False
        self.position += taken
        self.tokens = self.tokens[taken:]
        self.request = self._make_request()
        return True


class StepStream:
    """Carries steps to the server and their answers back. There is a call only
    from the first step on; when it has ended, there is another when there is a
    step to send, or one without an answer. Holds as many steps as its owner
    gives it, each of another session. Of one event loop."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._queue: deque[PendingStep] = deque()  # to be sent
        self._sent: dict[str, PendingStep] = {}  # by request_id
        self._timers: dict[PendingStep, asyncio.TimerHandle] = {}
        self._work = asyncio.Event()  # there is something to send
        self._leaving = False  # no more steps on this call
        self._backoff = Backoff(transport.retry)
        self._task: asyncio.Task[None] | None = None
        self.going_away: datetime.datetime | None = None
        self.opened_count = 0

    def __len__(self) -> int:
        return len(self._queue) + len(self._sent) + len(self._timers)

    def send(self, step: PendingStep) -> None:
        """Puts a step behind those that wait. The loop's task sends it."""
        step.backoff = Backoff(self._transport.retry)
        self._queue.append(step)
        self._work.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def withdraw(self, step: PendingStep) -> bool:
        """Takes back a step that was never sent. False: it was."""
        if step.was_sent or step.done.is_set():
            return False
        self._queue.remove(step)
        step.finish(error=ClientClosed("the step was withdrawn",
                                       code="CANCELLED"))
        return True

    async def close(self) -> None:
        """Ends the call. What has no answer gets ClientClosed."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._fail_all(ClientClosed("the multiplexer has been closed",
                                    code="CANCELLED"))

    # -- The task

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            try:
                await self._one_call()
                # The server has ended the call in order.
                error: SteadystateError = ConnectionLost(
                    "the stream has ended", code="UNAVAILABLE")
            except SteadystateError as failure:
                error = failure.with_traceback(None)
            except Exception as bug:  # no step waits for ever
                error = SteadystateError(f"within the client: {bug!r}")
            self._take_back_sent()
            if not len(self):
                continue
            wait = self._backoff.next_wait(error)
            if wait is None:
                self._fail_all(error)
                self._backoff.succeed()
            else:
                await asyncio.sleep(wait)

    async def _one_call(self) -> None:
        call = self._transport.start("StreamStep")
        self.opened_count += 1
        self._leaving = False
        self._work.set()
        sender = asyncio.create_task(self._send_steps(call))
        leave: asyncio.TimerHandle | None = None
        try:
            while True:
                with self._transport.errors():
                    message = await call.read()
                if message is grpc.aio.EOF:
                    return
                for result in message.results:
                    self._take(result)
                if message.HasField("going_away"):
                    leave = self._plan_to_leave(message.going_away)
        finally:
            if leave is not None:
                leave.cancel()
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
            self._transport.cancel(call)

    async def _send_steps(self, call: Any) -> None:
        try:
            while not self._leaving:
                await self._work.wait()
                self._work.clear()
                while self._queue and not self._leaving:
                    await call.write(self._next_message())
            # The server answers what it has, and ends the call.
            await call.done_writing()
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass  # the call has ended, and its reader is told why
        except BaseException:
            call.cancel()  # so that its reader does not wait for ever
            raise

    def _next_message(self) -> Any:
        message = _wire.v1.StreamStepRequest()
        size = 0
        while self._queue and len(message.requests) < _MOST_STEPS:
            request = self._queue[0].request
            size += request.ByteSize()
            if size > _MOST_BYTES and message.requests:
                break
            message.requests.append(request)
            step = self._queue.popleft()
            step.was_sent = True
            self._sent[step.request_id] = step
        return message

    def _take(self, result: _wire.Message) -> None:
        step = self._sent.pop(result.request_id, None)
        if step is None:
            return
        if result.HasField("step"):
            self._backoff.succeed()
            step.finish(answer=read(StepResult, result.step))
            return
        error = from_status(result.error)
        if isinstance(error, Draining):
            # The call will end; the server that comes next takes the step.
            self._leaving = True
            step.keep_rest(error.position)
            self._queue.append(step)
            self._work.set()
        elif isinstance(error, PositionMismatch) and step.keep_rest(
                error.position):
            self._queue.append(step)
            self._work.set()
        else:
            self._backoff.succeed()
            self._try_later(step, error)

    def _try_later(self, step: PendingStep, error: SteadystateError) -> None:
        assert step.backoff is not None
        wait = step.backoff.next_wait(error)
        if wait is None:
            step.finish(error=error, in_doubt=isinstance(error, Unavailable))
            return
        step.keep_rest(error.position)

        def send_again() -> None:
            del self._timers[step]
            self._queue.append(step)
            self._work.set()

        self._timers[step] = asyncio.get_running_loop().call_later(
            wait, send_again)

    def _plan_to_leave(self, going_away: _wire.Message) -> asyncio.TimerHandle:
        self.going_away = timestamp(going_away.requests_until)
        left = self.going_away - datetime.datetime.now(datetime.timezone.utc)

        def leave() -> None:
            self._leaving = True
            self._work.set()

        return asyncio.get_running_loop().call_later(
            max(left.total_seconds(), 0.0), leave)

    def _take_back_sent(self) -> None:
        # In the order in which they were sent, before what was not.
        self._queue.extendleft(reversed(self._sent.values()))
        self._sent.clear()
        if self._queue:
            self._work.set()
        else:
            self._work.clear()

    def _fail_all(self, error: SteadystateError) -> None:
        self._take_back_sent()
        for timer in self._timers.values():
            timer.cancel()
        steps = [*self._queue, *self._timers]
        self._queue.clear()
        self._timers.clear()
        self._work.clear()
        for step in steps:
            step.finish(error=error, in_doubt=step.was_sent)
