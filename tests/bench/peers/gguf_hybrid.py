"""What the hybrids have in common as GGUF; see to_gguf.py.

Their config.json is read as the float64 reference reads it.
"""

import gguf
import paths  # noqa: F401  where the reference is
from language_model import model_config
from softmax_attention import rotary_option
from tensor_file import read_config
from tensors import Tensors

# Of two dimensions without being a matrix that is multiplied with.
CONVOLUTIONS = ("ssm_conv1d.weight", "shortconv.conv.weight")


class Hybrid:
    """Layers of softmax attention among others. A subclass has ARCHITECTURE,
    FAMILY, a module of the reference, and write_own_parameters; perhaps
    EXPECTED; and what `transformed` and `refuse_others` do beside."""

    # Keys and the values that llama.cpp can have; anything else would change
    # the formulas.
    EXPECTED = {}

    def __init__(self, folder):
        self.config = model_config(self.FAMILY, read_config(folder))
        self.refuse_others()
        self._tensors = Tensors(folder)
        self._map = gguf.get_tensor_name_map(
            next(arch for arch, name in gguf.MODEL_ARCH_NAMES.items()
                 if name == self.ARCHITECTURE),
            self.config["num_hidden_layers"])

    def refuse_others(self):
        for key, value in self.EXPECTED.items():
            if self.config[key] != value:
                raise ValueError(f"{key} is {self.config[key]!r}: only "
                                 f"{value!r} can be compared")
        rope = self.config.get("rope_parameters", {}).get("rope_type",
                                                          "default")
        if rope != "default":
            raise ValueError(f"rope_type is {rope!r}: only 'default' can be "
                             "compared")

    def is_attention(self):
        """Of each layer."""
        return [kind == "full_attention"
                for kind in self.FAMILY.layer_types(self.config)]

    def write_parameters(self, writer):
        config = self.config
        writer.add_block_count(config["num_hidden_layers"])
        writer.add_context_length(
            config.get("max_position_embeddings", 2**17))
        writer.add_embedding_length(config["hidden_size"])
        writer.add_head_count(config["num_attention_heads"])
        writer.add_rope_freq_base(rotary_option(config, "rope_theta"))
        writer.add_layer_norm_rms_eps(config.norm_eps())
        writer.add_vocab_size(config["vocab_size"])
        self.write_own_parameters(writer)

    def tensors(self):
        for name in self._tensors.names(self.config["tie_word_embeddings"]):
            yield self.gguf_name(name), self.transformed(
                name, self._tensors.floats(name))

    def gguf_name(self, name):
        """What llama.cpp calls a tensor of the checkpoint."""
        found = self._map.get_name(name, try_suffixes=(".weight", ".bias"))
        if found is None:
            raise ValueError(f"llama.cpp has no place for the tensor {name!r}")
        return found

    def is_matrix(self, name):
        return not (name.endswith(("norm.weight", ".bias", "ssm_a", "ssm_d"))
                    or name.endswith(CONVOLUTIONS))
