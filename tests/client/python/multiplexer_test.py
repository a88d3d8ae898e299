"""Goal: the multiplexer carries each step out once, whatever breaks; keeps its
bounds; and is left in order by whoever is cancelled.

Method: a real server, behind a proxy that holds answers back and breaks
connections where a test needs that.
"""

import asyncio
import contextlib
import signal
import tempfile
import unittest

import steadystate
from client.python.breakable_proxy import BreakableProxy
from client.python.mortal_server import MortalServer
from client.python.timed_case import TimedCase
from steadystate import AsyncClient, Retry, Sampling
from steadystate._step_stream import PendingStep
from testing.scrape import value
from testing.server_process import ServerProcess

SEEDED = Sampling(temperature=0.7, seed=3)


async def drawn_by(carried, prompt="The ", max_tokens=40, **keywords):
    return [drawn.token async for drawn in carried.generate(
        prompt, max_tokens=max_tokens, sampling=SEEDED, ignore_eos=True,
        **keywords)]


class MultiplexerTest(TimedCase):

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServerProcess())

    async def asyncSetUp(self):
        self.proxy = self.enterContext(BreakableProxy(self.server.grpc))
        self.client = await self.enterAsyncContext(
            AsyncClient(self.proxy.address))
        # What this one sees is not broken.
        self.other = await self.enterAsyncContext(AsyncClient(self.server.grpc))

    async def multiplexer(self, *arguments, **keywords):
        return await self.enterAsyncContext(
            self.client.multiplexer(*arguments, **keywords))

    async def carried(self, multiplexer):
        return multiplexer.carry(await self.client.create_session())

    async def wait_for_position(self, carried, position):
        session = await self.other.get_session(carried.name)
        while (await session.info()).position != position:
            await asyncio.sleep(0.005)

    async def test_draws_what_generate_draws(self):
        multiplexer = await self.multiplexer()
        carried = await self.carried(multiplexer)
        tokens = await drawn_by(carried)
        self.assertEqual(len(tokens), 40)
        self.assertEqual(carried.position, 44)
        self.assertEqual(carried.unabsorbed, ())
        session = await carried.release()
        self.assertEqual((await session.info()).position, 44)
        other = await self.client.create_session()
        self.assertEqual(tokens, [
            token.token async for part in other.generate(
                "The ", max_tokens=40, sampling=SEEDED, ignore_eos=True)
            for token in part.tokens])

    async def test_the_last_token_says_why(self):
        multiplexer = await self.multiplexer()
        carried = await self.carried(multiplexer)
        drawn = [each async for each in carried.generate(
            "The ", max_tokens=5, sampling=SEEDED, ignore_eos=True)]
        self.assertEqual([each.finish_reason for each in drawn],
                         [""] * 4 + ["LENGTH"])
        self.assertEqual([each.position for each in drawn], [5, 6, 7, 8, 9])
        again = [each async for each in (await self.carried(multiplexer))
                 .generate("The ", sampling=SEEDED, max_tokens=5,
                           stop_tokens=[drawn[2].token])]
        self.assertEqual(again[-1].finish_reason, "STOP_TOKEN")
        self.assertEqual(again[-1].token, drawn[2].token)

    async def test_steps_take_and_give_text(self):
        multiplexer = await self.multiplexer()
        carried = await self.carried(multiplexer)
        answer = await carried.step("The ", sampling=SEEDED, text=True)
        self.assertEqual(answer.position, 4)
        self.assertEqual(answer.text_delta, chr(answer.sampled_token))
        # Ahead of a text goes what was drawn and not absorbed.
        async for drawn in carried.generate([answer.sampled_token],
                                            sampling=SEEDED, text=True):
            self.assertEqual(drawn.text, chr(drawn.token))
            break
        self.assertEqual(carried.unabsorbed, (drawn.token,))
        self.assertEqual((await carried.step("ab")).position, 4 + 1 + 1 + 2)
        self.assertEqual(carried.unabsorbed, ())

    async def test_the_text_of_what_ends_is_not_given(self):
        multiplexer = await self.multiplexer()
        whole = [each async for each in (await self.carried(multiplexer))
                 .generate("The ", max_tokens=6, sampling=SEEDED, text=True,
                           ignore_eos=True)]
        told = [each async for each in (await self.carried(multiplexer))
                .generate("The ", max_tokens=6, sampling=SEEDED, text=True,
                          stop_tokens=[whole[-1].token])]
        self.assertEqual(told[-1].text, "")
        self.assertEqual([each.text for each in told[:-1]],
                         [each.text for each in whole[:len(told) - 1]])

    async def test_a_lost_answer_to_a_text_is_repeated(self):
        multiplexer = await self.multiplexer()
        carried = await self.carried(multiplexer)
        self.proxy.hold_answers()
        step = asyncio.create_task(carried.step("The ", sampling=SEEDED,
                                                text=True))
        await self.wait_for_position(carried, 4)
        self.proxy.cut()
        self.proxy.pass_answers()
        answer = await step
        self.assertTrue(answer.replayed)
        self.assertEqual(answer.position, 4)
        self.assertEqual(answer.text_delta, chr(answer.sampled_token))

    async def test_sessions_share_few_streams(self):
        multiplexer = await self.multiplexer(streams=3)
        sessions = [await self.carried(multiplexer) for _ in range(20)]
        told = await asyncio.gather(*(
            drawn_by(carried, max_tokens=10) for carried in sessions))
        self.assertEqual(told, told[:1] * 20)
        self.assertEqual(multiplexer.opened_streams, 3)

    async def test_goes_on_after_every_break(self):
        multiplexer = await self.multiplexer(streams=2)
        sessions = [await self.carried(multiplexer) for _ in range(6)]
        wanted = await drawn_by(await self.carried(multiplexer))

        async def break_often():
            tokens = []
            async for drawn in sessions[0].generate(
                    "The ", max_tokens=40, sampling=SEEDED, ignore_eos=True):
                tokens.append(drawn.token)
                if len(tokens) % 8 == 0 and len(tokens) < 40:
                    self.proxy.cut()
            return tokens

        told = await asyncio.gather(break_often(),
                                    *map(drawn_by, sessions[1:]))
        self.assertEqual(told, [wanted] * 6)
        self.assertGreaterEqual(multiplexer.opened_streams, 2 + 4)
        for carried in sessions:
            self.assertEqual(await carried.settle(), 44)

    async def test_a_lost_answer_is_repeated(self):
        multiplexer = await self.multiplexer()
        carried = await self.carried(multiplexer)
        await carried.step(b"The", sampling=SEEDED)
        self.proxy.hold_answers()
        step = asyncio.create_task(carried.step(b" ", sampling=SEEDED))
        await self.wait_for_position(carried, 4)
        self.proxy.cut()
        self.proxy.pass_answers()
        answer = await step
        self.assertTrue(answer.replayed)
        self.assertEqual(answer.position, 4)

    async def test_a_cancelled_step_that_was_sent_is_waited_for(self):
        multiplexer = await self.multiplexer()
        carried = await self.carried(multiplexer)
        await carried.step(b"a")
        self.proxy.hold_answers()
        step = asyncio.create_task(carried.step(b"bc", sampling=SEEDED))
        await self.wait_for_position(carried, 3)
        step.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await step
        following = asyncio.create_task(carried.step(b"d"))
        await asyncio.sleep(0.02)
        self.assertFalse(following.done())
        self.proxy.pass_answers()
        self.assertEqual((await following).position, 4)

    async def test_a_cancelled_step_that_was_not_sent_is_not_carried_out(self):
        multiplexer = await self.multiplexer(max_in_flight=1)
        first, second = [await self.carried(multiplexer) for _ in range(2)]
        await first.step(b"a")
        await second.step(b"a")
        self.proxy.hold_answers()
        held = asyncio.create_task(first.step(b"b"))
        await self.wait_for_position(first, 2)
        waiting = asyncio.create_task(second.step(b"b"))
        await asyncio.sleep(0.02)
        self.assertEqual(multiplexer.in_flight, 1)
        waiting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await waiting
        self.proxy.pass_answers()
        await held
        self.assertEqual(await second.settle(), 1)
        self.assertEqual((await second.step(b"b")).position, 2)

    async def test_a_generation_that_is_left_early(self):
        multiplexer = await self.multiplexer()
        carried = await self.carried(multiplexer)
        tokens = []
        async with contextlib.aclosing(carried.generate(
                "The ", sampling=SEEDED, ignore_eos=True)) as generation:
            async for drawn in generation:
                tokens.append(drawn.token)
                if len(tokens) == 7:
                    break
        self.assertEqual(carried.unabsorbed, (tokens[-1],))
        self.assertEqual(carried.position, 4 + 6)
        # It goes on as if it had not been left.
        tokens += await drawn_by(carried, None, max_tokens=33)
        other = await self.carried(multiplexer)
        self.assertEqual(tokens, await drawn_by(other))

    async def test_bounds(self):
        multiplexer = await self.multiplexer(max_in_flight=4, max_sessions=9)
        sessions = [await self.carried(multiplexer) for _ in range(9)]
        for carried in sessions:
            await carried.step(b"a")
        self.proxy.hold_answers()
        steps = [asyncio.create_task(carried.step(b"b"))
                 for carried in sessions]
        await self.wait_for_position(sessions[3], 2)
        self.assertEqual(multiplexer.in_flight, 4)
        self.proxy.pass_answers()
        self.assertEqual([answer.position for answer in
                          await asyncio.gather(*steps)], [2] * 9)
        self.assertEqual(multiplexer.in_flight, 0)
        with self.assertRaisesRegex(ValueError, "9 sessions are carried"):
            await self.carried(multiplexer)
        await sessions[0].release()
        await self.carried(multiplexer)
        with self.assertRaisesRegex(ValueError, "streams is 0"):
            self.client.multiplexer(0)

    async def test_prompts_longer_than_a_step(self):
        multiplexer = await self.multiplexer()
        carried = await self.carried(multiplexer)
        most = (await self.client.model()).max_step_tokens
        await drawn_by(carried, "x" * (most + 10), max_tokens=1)
        self.assertEqual(carried.position, most + 11)

    async def test_errors_are_those_of_the_step(self):
        multiplexer = await self.multiplexer()
        carried = await self.carried(multiplexer)
        with self.assertRaises(steadystate.InvalidArgument) as caught:
            await carried.step([99999])
        self.assertEqual(caught.exception.reason, "TOKEN_OUT_OF_RANGE")
        with self.assertRaises((TypeError, ValueError)):
            await carried.step(["a"])
        self.assertEqual((await carried.step(b"ab")).position, 2)
        await (await self.other.get_session(carried.name)).step(b"c")
        with self.assertRaises(steadystate.PositionMismatch):
            await carried.step(b"d")
        self.assertEqual((await carried.step(b"d")).position, 4)
        with self.assertRaisesRegex(ValueError, "a prompt is needed"):
            await drawn_by(carried, None)
        await self.other.delete_session(carried.name)
        with self.assertRaises(steadystate.SessionNotFound):
            await carried.step(b"e")
        # The streams are as they were.
        self.assertEqual(len(await drawn_by(
            await self.carried(multiplexer))), 40)

    async def test_two_uses_of_one_session_do_not_mix(self):
        multiplexer = await self.multiplexer()
        carried = await self.carried(multiplexer)
        with self.assertRaisesRegex(RuntimeError, "used for something else"):
            async for _ in carried.generate("The ", sampling=SEEDED):
                await carried.settle()

    async def test_patience_ends_and_doubt_is_settled_later(self):
        client = await self.enterAsyncContext(AsyncClient(
            self.proxy.address, retry=Retry(patience=0.3)))
        multiplexer = await self.enterAsyncContext(client.multiplexer(1))
        carried = multiplexer.carry(await client.create_session())
        await carried.step(b"a")
        self.proxy.hold_answers()
        step = asyncio.create_task(carried.step(b"b"))
        await self.wait_for_position(carried, 2)
        for _ in range(100):
            self.proxy.cut()
            await asyncio.sleep(0.01)
            if step.done():
                break
        with self.assertRaises(steadystate.ConnectionLost):
            await step
        self.proxy.cut()
        self.proxy.pass_answers()
        # It had been carried out, and is not done again, however long it takes
        # to find that out.
        while True:
            with contextlib.suppress(steadystate.ConnectionLost):
                self.assertEqual((await carried.step(b"c")).position, 3)
                break

    async def test_close_ends_what_waits(self):
        multiplexer = self.client.multiplexer()
        carried = await self.carried(multiplexer)
        await carried.step(b"a")
        self.proxy.hold_answers()
        step = asyncio.create_task(carried.step(b"b"))
        await asyncio.sleep(0.02)
        await multiplexer.close()
        await multiplexer.close()
        with self.assertRaises(steadystate.ClientClosed):
            await step
        with self.assertRaises(steadystate.ClientClosed):
            await carried.step(b"c")
        self.proxy.pass_answers()


class GoingAwayTest(TimedCase):

    async def test_a_long_prompt_goes_on_where_a_shutdown_cut_it(self):
        store = self.enterContext(tempfile.TemporaryDirectory())
        flags = ("--store", store, "--drain_timeout", "10ms")
        server = self.enterContext(MortalServer(*flags))
        client = await self.enterAsyncContext(AsyncClient(server.grpc))
        multiplexer = await self.enterAsyncContext(client.multiplexer(1))
        carried = multiplexer.carry(await client.create_session())
        most = (await client.model()).max_step_tokens
        told = asyncio.create_task(
            drawn_by(carried, "abcde" * most, max_tokens=3))
        while value(server.metrics, "steadystate_tokens_total",
                    kind="prompt") < 2 * most:
            await asyncio.sleep(0.001)
        # While the next step of the prompt runs.
        self.assertEqual(await asyncio.to_thread(server.end, signal.SIGTERM), 0)
        self.enterContext(ServerProcess(*flags, "--listen", server.grpc))
        self.assertEqual(len(await told), 3)
        session = await carried.release()
        self.assertEqual((await session.info()).position, 5 * most + 3)

    async def test_steps_are_taken_until_the_time_given_and_held_then(self):
        with MortalServer("--drain_lag", "300ms") as server:
            async with AsyncClient(server.grpc,
                                   retry=Retry(patience=1)) as client:
                multiplexer = client.multiplexer(1)
                carried = multiplexer.carry(await client.create_session())
                self.assertIsNone(multiplexer.going_away)
                after = 0
                with self.assertRaises(steadystate.Unavailable):
                    async for _ in carried.generate(
                            "The ", sampling=SEEDED, ignore_eos=True):
                        if multiplexer.going_away is not None:
                            after += 1
                        elif carried.position == 8:
                            server.signal(signal.SIGTERM)
                self.assertGreater(after, 5)
                self.assertEqual(server.wait(), 0)

    async def test_a_generation_is_told(self):
        with MortalServer("--drain_lag", "100ms") as server:
            async with AsyncClient(server.grpc) as client:
                session = await client.create_session()
                told = []
                async for part in session.generate(
                        "The ", max_tokens=500, ignore_eos=True):
                    if not told:
                        server.signal(signal.SIGTERM)
                        told.append(None)
                    if part.going_away:
                        told.append(part.going_away)
                self.assertEqual(len(told), 2)
                self.assertEqual(server.wait(), 0)


class PendingStepTest(unittest.TestCase):

    def step(self):
        return PendingStep("sessions/a", "r", 10, [1, 2, 3, 4], None)

    def test_a_step_of_which_a_part_was_carried_out_is_the_rest_of_it(self):
        step = self.step()
        self.assertTrue(step.keep_rest(13))
        self.assertEqual((step.position, step.tokens), (13, [4]))
        self.assertEqual(step.request.step.expected_position, 13)
        self.assertEqual(step.request.step.tokens.ids, [4])

    def test_other_positions_leave_it_as_it_is(self):
        for position in (None, 0, 9, 10, 14, 99):
            step = self.step()
            self.assertFalse(step.keep_rest(position))
            self.assertEqual(step.request.step.tokens.ids, [1, 2, 3, 4])


if __name__ == "__main__":
    unittest.main()
