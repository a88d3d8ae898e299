"""The converter of pickled checkpoints, by their authors' own code.

Goal: a converted checkpoint means what the pickled one means, to those who
wrote it. Method: small random models, written by mamba_ssm or in the names
that the rwkv package reads, are converted; the float64 reference of the
result must give the logits that the original library gives of the original.
What cannot be converted must be refused by name.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from testing.server_process import BIN_DIR, ROOT, ServerProcess
from testing.skip import skip

LIBRARIES = ROOT / "tests/reference/libraries"
CONVERT = ROOT / "deploy/models/convert.py"
BOUND = 1e-5  # the libraries compute in float32
SEED = 7


def has_packages(python, *packages):
    return pathlib.Path(python).exists() and subprocess.run(
        [python, "-c", "import " + ", ".join(packages)],
        capture_output=True, check=False).returncode == 0


def use_python_with_torch():
    """Starts over with a Python that has PyTorch, or skips the test."""
    needed = ("numpy", "safetensors", "torch")
    if has_packages(sys.executable, *needed):
        return
    cache = os.environ.get("STEADYSTATE_LIBRARIES",
                           ROOT / "build/libraries")
    python = str(pathlib.Path(cache) / "bin/python")
    if python != sys.executable and has_packages(python, *needed):
        os.execv(python, [python, "-B", *sys.argv])
    skip("no Python with PyTorch and safetensors here; "
         "tests/reference/libraries/run brings it")


use_python_with_torch()
sys.path[:0] = [str(LIBRARIES), str(ROOT / "tests/reference")]

import numpy as np  # noqa: E402
import torch  # noqa: E402

import reference  # noqa: E402  of tests/reference

try:
    import from_mamba_ssm
except ImportError:
    from_mamba_ssm = None
try:
    import from_rwkv
    import rwkv  # noqa: F401
except ImportError:
    from_rwkv = None

needs_mamba_ssm = unittest.skipUnless(from_mamba_ssm, "no mamba_ssm here")
needs_rwkv = unittest.skipUnless(from_rwkv, "no rwkv here")

VOCAB = 50
TOKENS = [(7 * t * t + 3 * t) % VOCAB for t in range(30)]


class ConvertTestCase(unittest.TestCase):

    def setUp(self):
        print(f"seed {SEED}")
        torch.manual_seed(SEED)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_convert(self, source):
        return subprocess.run(
            [sys.executable, "-B", str(CONVERT), str(source),
             str(self.folder / "converted")],
            capture_output=True, text=True, check=False)

    def convert(self, source):
        """config.json of the converted checkpoint."""
        result = self.run_convert(source)
        self.assertEqual(0, result.returncode, result.stderr)
        with open(self.folder / "converted/config.json") as file:
            return json.load(file)

    def assert_same_logits(self, expected):
        """Of the reference and, where it has been built, of the server."""
        folder = str(self.folder / "converted")
        model = reference.make_model(*reference.read_checkpoint(folder))
        self.assert_close(expected, model.logits(TOKENS), "reference")
        if (BIN_DIR / "steadystate-server").exists():
            self.assert_close(expected, self.served_logits(folder), "server")

    def assert_close(self, expected, values, what):
        error = np.sqrt(np.mean((values - expected)**2)
                        / np.mean(expected**2))
        print(f"error of the {what} {error:.1e}")
        self.assertLess(error, BOUND)

    def served_logits(self, folder):
        """What the server's client writes: float32 [tokens, vocab]."""
        tokens, out = self.folder / "tokens.json", self.folder / "logits.npy"
        tokens.write_text(json.dumps(TOKENS))
        with ServerProcess("--weight_dtype=f32", model=folder) as server:
            subprocess.run(
                [str(BIN_DIR / "steadystate"), "score", "--address",
                 server.grpc, "--token_ids_file", str(tokens), "--logits_out",
                 str(out)], check=True, stdout=subprocess.DEVNULL)
            self.assertNotIn("unknown", server.log().lower())
        return np.load(out)

    def assert_refused(self, source, *words):
        result = self.run_convert(source)
        self.assertEqual(1, result.returncode)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        self.assertFalse((self.folder / "converted").exists())


# --- mamba_ssm ----------------------------------------------------------------

MAMBA = {"d_model": 32, "n_layer": 2, "vocab_size": VOCAB,
         "pad_vocab_size_multiple": 8}


class MambaTestCase(ConvertTestCase):

    def write(self, config, tensors):
        source = self.folder / "source"
        source.mkdir()
        with open(source / "config.json", "w") as file:
            json.dump(config, file)
        torch.save(tensors, source / "pytorch_model.bin")
        return source

    def library_model(self, config, dtype=torch.float32):
        """(the library's model, the folder where it wrote itself)."""
        model = from_mamba_ssm.make(config).to(dtype).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        source = self.folder / "source"
        model.save_pretrained(source)  # pytorch_model.bin and config.json
        return model, source


@needs_mamba_ssm
class MambaTest(MambaTestCase):

    def check(self, ssm, **config):
        model, source = self.library_model({**MAMBA, **config, "ssm_cfg": ssm})
        converted = self.convert(source)
        self.assert_same_logits(from_mamba_ssm.run(model, TOKENS))
        return converted

    def test_mamba_1_with_a_padded_vocabulary_and_a_tied_head(self):
        converted = self.check({})
        self.assertEqual(56, converted["vocab_size"])  # 50, by eights
        self.assertTrue(converted["tie_word_embeddings"])
        self.assertEqual("mamba", converted["model_type"])

    def test_mamba_1_with_options_and_a_head_of_its_own(self):
        self.check({"layer": "Mamba1", "d_state": 8, "d_conv": 3, "expand": 1,
                    "dt_rank": 5, "bias": True, "conv_bias": False},
                   tie_embeddings=False)

    def test_mamba_2(self):
        converted = self.check(
            {"layer": "Mamba2", "headdim": 16, "d_state": 16})
        self.assertEqual("mamba2", converted["model_type"])
        self.assertNotIn("dt_limit", converted)

    def test_mamba_2_with_groups_and_a_gate_after_the_norm(self):
        self.check({"layer": "Mamba2", "headdim": 8, "d_state": 8,
                    "ngroups": 2, "norm_before_gate": True,
                    "D_has_hdim": True, "bias": True})

    def test_mamba_2_with_limits_and_without_norm(self):
        self.check({"layer": "Mamba2", "headdim": 16, "d_state": 8,
                    "rmsnorm": False, "dt_limit": (0.01, 0.2),
                    "conv_bias": False, "expand": 1}, tie_embeddings=False)

    def test_values_stay_bit_for_bit(self):
        model, source = self.library_model({**MAMBA, "ssm_cfg": {}},
                                           torch.bfloat16)
        self.convert(source)
        _, tensors = reference.read_checkpoint(str(self.folder / "converted"))
        name = "backbone.layers.1.mixer.in_proj.weight"
        np.testing.assert_array_equal(
            model.state_dict()[name].double().numpy(), tensors[name])

    def test_an_unknown_tensor_is_refused(self):
        model, source = self.library_model({**MAMBA, "ssm_cfg": {}})
        tensors = {**model.state_dict(), "backbone.extra": torch.ones(1)}
        torch.save(tensors, source / "pytorch_model.bin")
        self.assert_refused(source, "backbone.extra")

    def test_a_head_that_is_not_the_embedding_is_refused(self):
        model, source = self.library_model(
            {**MAMBA, "ssm_cfg": {}, "tie_embeddings": False})
        config = json.loads((source / "config.json").read_text())
        config["tie_embeddings"] = True
        (source / "config.json").write_text(json.dumps(config))
        self.assert_refused(source, "lm_head.weight", "tie_embeddings")


class MambaRefusalTest(MambaTestCase):

    def assert_config_refused(self, config, *words):
        self.assert_refused(self.write({**MAMBA, **config}, {}), *words)

    def test_layers_of_softmax_attention(self):
        self.assert_config_refused({"attn_layer_idx": [9]},
                                   "attn_layer_idx", "[9]")

    def test_layers_with_an_mlp(self):
        self.assert_config_refused({"d_intermediate": 64},
                                   "d_intermediate", "64")

    def test_layer_norm(self):
        self.assert_config_refused({"rms_norm": False}, "rms_norm", "false")

    def test_a_mixer_that_is_not_known(self):
        self.assert_config_refused({"ssm_cfg": {"layer": "Mamba3"}}, "Mamba3")

    def test_a_key_that_is_not_known(self):
        self.assert_config_refused({"rope": 1}, "unknown key rope")

    def test_a_key_of_the_mixer_that_is_not_known(self):
        config = {**MAMBA, "ssm_cfg": {"headdim": 16}}  # of Mamba2
        source = self.write(config, {
            "backbone.embedding.weight": torch.ones(56, 32),
            "backbone.layers.0.norm.weight": torch.ones(32)})
        self.assert_refused(source, "Mamba1", "headdim")

    def test_a_tensor_that_is_missing(self):
        self.assert_config_refused({}, "backbone.embedding.weight")

    def test_a_tensor_of_another_shape(self):
        source = self.write(
            MAMBA, {"backbone.embedding.weight": torch.ones(50, 32)})
        self.assert_refused(source, "backbone.embedding.weight", "[50, 32]",
                            "[56, 32]")

    def test_a_pickle_that_could_run_code(self):
        source = self.write(MAMBA, {"x": pathlib.PurePosixPath("x")})
        self.assert_refused(source, "pytorch_model.bin", "cannot be read")

    def test_a_folder_without_config(self):
        source = self.folder / "source"
        source.mkdir()
        self.assert_refused(source, "config.json", "cannot be read")


# --- RWKV ---------------------------------------------------------------------

D, HEADS, WIDTH, LAYERS, RANK = 128, 2, 64, 2, 8


def noise(*shape, size=1.0, center=0.0):
    return center + size * torch.randn(*shape)


def matrix(rows, columns):
    return noise(rows, columns, size=columns**-0.5)


def norm(name, width=D):
    return {name + ".weight": noise(width, size=0.3, center=1.0),
            name + ".bias": noise(width, size=0.3)}


def rwkv_frame():
    tensors = {"emb.weight": noise(VOCAB, D), "head.weight": matrix(VOCAB, D),
               **norm("ln_out"), **norm("blocks.0.ln0")}
    for n in range(LAYERS):
        for name in ("ln1", "ln2", "att.ln_x"):
            tensors.update(norm(f"blocks.{n}.{name}"))
        for name in ("receptance", "key", "value", "output"):
            tensors[f"blocks.{n}.att.{name}.weight"] = matrix(D, D)
        tensors[f"blocks.{n}.ffn.key.weight"] = matrix(3 * D, D)
        tensors[f"blocks.{n}.ffn.value.weight"] = matrix(D, 3 * D)
    return tensors


def rwkv7_tensors():
    """As in RWKV-v7's train code: x070."""
    tensors = rwkv_frame()
    for n in range(LAYERS):
        att = f"blocks.{n}.att."
        for part in "rwkvag":
            tensors[att + "x_" + part] = noise(1, 1, D, size=0.5, center=0.5)
        for part in ("w", "a", "v") if n else ("w", "a"):
            tensors[att + part + "0"] = noise(1, 1, D)
        for part in ("w", "a", "v", "g") if n else ("w", "a", "g"):
            tensors[att + part + "1"] = matrix(D, RANK)
            tensors[att + part + "2"] = matrix(RANK, D)
        tensors[att + "k_k"] = noise(1, 1, D, size=0.3, center=0.8)
        tensors[att + "k_a"] = noise(1, 1, D, size=0.3, center=1.0)
        tensors[att + "r_k"] = noise(HEADS, WIDTH, size=0.3)
        tensors[f"blocks.{n}.ffn.x_k"] = noise(1, 1, D, size=0.5, center=0.5)
    return tensors


def rwkv6_tensors():
    """As in RWKV-v5's train code with x060."""
    tensors = rwkv_frame()
    for n in range(LAYERS):
        att, ffn = f"blocks.{n}.att.", f"blocks.{n}.ffn."
        for part in "xwkvrg":
            tensors[att + "time_maa_" + part] = noise(
                1, 1, D, size=0.5, center=0.5)
        tensors[att + "time_maa_w1"] = matrix(D, 5 * RANK)
        tensors[att + "time_maa_w2"] = noise(5, RANK, D, size=0.3)
        tensors[att + "time_decay"] = noise(1, 1, D, center=-2.0)
        tensors[att + "time_decay_w1"] = matrix(D, 2 * RANK)
        tensors[att + "time_decay_w2"] = matrix(2 * RANK, D)
        tensors[att + "time_faaaa"] = noise(HEADS, WIDTH)
        tensors[att + "gate.weight"] = matrix(D, D)
        # Small values: the epsilon of the norm over heads counts.
        tensors[att + "value.weight"] *= 0.01
        for part in "kr":
            tensors[ffn + "time_maa_" + part] = noise(
                1, 1, D, size=0.5, center=0.5)
        tensors[ffn + "receptance.weight"] = matrix(D, D)
    return tensors


class RwkvTestCase(ConvertTestCase):

    def write(self, tensors):
        torch.save(tensors, self.folder / "model.pth")
        return self.folder / "model.pth"


@needs_rwkv
class RwkvTest(RwkvTestCase):

    def check(self, tensors, generation):
        converted = self.convert(self.write(tensors))
        self.assert_same_logits(from_rwkv.logits(
            str(self.folder / ("model" if generation == 7 else "model.pth")),
            TOKENS, generation))
        self.assertEqual(f"rwkv{generation}", converted["model_type"])

    def test_rwkv_7(self):
        self.check(rwkv7_tensors(), 7)

    def test_rwkv_7_with_unused_values_in_its_first_layer(self):
        tensors = rwkv7_tensors()
        for part in "012":
            tensors["blocks.0.att.v" + part] = tensors["blocks.1.att.v" + part]
        self.check(tensors, 7)

    def test_rwkv_6(self):
        self.check(rwkv6_tensors(), 6)


class RwkvRefusalTest(RwkvTestCase):

    def test_an_older_generation(self):
        source = self.write({"blocks.0.att.time_decay": torch.ones(D)})
        self.assert_refused(source, "RWKV-5")

    def test_something_else(self):
        source = self.write({"weight": torch.ones(D)})
        self.assert_refused(source, "not the tensors of an RWKV model")

    def test_not_a_table_of_tensors(self):
        self.assert_refused(self.write([1, 2]), "not a table of tensors")

    def test_heads_of_another_width(self):
        tensors = rwkv7_tensors()
        for n in range(LAYERS):
            tensors[f"blocks.{n}.att.r_k"] = torch.ones(4, 32)
        self.assert_refused(self.write(tensors), "heads of 32")

    def test_deep_embeddings(self):
        tensors = {**rwkv7_tensors(),
                   "blocks.0.ffn.s_emb.weight": torch.ones(VOCAB, D)}
        self.assert_refused(self.write(tensors), "blocks.0.ffn.s_emb.weight")

    def test_a_destination_that_is_taken(self):
        source = self.write(rwkv7_tensors())
        self.convert(source)
        again = self.run_convert(source)
        self.assertEqual(1, again.returncode)
        self.assertIn("there already", again.stderr)


if __name__ == "__main__":
    unittest.main()
