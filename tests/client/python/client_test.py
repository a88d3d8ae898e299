"""Goal: the calls without asyncio wait, end and leave nothing behind: no
thread, no call, no deadlock.

Method: a real server; threads, signals, fork and the interpreter's end as a
program has them.
"""

import os
import signal
import subprocess
import sys
import threading
import unittest

import steadystate
from client.python.environment import ROOT
from steadystate import Client, Retry, Sampling
from steadystate._loop_thread import LoopThread
from testing.server_process import ServerProcess

GREEDY = Sampling(temperature=0.0)


def own_threads():
    return [thread for thread in threading.enumerate()
            if thread.name == "steadystate"]


class ClientTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServerProcess())

    def client(self):
        return self.enterContext(Client(self.server.grpc))

    def python(self, code, **keywords):
        """Runs a program that finds the server as A."""
        return subprocess.run(
            [sys.executable, "-B", "-c",
             f"import steadystate\nA = {self.server.grpc!r}\n{code}"],
            text=True, capture_output=True, timeout=60, cwd=ROOT, check=False,
            **keywords)

    def test_calls_wait(self):
        client = self.client()
        session = client.create_session(labels={"a": "b"})
        self.assertEqual(session.info().labels, {"a": "b"})
        parts = list(session.generate("The ", max_tokens=10, ignore_eos=True,
                                      sampling=GREEDY))
        self.assertEqual(session.position, 14)
        twin, = session.fork()
        self.assertEqual(twin.position, 14)
        session.rewind(4)
        self.assertEqual("".join(map(str, session.generate(
            max_tokens=10, ignore_eos=True, sampling=GREEDY))),
            "".join(map(str, parts)))
        self.assertEqual(client.get_session(twin.id).step([65]).position, 15)
        self.assertEqual(client.import_session(
            twin.export(), "imported").position, 15)
        self.assertIn("sessions/imported", [
            each.name for each in client.list_sessions()])
        for name in (session.name, twin.name, "imported"):
            client.delete_session(name)
        self.assertEqual("".join(map(str, client.generate(
            "The ", max_tokens=10, ignore_eos=True, sampling=GREEDY))),
            "".join(map(str, parts)))
        with client.watch_sessions("watched") as watch:
            self.assertEqual(next(watch).events, ())
            client.create_session("watched").delete()
            self.assertEqual(next(watch).events[0].kind, "CREATED")
        self.assertEqual(client.detokenize(client.tokenize("a b")), "a b")
        self.assertEqual(client.health(), "SERVING")

    def test_errors_are_raised_where_the_call_is(self):
        with self.assertRaises(steadystate.SessionNotFound) as caught:
            self.client().get_session("nobody")
        self.assertIn("nobody", str(caught.exception))

    def test_errors_name_what_was_given(self):
        client = self.client()
        session = client.create_session()
        self.assertEqual(repr(client), f"<Client of {self.server.grpc}>")
        with client.multiplexer() as multiplexer:
            carried = multiplexer.carry(session)
            for call, said in (
                    (lambda: session.rewind(-2), "position is -2, .* of 0 to"),
                    (lambda: session.fork(-1), "count is -1, 1 to 256"),
                    (lambda: session.checkpoint(labels={"k": 1}), "labels is"),
                    (lambda: client.tokenize(b"abc"), "text is b'abc', a str"),
                    (lambda: client.embed("a", pooling="sum"),
                     "pooling is 'sum', one of MEAN, LAST"),
                    (lambda: list(carried.generate("a", stop_tokens=3)),
                     "stop_tokens is 3, a sequence of token ids"),
                    (lambda: multiplexer.carry("mx"), "'mx', a Session, such"),
                    (lambda: list(carried.generate()),
                     "A session's own generate"),
                    (lambda: steadystate.Chat(client), "Client of .* a Sess"),
                    (lambda: steadystate.Chat("x"), "session is 'x', a Sess"),
                    (lambda: Client(50051), "address is 50051, a str, such")):
                with self.subTest(said=said), self.assertRaisesRegex(
                        (TypeError, ValueError), said):
                    call()
        with self.assertRaisesRegex(IndexError, "no turn to take back"):
            steadystate.Chat(session).undo()

    def test_what_may_be_written_in_several_ways(self):
        client = self.client()
        said = "".join(map(str, client.generate("The ", sampling=GREEDY,
                                                max_tokens=40)))
        stop = said[10:13]
        for stops in (stop, [stop]):
            self.assertEqual("".join(map(str, client.generate(
                "The ", sampling=GREEDY, stop=stops))),
                said[:said.index(stop)])
        self.assertEqual(client.embed("ab", pooling="mean"),
                         client.embed("ab", pooling="MEAN"))

    def test_a_loop_that_is_left(self):
        session = self.client().create_session()
        with session.generate("The ", ignore_eos=True) as parts:
            next(parts)
        self.assertEqual(list(parts), [])
        parts.close()
        for _ in session.generate(" ", ignore_eos=True):
            break  # let go, and not closed
        position = session.step([65]).position
        self.assertEqual(session.step([65]).position, position + 1)

    def test_steps_take_and_give_text(self):
        session = self.client().create_session()
        answer = session.step("The ", sampling=GREEDY, text=True)
        self.assertEqual(answer.position, 4)
        self.assertEqual(answer.text_delta, chr(answer.sampled_token))
        self.assertEqual(session.step("e").text_delta, "")

    def test_the_thread_is_shared_and_joined(self):
        self.assertEqual(own_threads(), [])
        first, second = Client(self.server.grpc), Client(self.server.grpc)
        first.health()
        second.health()
        self.assertEqual(len(own_threads()), 1)
        first.close()
        first.close()
        self.assertEqual(second.health(), "SERVING")
        second.close()
        self.assertEqual(own_threads(), [])
        self.assertIsNone(LoopThread._shared)
        with self.assertRaises(steadystate.ClientClosed):
            first.health()
        # And again, with a new one.
        with Client(self.server.grpc) as third:
            self.assertEqual(third.health(), "SERVING")
        self.assertEqual(own_threads(), [])

    def test_a_client_that_makes_no_call(self):
        Client("127.0.0.1:1").close()
        self.assertEqual(own_threads(), [])

    def test_close_by_another_thread_ends_a_call(self):
        client = Client(self.server.grpc)
        session = client.create_session()
        caught, began = [], threading.Event()

        def tell():
            try:
                for _ in session.generate("The ", ignore_eos=True):
                    began.set()
            except steadystate.SteadystateError as error:
                caught.append(error)

        thread = threading.Thread(target=tell)
        thread.start()
        began.wait(60)
        closers = [threading.Thread(target=client.close) for _ in range(3)]
        for closer in closers:
            closer.start()
        for each in (thread, *closers):
            each.join(60)
            self.assertFalse(each.is_alive())
        self.assertEqual([type(error) for error in caught],
                         [steadystate.ClientClosed])
        self.client().delete_session(session.name)

    def test_many_threads(self):
        client = self.client()
        told = []

        def tell():
            session = client.create_session()
            told.append("".join(map(str, session.generate(
                "The ", max_tokens=20, sampling=GREEDY))))

        threads = [threading.Thread(target=tell) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(told, told[:1] * 8)

    def test_a_multiplexer_without_asyncio(self):
        client = self.client()
        with client.multiplexer(streams=2) as multiplexer:
            carried = [multiplexer.carry(client.create_session())
                       for _ in range(4)]
            told = []

            def tell(each):
                told.append([drawn.token for drawn in each.generate(
                    "The ", max_tokens=10, sampling=GREEDY)])

            threads = [threading.Thread(target=tell, args=(each,))
                       for each in carried]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            self.assertEqual(told, told[:1] * 4)
            session = carried[0].release()
            self.assertEqual(session.info().position, 14)

    def test_an_interrupt_ends_the_call(self):
        session = self.client().create_session()
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            for _ in session.generate("The ", ignore_eos=True):
                pass
        timer.join()
        position = session.step([65]).position
        self.assertEqual(session.step([65]).position, position + 1)

    def test_within_a_loop_of_ones_own(self):
        done = self.python(
            "import asyncio\n"
            "async def main():\n"
            "  with steadystate.Client(A) as waits:\n"
            "    async with steadystate.AsyncClient(A) as client:\n"
            "      print(waits.health(), await client.health())\n"
            "asyncio.run(main())")
        self.assertEqual((done.returncode, done.stdout),
                         (0, "SERVING SERVING\n"), done.stderr)

    def may_fork(self):
        """Whether a process that uses gRPC can: not with Debian 13's."""
        code = (
            "import grpc, os\n"
            f"channel = grpc.insecure_channel({self.server.grpc!r})\n"
            "grpc.channel_ready_future(channel).result(30)\n"
            "child = os.fork()\n"
            "if child == 0: os._exit(0)\n"
            "os.waitpid(child, 0)\n"
            "os._exit(0)")
        try:
            subprocess.run([sys.executable, "-B", "-c", code], timeout=10,
                           check=True, stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return False
        return True

    def test_a_fork_is_told_to_make_its_own(self):
        if not self.may_fork():
            self.skipTest("with this gRPC fork() does not return")
        done = self.python(
            "import os, warnings\n"
            "warnings.simplefilter('ignore')\n"
            "client = steadystate.Client(A)\n"
            "client.health()\n"
            "child = os.fork()\n"
            "if child == 0:\n"
            "  try:\n"
            "    client.health()\n"
            "  except RuntimeError as error:\n"
            "    print(error, flush=True)\n"
            "  client.close()\n"
            "  os._exit(7)\n"
            "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
            "print(client.health())\n"
            "client.close()")
        said = done.stdout.splitlines()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("made before fork()", said[0])
        self.assertEqual(said[1:], ["7", "SERVING"])

    def test_a_program_that_closes_nothing_ends(self):
        done = self.python(
            "client = steadystate.Client(A)\n"
            "session = client.create_session()\n"
            "parts = session.generate('The ', ignore_eos=True)\n"
            "print(len(next(parts).tokens) > 0)\n"
            "import threading\n"
            "threading.Thread(target=lambda: list(session.info() for _ in "
            "range(3))).start()")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, "True\n", ""))

    def test_a_program_that_fails_amid_many_calls_ends(self):
        # gRPC 1.51 waits for ever at the end for what no loop was told of.
        done = self.python(
            "import asyncio\n"
            "async def call(client, number):\n"
            "  session = await client.create_session()\n"
            "  if number == 7: raise RuntimeError('as a program may')\n"
            "  await session.absorb('The ')\n"
            "async def main():\n"
            "  async with steadystate.AsyncClient(A) as client:\n"
            "    await asyncio.gather(*(call(client, n) for n in range(100)))\n"
            "asyncio.run(main())")
        self.assertEqual(done.returncode, 1)
        self.assertIn("as a program may", done.stderr)

    def test_no_server(self):
        with Client("127.0.0.1:1", retry=Retry.never()) as client:
            with self.assertRaises(steadystate.ConnectionLost):
                client.create_session()


if __name__ == "__main__":
    unittest.main()
