"""Goal: the calls of AsyncClient and AsyncSession do what they say, and fail
with what they say.

Method: a real server with the demo model, whose tokens are bytes.
"""

import asyncio
import contextlib
import pathlib
import tempfile
import unittest

import steadystate
from client.python.timed_case import TimedCase
from steadystate import AsyncClient, Retry, Sampling
from testing.server_process import ServerProcess

GREEDY = Sampling(temperature=0.0)


async def text_of(parts):
    return "".join([part.text async for part in parts])


class AioTest(TimedCase):

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServerProcess())

    async def asyncSetUp(self):
        self.client = await self.enterAsyncContext(
            AsyncClient(self.server.grpc))

    async def session(self, *arguments, **keywords):
        session = await self.client.create_session(*arguments, **keywords)
        self.addAsyncCleanup(self.forget, session)
        return session

    async def forget(self, session):
        with contextlib.suppress(steadystate.SessionNotFound):
            await session.delete()

    async def test_a_session_from_its_beginning_to_its_end(self):
        session = await self.session("aio", ttl=90, labels={"k": "v"})
        self.assertEqual((session.name, session.id), ("sessions/aio", "aio"))
        self.assertEqual(session.position, 0)
        found = await session.info()
        self.assertEqual(found.labels, {"k": "v"})
        self.assertEqual(found.ttl.total_seconds(), 90)
        self.assertEqual((await self.client.get_session("aio")).name,
                         "sessions/aio")
        await session.delete()
        with self.assertRaises(steadystate.SessionNotFound) as caught:
            await session.info()
        self.assertEqual(caught.exception.reason, "SESSION_NOT_FOUND")
        self.assertEqual(caught.exception.code, "NOT_FOUND")

    async def test_generation_ends_where_it_should(self):
        session = await self.session()
        parts = [part async for part in session.generate(
            "The ", max_tokens=20, ignore_eos=True, sampling=GREEDY)]
        self.assertEqual(sum(len(part.tokens) for part in parts), 20)
        self.assertEqual(parts[-1].finish_reason, "LENGTH")
        self.assertEqual(parts[-1].usage.generated_tokens, 20)
        self.assertTrue(all(not part.finish_reason for part in parts[:-1]))
        self.assertEqual(session.position, 24)
        self.assertEqual((await session.info()).position, 24)
        # It goes on without a prompt, as one that was never cut.
        more = await text_of(session.generate(max_tokens=20, ignore_eos=True,
                                              sampling=GREEDY))
        whole = await text_of((await self.session()).generate(
            "The ", max_tokens=40, ignore_eos=True, sampling=GREEDY))
        self.assertEqual("".join(map(str, parts)) + more, whole)

    async def test_a_generation_that_is_left_early(self):
        session = await self.session()
        async with contextlib.aclosing(session.generate("The ")) as parts:
            async for part in parts:
                break
        self.assertIsNone(session.position)
        at = part.position
        await session.rewind(at)
        self.assertEqual(session.position, at)
        # As if it had ended there.
        other = await self.session()
        await other.absorb("The ")
        await other.step([token.token for token in part.tokens])
        self.assertEqual(other.position, at)
        self.assertEqual(
            *[await text_of(each.generate(" x", max_tokens=9, sampling=GREEDY))
              for each in (session, other)])

    async def test_a_cancelled_task_leaves_the_session_usable(self):
        session = await self.session()
        told = asyncio.Event()

        async def tell():
            async for _ in session.generate("The ", ignore_eos=True):
                told.set()

        task = asyncio.create_task(tell())
        await told.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        before = (await session.step([65])).position
        self.assertEqual((await session.step([66])).position, before + 1)

    async def test_a_timeout_by_asyncio_is_a_timeout(self):
        session = await self.session()
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.2):
                async for _ in session.generate("The ", ignore_eos=True):
                    pass

    async def test_a_timeout_of_the_call(self):
        session = await self.session()
        with self.assertRaises(steadystate.DeadlineExceeded):
            async for _ in session.generate("The ", ignore_eos=True,
                                            timeout=0.2):
                pass

    async def test_steps(self):
        session = await self.session()
        answer = await session.step(b"The", sampling=GREEDY, top_logprobs=3,
                                    logits=True, hidden=True)
        model = await self.client.model()
        self.assertEqual(answer.position, 3)
        self.assertEqual(len(answer.logits), model.vocab_size)
        self.assertEqual(len(answer.hidden), model.hidden_size)
        best = max(range(len(answer.logits)), key=answer.logits.__getitem__)
        self.assertEqual(answer.sampled_token, best)
        self.assertEqual(answer.top_logprobs[0].token, best)
        self.assertEqual(answer.top_logprobs[0].logprob, answer.sampled_logprob)
        embedded = await session.step(embeddings=[0.0] * model.hidden_size)
        self.assertEqual(embedded.position, 4)

    async def test_somebody_else_writes(self):
        session = await self.session()
        other = await self.client.get_session(session.name)
        await other.step("A")
        with self.assertRaises(steadystate.PositionMismatch) as caught:
            await session.step([66])
        self.assertEqual(caught.exception.position, 1)
        # From then on it knows.
        self.assertEqual((await session.step([66])).position, 2)

    async def test_forks(self):
        session = await self.session()
        await session.absorb("The database ")
        twin, = await session.fork()
        named = await session.fork(session_ids=["fork-a", "fork-b"], position=4)
        self.assertEqual([fork.position for fork in (twin, *named)], [13, 4, 4])
        self.assertEqual([fork.id for fork in named], ["fork-a", "fork-b"])
        self.assertEqual(*[await text_of(each.generate(
            max_tokens=12, sampling=Sampling(seed=1)))
            for each in (session, twin)])
        for fork in (twin, *named):
            await fork.delete()
        with self.assertRaisesRegex(ValueError, "count is 3, with 2"):
            await session.fork(3, session_ids=["a", "b"])

    async def test_rewinds_and_checkpoints(self):
        session = await self.session()
        await session.absorb("The database ")
        kept = await session.checkpoint("aio-kept", labels={"a": "b"})
        self.assertEqual((kept.name, kept.position),
                         ("checkpoints/aio-kept", 13))
        self.assertEqual([each async for each in
                          self.client.list_checkpoints()], [kept])
        first = await text_of(session.generate(max_tokens=9, sampling=GREEDY))
        self.assertEqual((await session.rewind(tokens=2)).position, 20)
        self.assertEqual((await session.rewind(position=15)).position, 15)
        await session.rewind(checkpoint="aio-kept")
        self.assertEqual(session.position, 13)
        made = await self.session(from_checkpoint="aio-kept")
        for each in (session, made):
            self.assertEqual(await text_of(each.generate(
                max_tokens=9, sampling=GREEDY)), first)
        await self.client.delete_checkpoint("aio-kept")
        with self.assertRaises(steadystate.NotFound) as caught:
            await self.client.delete_checkpoint("aio-kept")
        self.assertEqual(caught.exception.reason, "CHECKPOINT_NOT_FOUND")
        with self.assertRaises(steadystate.OutOfRange):
            await session.rewind(position=99)
        with self.assertRaisesRegex(ValueError, "one of position"):
            await session.rewind()

    async def test_snapshots(self):
        session = await self.session()
        await session.absorb("The database ")
        snapshot = await session.export()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        file = pathlib.Path(folder, "snapshot")
        self.assertEqual(await session.export_to(file), 13)
        with self.assertRaises(FileExistsError):
            await session.export_to(file)
        copies = [await self.client.import_session(snapshot, "from-bytes"),
                  await self.client.import_session(file, "from-file")]
        told = [await text_of(each.generate(max_tokens=9, sampling=GREEDY))
                for each in (session, *copies)]
        self.assertEqual(told, told[:1] * 3)
        with self.assertRaises(steadystate.AlreadyExists):
            await self.client.import_session(snapshot, "from-file")
        for bad in (b"", b"none", snapshot[:-1] + b"\0"):
            with self.assertRaises(steadystate.SteadystateError) as caught:
                await self.client.import_session(bad, "bad")
            self.assertIn(type(caught.exception), (
                steadystate.SnapshotRejected, steadystate.InvalidArgument))
        for copy in copies:
            await copy.delete()

    async def test_lists_of_several_pages(self):
        names = [(await self.session(f"list-{i}")).name for i in range(5)]
        found = [each.name async for each in
                 self.client.list_sessions(page_size=2)]
        self.assertEqual([n for n in found if "/list-" in n], names)

    async def test_lists_of_some(self):
        for i in range(3):
            await self.session(f"some-{i}", labels={"i": str(i), "of": "some"})
        await self.session("other")

        async def found(*arguments, **keywords):
            return [each.name.removeprefix("sessions/") async for each in
                    self.client.list_sessions(*arguments, **keywords)]

        self.assertEqual(await found("some-?"), ["some-0", "some-1", "some-2"])
        self.assertEqual(await found("*-1"), ["some-1"])
        self.assertEqual(await found(labels={"of": "some", "i": "2"}),
                         ["some-2"])
        self.assertEqual(await found("other", labels={"of": "some"}), [])

    async def test_a_generation_without_a_session(self):
        before = [each.name async for each in self.client.list_sessions()]
        session = await self.session()
        wanted = [part async for part in session.generate(
            "The ", max_tokens=20, sampling=GREEDY, logprobs=1)]
        await session.delete()
        told = [part async for part in self.client.generate(
            "The ", max_tokens=20, sampling=GREEDY, logprobs=1)]
        self.assertEqual(
            [token for part in told for token in part.tokens],
            [token for part in wanted for token in part.tokens])
        self.assertEqual("".join(map(str, told)), "".join(map(str, wanted)))
        self.assertEqual(told[-1].finish_reason, "LENGTH")
        self.assertEqual(told[-1].position, len("The ") + 20)
        self.assertEqual(
            [each.name async for each in self.client.list_sessions()], before)
        with self.assertRaises(steadystate.InvalidArgument) as caught:
            await text_of(self.client.generate("The ", max_tokens=1,
                                               stop=[""]))
        self.assertIn("stop", caught.exception.field)

    async def test_what_happens_to_sessions(self):
        async with (contextlib.aclosing(self.client.watch_sessions()) as all_,
                    contextlib.aclosing(self.client.watch_sessions(
                        "watched")) as watched):
            first = await anext(all_)
            self.assertEqual((await anext(watched)).events, ())
            session = await self.session("watched")
            await self.session("unwatched")
            await session.absorb("abc")
            await session.rewind(2)
            await session.delete()
            seen = []
            while len(seen) < 3:
                seen += (await anext(watched)).events
            self.assertEqual(
                [(event.kind, event.session, event.position) for event in seen],
                [("CREATED", session.name, 0), ("REWOUND", session.name, 2),
                 ("DELETED", session.name, 2)])
            self.assertEqual({event.uid for event in seen},
                             {session.created_as.uid})
        async with contextlib.aclosing(self.client.watch_sessions(
                cursor=first.cursor)) as again:
            names = set()
            while "sessions/unwatched" not in names:
                names |= {event.session for event in (await anext(again)).events}
        with self.assertRaises(steadystate.InvalidArgument):
            await anext(self.client.watch_sessions(cursor="none"))

    async def test_a_session_is_changed(self):
        session = await self.session(ttl=90, labels={"a": "b"})
        self.assertEqual((await session.update(ttl=7)).labels, {"a": "b"})
        info = await session.update(labels={"c": "d"})
        self.assertEqual(info.ttl.total_seconds(), 7)
        self.assertEqual(info.labels, {"c": "d"})
        self.assertEqual((await session.update(labels={})).labels, {})
        with self.assertRaises(ValueError):
            await session.update()
        # This model's sessions absorb any number.
        self.assertEqual(info.context_cap, 0)
        self.assertEqual((await self.client.model()).max_context_cap, 0)
        with self.assertRaises(steadystate.InvalidArgument) as caught:
            await session.update(context_cap=100)
        self.assertEqual(caught.exception.field, "session.context_cap")
        with self.assertRaises(steadystate.InvalidArgument):
            await self.client.create_session(context_cap=100)

    async def test_the_model_and_its_tokens(self):
        model = await self.client.model()
        self.assertEqual(model.tokenizer, "bytes")
        self.assertEqual(model.family, "gla")
        self.assertEqual(await self.client.tokenize("Te"), [84, 101])
        self.assertEqual(await self.client.detokenize([84, 101]), "Te")
        with self.assertRaises(steadystate.InvalidArgument) as caught:
            await self.client.detokenize([99999])
        self.assertEqual(caught.exception.reason, "TOKEN_OUT_OF_RANGE")
        self.assertEqual(caught.exception.metadata["token"], "99999")
        self.assertTrue(caught.exception.field)

    async def test_scores_and_vectors(self):
        result = await self.client.score("The database", top_logprobs=1)
        self.assertEqual(len(result.tokens), 12)
        self.assertEqual(result.scored_tokens, 11)
        self.assertIsNone(result.tokens[0].logprob)
        self.assertAlmostEqual(
            sum(token.logprob for token in result.tokens[1:]),
            result.total_logprob, places=3)
        session = await self.session()
        self.assertEqual((await session.score([84, 104])).position, 2)
        model = await self.client.model()
        each = await self.client.embed("The database")
        self.assertEqual(len(each.vectors), 12)
        last = await self.client.embed("The database", pooling="LAST")
        self.assertEqual(last.vectors, each.vectors[-1:])
        self.assertEqual(len(last.vectors[0]), model.hidden_size)
        mean = await session.embed("ab", pooling="MEAN")
        self.assertEqual((len(mean.vectors), mean.position), (1, 4))
        with self.assertRaisesRegex(ValueError, "one of MEAN, LAST is"):
            await self.client.embed("ab", pooling="MOST")
        with self.assertRaises(steadystate.FailedPrecondition) as caught:
            await self.client.embed("ab", bidirectional=True)
        self.assertEqual(caught.exception.reason, "BIDIRECTIONAL_UNSUPPORTED")

    async def test_what_is_no_session_is_said_to_be_none(self):
        async with self.client.multiplexer() as multiplexer:
            with self.assertRaisesRegex(TypeError, "'mx', an AsyncSession"):
                multiplexer.carry("mx")
        with self.assertRaisesRegex(TypeError, "an AsyncSession, such as await"):
            steadystate.AsyncChat(self.client)

    async def test_what_the_server_refuses(self):
        session = await self.session()
        with self.assertRaises(steadystate.InvalidArgument) as caught:
            async for _ in session.generate("a", sampling=Sampling(top_p=0.0)):
                pass
        self.assertEqual(caught.exception.field, "sampling.top_p")
        with self.assertRaises(steadystate.FailedPrecondition) as caught:
            async for _ in session.generate(max_tokens=1):
                pass
        self.assertEqual(caught.exception.reason, "NO_PENDING_LOGITS")
        with self.assertRaises(steadystate.FailedPrecondition) as caught:
            await session.hibernate()
        self.assertEqual(caught.exception.reason, "NO_STORE")
        with self.assertRaises(steadystate.AlreadyExists):
            await self.client.create_session(session.id)

    async def test_a_full_budget_is_waited_for_as_the_server_says(self):
        model = await self.client.model()
        with ServerProcess(f"--state_memory={model.session_bytes}") as server:
            async with AsyncClient(server.grpc, retry=Retry.never()) as client:
                await client.create_session("first", ttl=1)
                with self.assertRaises(steadystate.BudgetExhausted) as caught:
                    await client.create_session()
                hint = caught.exception.retry_after
                self.assertTrue(0 < hint < 10, hint)
            # The server says when the first expires.
            async with AsyncClient(server.grpc) as client:
                await client.create_session(ttl=1000)
                # It does not say that this one would within our patience.
                with self.assertRaises(steadystate.BudgetExhausted) as caught:
                    await client.create_session()
                self.assertEqual(caught.exception.retry_after, 60)

    async def test_health(self):
        self.assertEqual(await self.client.health(), "SERVING")
        await self.client.wait_until_serving(timeout=10)

    async def test_no_server(self):
        async with AsyncClient("127.0.0.1:1",
                               retry=Retry(patience=0.2)) as client:
            with self.assertRaises(steadystate.ConnectionLost) as caught:
                await client.create_session()
            self.assertEqual(caught.exception.reason, "")
            with self.assertRaises(steadystate.DeadlineExceeded):
                await client.wait_until_serving(timeout=0.3)

    async def test_close_ends_what_is_under_way(self):
        client = AsyncClient(self.server.grpc)
        session = await client.create_session()
        began = asyncio.Event()

        async def tell():
            async for _ in session.generate("The ", ignore_eos=True):
                began.set()

        task = asyncio.create_task(tell())
        await began.wait()
        await client.close()
        await client.close()
        with self.assertRaises(steadystate.ClientClosed):
            await task
        with self.assertRaises(steadystate.ClientClosed):
            await session.info()
        await self.client.delete_session(session.name)


class LoopsTest(unittest.TestCase):

    def test_a_client_is_of_one_loop(self):
        with ServerProcess() as server:
            client = AsyncClient(server.grpc)
            runner = asyncio.Runner()
            self.assertEqual(runner.run(client.health()), "SERVING")
            with self.assertRaisesRegex(RuntimeError, "another event loop"):
                asyncio.run(client.health())
            runner.run(client.close())
            runner.close()


if __name__ == "__main__":
    unittest.main()
