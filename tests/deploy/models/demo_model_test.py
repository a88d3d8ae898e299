"""The demo model, its texts, and what a server makes of them."""

import json
import os
import subprocess
import sys
import unittest

from testing.server_process import BIN_DIR, DEMO_MODEL, ServerProcess

sys.path.insert(0, str(DEMO_MODEL))
import baselines  # noqa: E402  beside the model
import measure  # noqa: E402

CLIENT = str(BIN_DIR / "steadystate")
WINDOW = 64  # bytes
FEW_BITS_BYTES = 20_000  # of the held-out text
LONG = 1_000_000  # bytes of a stream after which the state must still serve


class TextsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.train, cls.held_out = baselines.read_texts()

    def test_no_window_of_the_held_out_text_is_in_the_training_text(self):
        windows = {self.held_out[i:i + WINDOW]
                   for i in range(len(self.held_out) - WINDOW + 1)}
        shared = [i for i in range(len(self.train) - WINDOW + 1)
                  if self.train[i:i + WINDOW] in windows]
        self.assertEqual(
            [], [self.train[i:i + WINDOW] for i in shared[:3]],
            f"{len(shared)} windows of {WINDOW} bytes are in both")

    def test_held_out_documents_are_a_few_hundred_kilobytes(self):
        self.assertGreater(len(self.held_out), 200_000)
        self.assertTrue(self.held_out.endswith(b"\0"))
        self.held_out.decode("utf-8")  # score takes text


class BaselineTest(unittest.TestCase):

    def test_witten_bell_of_order_0_by_hand(self):
        # Of "aab": a twice, b once, 2 kinds; p(b) = (1 + 2/256) / (3 + 2).
        bits = baselines.witten_bell_bits(b"aab", b"ab", order=0)
        self.assertAlmostEqual(
            (8 - baselines.math.log2((1 + 2 / 256) / 5)) / 2, bits)

    def test_witten_bell_of_order_1_by_hand(self):
        # After "a": a once, b once; then the rule again over order 0.
        lower = (1 + 2 / 256) / 5
        bits = baselines.witten_bell_bits(b"aab", b"ab", order=1)
        self.assertAlmostEqual(
            (8 - baselines.math.log2((1 + 2 * lower) / 4)) / 2, bits)

    def test_a_context_never_seen_is_passed_over(self):
        bits = baselines.witten_bell_bits(b"aab", b"zb", order=5)
        self.assertAlmostEqual(
            (8 - baselines.math.log2((1 + 2 / 256) / 5)) / 2, bits)


class ServedModelTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        train, held_out = baselines.read_texts()
        cls.witten_bell = baselines.witten_bell_bits(train, held_out)
        cls.xz = baselines.xz_bits(held_out)
        # The last pass lies wholly beyond LONG.
        passes = -(-LONG // len(held_out)) + 1
        with ServerProcess() as server:
            described = subprocess.run(
                [CLIENT, "model", "--json", "--address", server.grpc],
                check=True, stdout=subprocess.PIPE).stdout
            cls.model = json.loads(described)
            cls.result = measure.measure(CLIENT, server.grpc, passes)
        print(json.dumps({"witten_bell": cls.witten_bell, "xz": cls.xz,
                          **cls.result}, indent=2), file=sys.stderr)

    def test_beats_the_frozen_byte_model_by_a_tenth(self):
        self.assertLessEqual(self.result["bits_per_byte"],
                             0.9 * self.witten_bell)

    def test_beats_xz(self):
        self.assertLess(self.result["bits_per_byte"], self.xz)

    def test_equals_the_training_script_within_1_percent(self):
        with open(DEMO_MODEL / "evaluation.json", encoding="utf-8") as file:
            trained = json.load(file)
        self.assertEqual(trained["held_out_bytes"],
                         self.result["bytes_per_pass"])
        self.assertAlmostEqual(
            1, self.result["bits_per_byte"] / trained["bits_per_byte"],
            delta=0.01)

    def test_bits_fall_with_the_position_in_a_document(self):
        rows = self.result["by_position"]
        self.assertEqual(rows[-1]["last"], 2047)
        fresh = [row["fresh"] for row in rows]
        self.assertGreater(fresh[0], 1.5 * fresh[-1])
        # What an empty state costs beside one that has read on, of the same
        # bytes: less and less, far beyond what the convolutions remember.
        cost = [row["fresh"] - row["stream"] for row in rows]
        for earlier, later in zip(cost, cost[1:]):
            self.assertLess(later, earlier + 0.01)
        self.assertLess(cost[-1], 0.05)
        self.assertGreater(cost[3], cost[-1] + 0.02)  # 64-127 bytes

    def test_is_flat_after_a_million_bytes(self):
        passes = self.result["by_pass"]
        before_last = self.result["bytes_per_pass"] * (len(passes) - 1)
        self.assertGreaterEqual(before_last, LONG)
        for later in passes[1:]:
            self.assertAlmostEqual(1, later / passes[0], delta=0.01)

    def test_file_and_state_are_small(self):
        size = os.path.getsize(DEMO_MODEL / "model.safetensors")
        self.assertLessEqual(size, 12_000_000)
        state = sum(slot["bytes"] for slot in self.model["state_slots"])
        self.assertTrue(64 * 1024 <= state <= 128 * 1024, state)


class WeightsInFewBitsTest(unittest.TestCase):

    def test_int8_costs_half_a_percent_and_int4_two_at_most(self):
        _, held_out = baselines.read_texts()
        text = held_out[:FEW_BITS_BYTES]
        bits = {}
        for dtype in ("f32", "int8", "int4"):
            with ServerProcess("--weight_dtype=" + dtype) as server:
                bits[dtype] = sum(measure.score(CLIENT, server.grpc, text))
        for dtype, count in bits.items():
            print(f"bits per byte of {len(text)}: {dtype} "
                  f"{count / len(text)}", file=sys.stderr)
        self.assertEqual(3, len(set(bits.values())))
        self.assertAlmostEqual(1, bits["int8"] / bits["f32"], delta=0.005)
        self.assertAlmostEqual(1, bits["int4"] / bits["f32"], delta=0.02)


class ReducedStatesTest(unittest.TestCase):
    """Short of the 100,000 bytes of the model's card."""

    BYTES = 4000

    def bits(self, state_dtype):
        """Bits per byte, states rounded after every byte."""
        _, held_out = baselines.read_texts()
        with ServerProcess("--state_dtype", state_dtype, "--threads", "1",
                           "--prefill_chunk_rows", "1") as server:
            bits = measure.score(CLIENT, server.grpc, held_out[:self.BYTES])
        return sum(bits) / len(bits)

    def test_16_bits_cost_less_than_half_a_percent(self):
        exact = self.bits("f32")
        for state_dtype in ("int16", "bf16"):
            with self.subTest(state_dtype):
                bits = self.bits(state_dtype)
                self.assertNotEqual(exact, bits)
                self.assertAlmostEqual(1, bits / exact, delta=0.005)


if __name__ == "__main__":
    unittest.main(verbosity=2)
