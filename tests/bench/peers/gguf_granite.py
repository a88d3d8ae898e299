"""Granite 4.0 H as llama.cpp's architecture `granitehybrid`; see to_gguf.py."""

import numpy as np
import paths  # noqa: F401  where the reference is
from families import granitemoehybrid
from gguf_hybrid import Hybrid
from gguf_mamba2 import mamba2_values, write_ssm_sizes


class Granite(Hybrid):
    ARCHITECTURE = "granitehybrid"
    FAMILY = granitemoehybrid
    EXPECTED = {"num_local_experts": 0, "attention_bias": False,
                "mamba_conv_bias": True, "mamba_proj_bias": False}

    def __init__(self, folder):
        super().__init__(folder)
        self.E, self.H, _, self.N, self.G = granitemoehybrid.sizes(self.config)

    def refuse_others(self):
        super().refuse_others()
        config = self.config
        if config.get("position_embedding_type") == "rope":
            raise ValueError("position_embedding_type is 'rope': only layers "
                             "without positions can be compared")
        if list(config.get("time_step_limit", [0.0, np.inf])) != [0.0, np.inf]:
            raise ValueError("time_step_limit is "
                             f"{config['time_step_limit']}: llama.cpp has none")

    def is_attention(self):
        return [granitemoehybrid.KINDS[kind] is granitemoehybrid.ATTENTION
                for kind in granitemoehybrid.layer_types(self.config)]

    def write_own_parameters(self, writer):
        config = self.config
        shape = granitemoehybrid.attention_shape(config)
        writer.add_feed_forward_length(granitemoehybrid.mlp_width(config))
        # A layer without heads of keys is Mamba-2.
        writer.add_head_count_kv(
            [attention * shape.G for attention in self.is_attention()])
        writer.add_rope_dimension_count(shape.d)
        writer.add_rope_scaling_finetuned(False)  # nothing is turned
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
        write_ssm_sizes(writer, taps=config["mamba_d_conv"], width=self.E,
                        state=self.N, heads=self.H, groups=self.G)

    def tensors(self):
        for name, values in super().tensors():
            layer, split, _ = name.partition("ffn_gate_up.weight")
            if split:  # gate and up are one matrix
                gate, up = np.split(values, 2)
                yield layer + "ffn_gate.weight", gate
                yield layer + "ffn_up.weight", up
            else:
                yield name, values

    def gguf_name(self, name):
        for ours, theirs in (("mamba.dt_bias", "ssm_dt.bias"),
                             ("shared_mlp.input_linear.weight",
                              "ffn_gate_up.weight"),
                             ("shared_mlp.output_linear.weight",
                              "ffn_down.weight")):
            if name.endswith("." + ours):
                return f"blk.{name.split('.')[2]}.{theirs}"
        return super().gguf_name(name)

    def transformed(self, name, values):
        """The values as llama.cpp wants them."""
        kind = self.gguf_name(name).split(".", 2)[-1]
        return mamba2_values(kind, values, self.G)
