"""Qwen3.5 as llama.cpp's architecture `qwen35`; see to_gguf.py."""

import numpy as np
import paths  # noqa: F401  where the reference is
from families import qwen3_5
from gguf_hybrid import Hybrid
from gguf_mamba2 import write_ssm_sizes

# Of the L2 norms of q and k. llama.cpp has one for these and the other norms.
L2_EPS = 1e-6


def sections(rotary):
    """How pairs of turned dimensions are shared among time, height and width,
    [11, 11, 10, 0] of 64. A text has the same position in all of them, but
    llama.cpp asks."""
    pairs = rotary // 2
    return [(pairs + 2) // 3, (pairs + 1) // 3, pairs // 3, 0]


class Qwen35(Hybrid):
    ARCHITECTURE = "qwen35"
    FAMILY = qwen3_5
    EXPECTED = {"attention_bias": False}

    def __init__(self, folder):
        super().__init__(folder)
        self.H, self.HV, self.K, self.V = qwen3_5.sizes(self.config)

    def refuse_others(self):
        super().refuse_others()
        config = self.config
        _, _, K, V = qwen3_5.sizes(config)
        if K != V:
            raise ValueError(f"linear heads have keys of {K} and values of {V} "
                             "numbers: llama.cpp has one width")
        if config.norm_eps() != L2_EPS:
            raise ValueError(f"rms_norm_eps is {config.norm_eps()}: llama.cpp "
                             f"would take it in place of {L2_EPS} in L2 norms")

    def write_own_parameters(self, writer):
        config = self.config
        shape = qwen3_5.attention_shape(config)
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count_kv(shape.G)
        writer.add_key_length(shape.d)
        writer.add_value_length(shape.d)
        writer.add_rope_dimension_count(shape.rotary)
        writer.add_rope_dimension_sections(sections(shape.rotary))
        write_ssm_sizes(writer, taps=config["linear_conv_kernel_dim"],
                        width=self.HV * self.V, state=self.K, heads=self.HV,
                        groups=self.H)
        writer.add_full_attention_interval(config["full_attention_interval"])
        # The gguf package has no name for it yet.
        writer.add_array("qwen35.attention.recurrent_layers",
                         [not kind for kind in self.is_attention()])

    def gguf_name(self, name):
        if name.endswith(".dt_bias"):
            name = name.removesuffix("dt_bias") + "dt_proj.bias"
        return super().gguf_name(name)

    def transformed(self, name, values):
        """The values as llama.cpp wants them."""
        part = name.partition(".linear_attn.")[2]
        if part:
            values = self.in_tiles(part, values)
        if part == "A_log":
            return -np.exp(values)
        if part == "conv1d.weight":  # [channels, 1, taps]
            return values.squeeze(1)
        return values + 1 if qwen3_5.is_centered(name) else values

    def in_tiles(self, part, values):
        """Value heads in the order of llama.cpp, which lets value head j read
        key head j % H; in checkpoints j // (HV / H) is read."""
        if part in ("in_proj_qkv.weight", "conv1d.weight"):
            ours, heads = np.split(values, [2 * self.H * self.K])
            return np.concatenate([ours, self.reordered(heads)])
        if part == "out_proj.weight":
            return self.reordered(values.T).T
        return values if part == "norm.weight" else self.reordered(values)

    def reordered(self, rows):
        """Rows of all value heads."""
        grouped = rows.reshape(self.H, self.HV // self.H, -1)
        return np.ascontiguousarray(grouped.swapaxes(0, 1)).reshape(rows.shape)
