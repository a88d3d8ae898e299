"""What Triton's own Python client does with a server of ours; see
tritonclient_test.py, which runs this where there is that client."""

import asyncio
import queue
import tempfile
import unittest

import numpy
import tritonclient.grpc
import tritonclient.grpc.aio
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from testing.server_process import ServerProcess

MODEL = "demo"
VOCABULARY = 256
GREEDY = {"temperature": 0}


def inputs_of(tokens, datatype="INT32", module=tritonclient.grpc):
    values = numpy.array(tokens, dtype=triton_to_np_dtype(datatype))
    tensor = module.InferInput("tokens", list(values.shape), datatype)
    tensor.set_data_from_numpy(values)
    return [tensor]


def outputs_of(*names, module=tritonclient.grpc):
    return [module.InferRequestedOutput(name) for name in names]


class TritonClientTest(unittest.TestCase):

    def setUp(self):
        self.server = self.enterContext(ServerProcess())
        self.client = tritonclient.grpc.InferenceServerClient(self.server.grpc)
        self.addCleanup(self.client.close)

    def infer(self, tokens, *, datatype="INT32", **sequence):
        return self.client.infer(MODEL, inputs_of(tokens, datatype),
                                 parameters=GREEDY, **sequence)

    def test_says_what_it_is(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready(MODEL))
        self.assertFalse(self.client.is_model_ready("other"))
        server = self.client.get_server_metadata()
        self.assertEqual(server.name, "steadystate")
        self.assertIn("sequence", server.extensions)
        metadata = self.client.get_model_metadata(MODEL)
        self.assertEqual([tensor.name for tensor in metadata.inputs],
                         ["tokens"])
        self.assertEqual({tensor.name: list(tensor.shape)
                          for tensor in metadata.outputs},
                         {"sampled_token": [1], "logits": [VOCABULARY],
                          "position": [1]})
        config = self.client.get_model_config(MODEL).config
        self.assertTrue(config.HasField("sequence_batching"))
        self.assertFalse(config.model_transaction_policy.decoupled)

    def test_a_sequence_goes_on_where_it_was(self):
        whole = self.infer([84, 104, 101])
        logits = whole.as_numpy("logits")
        self.assertEqual(logits.shape, (VOCABULARY,))
        self.assertEqual(whole.as_numpy("position")[0], 3)
        self.assertEqual(whole.as_numpy("sampled_token")[0], logits.argmax())
        # The latest clients know of texts that name sequences.
        for name in (7, 2**63 - 1, "a conversation"):
            self.infer([84, 104], sequence_id=name, sequence_start=True)
            last = self.infer([[101]], datatype="INT64", sequence_id=name,
                              sequence_end=True)
            numpy.testing.assert_allclose(last.as_numpy("logits"), logits,
                                          rtol=1e-3, atol=1e-3)
            with self.assertRaisesRegex(InferenceServerException,
                                        "must specify the START flag"):
                self.infer([101], sequence_id=name)

    def test_what_is_asked_for_is_answered(self):
        answer = self.client.infer(
            MODEL, inputs_of([1]), outputs=outputs_of("position"),
            request_id="a name")
        self.assertEqual(answer.get_response().id, "a name")
        self.assertEqual(answer.as_numpy("position")[0], 1)
        self.assertIsNone(answer.as_numpy("logits"))

    def test_errors_say_what_is_wrong(self):
        for arguments, words in (
                ({"inputs": inputs_of([1.5], "FP32")}, "INT32, INT64"),
                ({"inputs": inputs_of([300])}, r"\[0, 256\)"),
                ({"inputs": inputs_of([1]), "model_version": "2"}, "version"),
                ({"inputs": inputs_of([1]),
                  "parameters": {"temprature": 1}}, "temprature")):
            with self.assertRaisesRegex(InferenceServerException, words):
                self.client.infer(MODEL, **arguments)
        with self.assertRaisesRegex(InferenceServerException,
                                    "not served here; .*--model") as caught:
            self.client.get_model_repository_index()
        self.assertEqual(caught.exception.status(), "StatusCode.UNIMPLEMENTED")

    def test_a_stream_carries_sequences_and_errors(self):
        answers = queue.SimpleQueue()
        self.client.start_stream(
            callback=lambda result, error: answers.put((result, error)))
        steps, sequences = 10, range(1, 9)
        for step in range(steps):
            for sequence in sequences:
                self.client.async_stream_infer(
                    MODEL, inputs_of([sequence]), sequence_id=sequence,
                    request_id=f"{sequence}", sequence_start=step == 0,
                    sequence_end=step == steps - 1,
                    outputs=outputs_of("position"))
        positions = {}
        for _ in range(steps * len(sequences)):
            result, error = answers.get(timeout=60)
            self.assertIsNone(error)
            positions.setdefault(result.get_response().id, []).append(
                int(result.as_numpy("position")[0]))
        self.assertEqual(positions, {f"{sequence}": list(range(1, steps + 1))
                                     for sequence in sequences})
        # An error is an answer; the stream goes on.
        self.client.async_stream_infer(MODEL, inputs_of([1]), sequence_id=1)
        self.client.async_stream_infer(MODEL, inputs_of([1]))
        result, error = answers.get(timeout=60)
        self.assertRegex(str(error), "must specify the START flag")
        result, error = answers.get(timeout=60)
        self.assertIsNone(error)
        self.assertEqual(result.as_numpy("position")[0], 1)
        self.client.stop_stream()

    def test_counts_what_it_has_done(self):
        for _ in range(5):
            self.infer([1, 2])
        statistics, = self.client.get_inference_statistics(MODEL).model_stats
        self.assertEqual(statistics.inference_count, 5)
        self.assertEqual(statistics.inference_stats.success.count, 5)
        self.assertGreater(statistics.inference_stats.compute_infer.ns, 0)


class StoredTest(unittest.TestCase):

    def test_a_sequence_outlasts_its_server(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        positions = []
        for step in range(3):
            with ServerProcess("--store", folder) as server:
                with tritonclient.grpc.InferenceServerClient(
                        server.grpc) as client:
                    answer = client.infer(
                        MODEL, inputs_of([84, 104]), sequence_id="long ago",
                        sequence_start=step == 0, sequence_end=step == 2)
            positions.append(int(answer.as_numpy("position")[0]))
        self.assertEqual(positions, [2, 4, 6])


class AsyncTritonClientTest(unittest.TestCase):

    def test_streams_and_calls(self):
        with ServerProcess() as server:
            self.assertEqual(asyncio.run(self.positions(server.grpc)),
                             [2, 3, 4, 5])

    async def positions(self, address):
        module = tritonclient.grpc.aio

        async def requests():
            for step in range(3):
                yield {"model_name": MODEL,
                       "inputs": inputs_of([step], module=module),
                       "sequence_id": 5, "sequence_end": step == 2}

        positions = []
        async with module.InferenceServerClient(address) as client:
            first = await client.infer(MODEL, inputs_of([1, 2], module=module),
                                       sequence_id=5, sequence_start=True)
            positions.append(int(first.as_numpy("position")[0]))
            async for result, error in client.stream_infer(requests()):
                self.assertIsNone(error)
                positions.append(int(result.as_numpy("position")[0]))
        return positions


if __name__ == "__main__":
    unittest.main()
