"""LFM2 as llama.cpp's architecture `lfm2`; see to_gguf.py."""

import paths  # noqa: F401  where the reference is
from families import lfm2
from gguf_hybrid import Hybrid


class Lfm2(Hybrid):
    ARCHITECTURE = "lfm2"
    FAMILY = lfm2
    EXPECTED = {"conv_bias": False}

    def write_own_parameters(self, writer):
        config = self.config
        writer.add_feed_forward_length(lfm2.mlp_width(config))
        # A layer without heads of keys is a convolution.
        writer.add_head_count_kv(
            [attention * config["num_key_value_heads"]
             for attention in self.is_attention()])
        writer.add_shortconv_l_cache(config["conv_L_cache"])

    def transformed(self, name, values):
        """The values as llama.cpp wants them."""
        if name.endswith("conv.conv.weight"):  # [channels, 1, taps]
            return values.squeeze(1)
        return values
