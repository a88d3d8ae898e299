"""Goal: a generation whose stream breaks goes on, and gives each token and each
character once.

Method: a real server behind a proxy that breaks connections; and one that is
killed and started again with its store.
"""

import asyncio
import signal
import tempfile
import unittest
from contextlib import aclosing

import steadystate
from client.python.breakable_proxy import BreakableProxy
from client.python.mortal_server import MortalServer
from client.python.timed_case import TimedCase
from steadystate import AsyncClient, GeneratedToken, GeneratePart, Sampling
from steadystate._generation import _Told
from testing.server_process import ServerProcess

ASKED = {"max_tokens": 800, "ignore_eos": True,
         "sampling": Sampling(temperature=0.7, seed=5)}


async def parts_of(session, on_part=lambda parts: None, **changed):
    parts = []
    async for part in session.generate("The ", **{**ASKED, **changed}):
        parts.append(part)
        on_part(parts)
    return parts


def said(parts):
    return ([token.token for part in parts for token in part.tokens],
            "".join(map(str, parts)))


class Forgetful:
    """A transport to a server that once, after so many tokens, does not know
    any more how the generation began."""

    def __init__(self, transport, tokens):
        self._transport = transport
        self._left = tokens

    def __getattr__(self, name):
        return getattr(self._transport, name)

    async def messages(self, method, request, timeout):
        async with aclosing(self._transport.messages(
                method, request, timeout)) as messages:
            async for message in messages:
                yield message
                was, self._left = self._left, self._left - len(message.tokens)
                if self._left <= 0 < was:
                    raise steadystate.ReplayUnavailable("it is forgotten")


class GenerationTest(TimedCase):

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServerProcess())

    async def asyncSetUp(self):
        self.proxy = self.enterContext(BreakableProxy(self.server.grpc))
        self.client = await self.enterAsyncContext(
            AsyncClient(self.proxy.address))

    async def test_goes_on_after_every_break(self):
        wanted = said(await parts_of(await self.client.create_session()))
        self.assertEqual(len(wanted[0]), ASKED["max_tokens"])

        def break_often(parts):
            if len(parts) in (1, 2, 4):
                self.proxy.cut()

        session = await self.client.create_session()
        parts = await parts_of(session, break_often)
        self.assertEqual(said(parts), wanted)
        self.assertGreater(parts[-1].usage.replayed_tokens, 0)
        self.assertEqual(session.position, len("The ") + ASKED["max_tokens"])

    async def test_what_is_not_kept_is_not_told_again(self):
        session = await self.client.create_session()
        with self.assertRaises(steadystate.ReplayUnavailable):
            await parts_of(session, lambda parts: self.proxy.cut(),
                           logprobs=1)

    async def test_goes_on_where_the_server_remembers_no_beginning(self):
        async def parts_through_a_break(**changed):
            session = await self.client.create_session()
            session._transport = Forgetful(session._transport, 100)
            return await parts_of(session, **changed)

        parts = await parts_through_a_break(sampling=Sampling(temperature=0.7))
        usage = parts[-1].usage
        self.assertEqual((usage.prompt_tokens, usage.generated_tokens),
                         (len("The "), ASKED["max_tokens"]))
        self.assertEqual(said(parts), said(await parts_of(
            await self.client.create_session(),
            sampling=Sampling(temperature=0.7, seed=usage.seed))))
        # What might begin a stop string was held back: nobody has it.
        for changed in ({"stop": "no such text"}, {"logprobs": 1}):
            with self.assertRaises(steadystate.ReplayUnavailable):
                await parts_through_a_break(**changed)

    async def test_without_a_session_a_break_is_told_once_it_has_begun(self):
        await self.client.model()  # there is a connection
        self.proxy.cut()
        generated = self.client.generate("The ", **ASKED)
        parts = []
        with self.assertRaises(steadystate.ConnectionLost):
            async for part in generated:
                parts.append(part)
                self.proxy.cut()
        self.assertTrue(parts)

    async def test_a_watch_goes_on_after_a_break(self):
        watch = self.client.watch_sessions()
        await anext(watch)
        names = [(await self.client.create_session()).name for _ in range(3)]
        self.proxy.cut()
        names.append((await self.client.create_session()).name)
        seen = []
        while len(seen) < len(names):
            seen += (await anext(watch)).events
        self.assertEqual([event.session for event in seen], names)
        await watch.aclose()

    async def test_a_step_whose_answer_is_lost_is_carried_out_once(self):
        session = await self.client.create_session()
        other = await self.enterAsyncContext(AsyncClient(self.server.grpc))
        first = await session.step(b"The", sampling=Sampling(seed=1))
        self.assertFalse(first.replayed)
        self.proxy.hold_answers()
        step = asyncio.create_task(
            session.step(b" ab", sampling=Sampling(seed=1)))
        twin = await other.get_session(session.name)
        while (await twin.info()).position != 6:
            await asyncio.sleep(0.01)
        self.proxy.cut()
        self.proxy.pass_answers()
        answer = await step
        self.assertTrue(answer.replayed)
        self.assertEqual(answer.position, 6)
        self.assertEqual((await session.info()).position, 6)

    async def test_what_is_created_is_created_once(self):
        await self.client.health()
        other = await self.enterAsyncContext(AsyncClient(self.server.grpc))

        async def names():
            return {each.name async for each in other.list_sessions()}

        before = await names()
        self.proxy.hold_answers()
        made = asyncio.create_task(self.client.create_session())
        while len(await names()) == len(before):
            await asyncio.sleep(0.01)
        self.proxy.cut()
        self.proxy.pass_answers()
        session = await made
        self.assertEqual(await names() - before, {session.name})
        # The same for its end.
        self.proxy.hold_answers()
        gone = asyncio.create_task(session.delete())
        while len(await names()) != len(before):
            await asyncio.sleep(0.01)
        self.proxy.cut()
        self.proxy.pass_answers()
        await gone


class RestartTest(TimedCase):

    async def test_goes_on_when_the_server_has_come_back(self):
        with ServerProcess() as server:
            async with AsyncClient(server.grpc) as client:
                wanted = said(await parts_of(await client.create_session()))
        for how in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(how=how):
                parts = await self.parts_through(how)
                self.assertGreater(parts[-1].usage.replayed_tokens, 0)
                self.assertEqual(said(parts), wanted)

    async def parts_through(self, how):
        """The parts of a generation whose server ends amid it."""
        flags = ["--store", self.enterContext(tempfile.TemporaryDirectory()),
                 "--drain_timeout", "10ms"]
        server = self.enterContext(MortalServer(*flags))
        client = await self.enterAsyncContext(AsyncClient(server.grpc))
        session = await client.create_session()

        def restart(parts):
            if len(parts) == 3:
                server.end(how)
                self.enterContext(
                    ServerProcess(*flags, "--listen", server.grpc))

        return await parts_of(session, restart)


class ToldTest(unittest.TestCase):

    def part(self, text, *tokens, **more):
        return GeneratePart(text=text, tokens=tuple(
            GeneratedToken(token=token) for token in tokens), **more)

    def test_what_was_told_is_left_out_however_it_is_cut(self):
        told = _Told()
        self.assertEqual(told.take(self.part("ab", 1, 2)).text, "ab")
        self.assertEqual(told.take(self.part("c", 3)).text, "c")
        told.rewind()
        self.assertIsNone(told.take(self.part("a", 1)))
        left = told.take(self.part("bcd", 2, 3, 4))
        self.assertEqual(left.text, "d")
        self.assertEqual([token.token for token in left.tokens], [4])
        told.rewind()
        self.assertIsNone(told.take(self.part("abcd", 1, 2, 3, 4)))
        end = told.take(self.part("", finish_reason="LENGTH"))
        self.assertEqual(end.finish_reason, "LENGTH")


if __name__ == "__main__":
    unittest.main()
