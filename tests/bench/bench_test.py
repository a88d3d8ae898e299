"""Goal: every command of steadystate-bench works and tells what it promises.

Method: each with --quick, which measures nothing; the figures in its JSON must
be there and make sense.
"""

import json
import os
import subprocess
import tempfile
import unittest

LFM2 = os.path.join(os.path.dirname(__file__), "../golden/lfm2")
BENCH = os.path.join(os.environ["STEADYSTATE_BIN_DIR"], "steadystate-bench")


def run(*arguments, code=0):
    """Runs the program and returns what it says, where `code` expects it."""
    process = subprocess.run([BENCH, *arguments], text=True, timeout=100,
                             capture_output=True, check=False)
    if process.returncode != code:
        raise AssertionError(f"{arguments}: {process.stderr}")
    return process.stderr if code else process.stdout


def measure(*arguments):
    return json.loads(run(*arguments, "--quick", "--json"))


class BenchTest(unittest.TestCase):

    def assert_spread(self, row, key, most=1e12):
        """The field is a median between its own quantiles."""
        self.assertLess(0, row[key], f"{key} of {row}")
        self.assertLess(row[key], most, f"{key} of {row}")
        self.assertLessEqual(row[f"{key}_p10"], row[key])
        self.assertLessEqual(row[key], row[f"{key}_p90"])

    def test_what_is_given_holds_with_quick(self):
        report = measure("engine", "--shape", "noop", "--sessions", "2",
                         "--no_prefill")
        self.assertTrue(report["environment"]["quick"])
        self.assertEqual(report["environment"]["model"], "noop")
        self.assertEqual([row["sessions"] for row in report["decode"]], [2])
        self.assertEqual(
            measure("engine", "--no_decode")["environment"]["model"],
            "mamba2-tiny")

    def test_the_echo_server_helps(self):
        echo = os.path.join(os.path.dirname(BENCH), "steadystate-echo-server")
        told = subprocess.run([echo, "--help"], text=True, timeout=100,
                              capture_output=True, check=True).stdout
        self.assertIn("--server", told)

    def test_kernels(self):
        report = measure("kernels")
        self.assertEqual(report["benchmark"], "kernels")
        self.assertGreaterEqual(report["environment"]["cpus"], 1)
        for row in report["bandwidth"]:
            for key in ("dram_read", "dram_read_write", "cache_read"):
                self.assert_spread(row, key)
        for name in ("steps_in_dram", "steps_in_cache"):
            kernels = {row["kernel"] for row in report[name]}
            self.assertLessEqual({"KeyDecay", "ReadState"}, kernels)
            for row in report[name]:
                self.assert_spread(row, "gb_per_second")
                self.assert_spread(row, "fraction")
        self.assertLessEqual({"Scores", "Fading", "Growing state"},
                             {row["kernel"] for row in report["chunks"]})
        for row in report["chunks"]:
            self.assert_spread(row, "gflop_per_second")
            self.assert_spread(row, "fraction")
        self.assertLessEqual({"lfm2-1.2b", "qwen3.5-0.8b"},
                             {row["model"] for row in report["attention"]})
        for row in report["attention"]:
            self.assert_spread(row, "by_head_gb_per_second")
            self.assert_spread(row, "gb_per_second")
        rows = {row["rows"] for row in report["projections"]}
        self.assertEqual(rows, {1, 8, 32, 64, 256, 512})
        for row in report["projections"]:
            self.assert_spread(row, "gflop_per_second")
            self.assertLessEqual(row["fraction_of_peak"], 1)

    def test_engine(self):
        report = measure("engine")
        self.assertEqual([row["sessions"] for row in report["decode"]], [1, 4])
        for row in report["decode"]:
            self.assert_spread(row, "tokens_per_second")
            self.assert_spread(row, "step_ms")
            self.assert_spread(row, "limit_over_measured")
        for row in report["prefill"]:
            self.assert_spread(row, "time_to_first_token_ms")

    def test_sessions_decode_behind_a_prompt(self):
        for behind in (0, 7):
            rows = measure("engine", "--model", LFM2, "--no_prefill",
                           "--weight_dtype", "f32",
                           "--behind", str(behind))["decode"]
            for row in rows:
                self.assertEqual(row["behind"], behind)
                self.assert_spread(row, "step_ms")
                # Keys and values of one layer, two heads of 8 floats.
                self.assertEqual(row["cache_bytes_read"],
                                 row["sessions"] * behind * 128)

    def test_serve_beside_the_engine(self):
        row, = measure("serve", "--compare_engine")["serve"]
        for key in ("tokens_per_second", "inter_token_p99_us",
                    "client_cpu_us_per_step", "served_over_engine"):
            self.assert_spread(row, key)

    def test_serve_beside_a_crowd_that_is_woken(self):
        rows = measure("serve", "--crowd", "24", "--crowd_rate", "100",
                       "--store")["serve"]
        self.assertEqual([(row["store"], row["crowd"]) for row in rows],
                         [("none", 0), ("none", 24), ("log", 0), ("log", 24)])
        for row in rows:
            self.assert_spread(row, "inter_token_p99_us")
            self.assertLess(0, row["resident_mib"])
            self.assertLessEqual(row["resident_mib"], row["peak_mib"])
        self.assertEqual([row["wakes"] for row in rows[:3]], [0, 0, 0])
        self.assertGreater(rows[3]["wakes"], 0)
        self.assertLessEqual(rows[3]["wake_p50_ms"], rows[3]["wake_p99_ms"])

    def test_serve_beside_grpc_alone(self):
        echo = os.path.join(os.path.dirname(BENCH), "steadystate-echo-server")
        row, = measure("serve", "--shape", "noop", "--server", echo)["serve"]
        self.assert_spread(row, "tokens_per_second")

    def test_mixed(self):
        row, = measure("mixed")["mixed"]
        for key in ("p99_ratio", "prefill_ratio", "loaded_p50_ms"):
            self.assertLess(0, row[key], key)
        self.assertGreaterEqual(row["loaded_tokens"], 2)
        self.assert_spread(row, "prefill_beside_tokens_per_second")

    def test_age(self):
        report = measure("age", "--families", "gla,mamba2")
        self.assertEqual([row["family"] for row in report["age"]],
                         ["gla", "mamba2"])
        for row in report["age"]:
            # Really absorbed: as many tokens as asked for, and the steps.
            self.assertEqual(row["position"], 3000 + row["pairs"])
            self.assertLessEqual(row["ratio_low"], row["ratio_high"])
            self.assert_spread(row, "old_us")
            self.assert_spread(row, "fresh_us")
        self.assertEqual([row["position"] for row in report["softmax"]],
                         [0, 1024, 2048])

    def test_sessions_do_not_notice_each_other(self):
        row, = measure("sessions", "--count", "60")["sessions"]
        self.assertEqual(row["sessions"], 60)
        self.assertEqual(row["steps"], 600)
        self.assertEqual(row["checked"], 10)
        self.assertEqual(row["differing"], 0)
        self.assertGreater(row["resident_bytes"], row["state_bytes"])

    def test_stored_sessions_wake_as_they_were(self):
        with tempfile.TemporaryDirectory() as directory:
            store = os.path.join(directory, "store")
            arguments = ("sessions", "--shape", "gla-tiny", "--history", "64",
                         "--count", "3000", "--resident", "300", "--steps",
                         "2", "--checked", "40", "--wakes", "200", "--store",
                         store)
            report = measure(*arguments)
            self.assertEqual(report["environment"]["state_bytes"], 16384)
            row, = report["stored"]
            self.assertEqual((row["sessions"], row["resident"]), (3000, 300))
            self.assertEqual((row["checked"], row["differing"]), (40, 0))
            # Most of those that are chosen at random are in the store, and all
            # of them are after the start.
            self.assertGreater(row["first_wakes"], 100)
            self.assertGreater(row["second_wakes"], row["first_wakes"])
            self.assertGreater(row["disk_gib"], 3000 * 16384 / 2**30)
            self.assertLess(row["second_p50_ms"], row["second_p99_ms"])
            self.assertGreater(row["bytes_of_a_stored_session"], 100)
            self.assertIn("not empty", run(*arguments, code=2))

    def test_a_checkpoint_is_the_same_for_the_same_seed_and_loads(self):
        with tempfile.TemporaryDirectory() as directory:
            written = []
            for name in ("a", "b"):
                out = os.path.join(directory, name)
                run("checkpoint", "--shape", "demo", "--out", out, "--seed", "7")
                with open(os.path.join(out, "model.safetensors"), "rb") as file:
                    written.append(file.read())
            self.assertEqual(*written)
            report = measure("engine", "--model", out, "--no_prefill")
            self.assertEqual(report["environment"]["parameters"], 3452448)
            self.assertIn("exists", run("checkpoint", "--shape", "demo",
                                        "--out", out, code=1))

    def test_tables(self):
        self.assertIn("| sessions | tokens/s |",
                      run("engine", "--quick", "--markdown", "--no_prefill"))
        self.assertIn("Decode\n", run("engine", "--quick", "--no_prefill"))

    def test_wrong_command_lines_are_told(self):
        for arguments, message in [
                ((), "Usage"),
                (("engin",), "did you mean engine?"),
                (("engine", "--session", "1"), "did you mean --sessions?"),
                (("engine", "--sessions", "0"), "'0' is not a number from 1"),
                (("engine", "--shape", "gpt"), "it must be one of mamba2-130m"),
                (("engine", "--behind", "2000000"), "at most 1048576"),
                (("engine", "--weight_dtype", "f8"), "--weight_dtype is 'f8'"),
                (("engine", "--state_dtype", "f8"), "--state_dtype is 'f8'"),
                (("kernels", "--only", "all"), "--only is 'all'"),
                (("kernels", "--repetitions", "0"), "it must be 1 to 10000"),
                (("kernels", "--json", "--markdown"), "give only one of"),
                (("kernels", "--kernel", "Nope"), "there are KeyDecay;"),
                (("kernels", "--sizes", "9x9,0x9"), "--sizes has '0x9'"),
                (("kernels", "--weights", "f8"), "--weights is 'f8'"),
                (("checkpoint", "--shape", "demo"), "--out is missing"),
                (("checkpoint",), "--shape is missing"),
                (("sessions", "--count", "5"), "more than --count"),
                (("sessions", "--count", "0"), "--count is 0; it must be at"),
                (("sessions", "--wakes", "9"), "are of --store"),
                (("serve", "--crowd", "7"), "--crowd is 7; it must be at"),
                (("serve", "--crowd_rate", "7"), "--crowd_rate is of --crowd"),
                (("sessions", "--store", "s", "--count", "5000", "--resident",
                  "5001"), "--resident is 5001; it must not be more"),
                (("serve", "--server", "/nowhere"), "'/nowhere' is no program"),
                (("serve", "--shape", "demo", "--model", "m"),
                 "only one of --shape and --model"),
                (("age", "--families", ""), "has an empty name"),
                (("age", "--pairs", "0"), "--pairs at least 1"),
                (("mixed", "--prompt", "0"), "must be at least 1"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(message, run(*arguments, code=2))
        self.assertIn("mamba2-370m", run("help", "checkpoint"))
        # Nothing of what only the server's clients are to see.
        self.assertNotIn("[", run("age", "--families", "transformer", "--quick",
                                  code=1))


if __name__ == "__main__":
    unittest.main()
