"""What all layers are made of: config values, tensors, projections."""

from pointwise import CausalConv


class Config:
    """config.json with defaults for what is absent or null."""

    def __init__(self, values, defaults=None):
        self.values = values
        self.defaults = defaults or {}

    def get(self, key, default=None):
        """The value, else the family's default, else `default`."""
        value = self.values.get(key)
        if value is None:
            value = self.defaults.get(key)
        return default if value is None else value

    def __getitem__(self, key):
        """The value of a key that has one or a default; else KeyError."""
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def norm_eps(self):
        for key in ("norm_eps", "rms_norm_eps", "layer_norm_epsilon"):
            if self.values.get(key) is not None:
                return self.values[key]
        return self.get("norm_eps", 1e-6)


def written_before(config, version, unknown):
    """Whether transformers before `version` wrote the file; `unknown`: no key."""
    text = config.get("transformers_version")
    if text is None:
        return unknown
    return [int(number) for number in text.split(".")[:3]] < version


def is_before_fla_06(config):
    """fla 0.6 needs transformers 5.6.2, and writes no version of its own."""
    return written_before(config, [5, 6, 2], True)


class Layer:
    """Tensors below one prefix; `rounded` is applied at projections.

    model: has config, tensors and rounded, such as language_model.CausalLm.
    """

    def __init__(self, model, prefix):
        self.config = model.config
        self.tensors = model.tensors
        self.rounded = model.rounded
        self.prefix = prefix

    def tensor(self, *names):
        """The first that is there, or None."""
        for name in names:
            if self.prefix + name in self.tensors:
                return self.tensors[self.prefix + name]
        return None

    def multiply(self, matrix, x):
        """A weight matrix times its input, both rounded."""
        return self.rounded(matrix) @ self.rounded(x)

    def project(self, name, x):
        """The linear layer `name` with the bias that it may have."""
        y = self.multiply(self.tensors[self.prefix + name + ".weight"], x)
        bias = self.tensor(name + ".bias")
        return y if bias is None else y + bias

    def causal_conv(self, name):
        """The convolution `name` with the bias that it may have."""
        taps = self.tensors[self.prefix + name + ".weight"]
        return CausalConv(taps, self.tensor(name + ".bias"))
