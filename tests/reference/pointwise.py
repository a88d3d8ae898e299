"""Functions of single numbers and single vectors, in float64."""

import math

import numpy as np

# --- activations --------------------------------------------------------------


def sigmoid(x):
    return np.exp(log_sigmoid(x))


def silu(x):
    return x * sigmoid(x)


def relu(x):
    return np.maximum(x, 0)


def log_sigmoid(x):
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def softplus(x):
    """log(1 + e^x)."""
    return -log_sigmoid(-np.asarray(x, np.float64))


def elu_plus_one(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def powlu(x):
    """x^(3 / (sqrt x + 1)) sigmoid(x) above 0, silu below."""
    positive = np.maximum(x, 1e-300)
    return np.where(x > 0, positive ** (3 / (np.sqrt(positive) + 1)), x) * sigmoid(x)


# The names of fla; RetNet's "gelu" is the exact one.
ACTIVATIONS = {
    "relu": relu,
    "sigmoid": sigmoid,
    "logsigmoid": log_sigmoid,
    "silu": silu,
    "swish": silu,
    "sqrelu": lambda x: relu(x) ** 2,
    "gelu": gelu_tanh,
    "powlu": powlu,
}


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


def log_sum_exp(x):
    """log(sum e^x) that does not overflow."""
    return np.max(x) + math.log(np.exp(x - np.max(x)).sum())


# --- norms --------------------------------------------------------------------


def rms_norm(x, weight, eps):
    """Over all of x; weight may be None."""
    y = x / np.sqrt(np.mean(x * x) + eps)
    return y if weight is None else y * weight


def layer_norm(x, weight, bias, eps):
    """Over all of x with population variance; weight, bias may be None."""
    centered = x - np.mean(x)
    y = centered / np.sqrt(np.mean(centered * centered) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def l2_norm(x, eps=1e-6):
    return x / np.sqrt(np.sum(x * x) + eps)


# --- positions and neighbours -------------------------------------------------


def rotary_angles(position, width, theta):
    return position * theta ** (-2.0 * np.arange(width // 2) / width)


def rotate_half(x, position, theta=10000.0, turning=None):
    """Rotary embedding of one head; i pairs with i + width / 2. `turning`: of
    the pairs only the first so many."""
    angle = rotary_angles(position, len(x), theta)
    if turning is not None:
        angle[turning:] = 0.0
    x1, x2 = np.split(x, 2)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([x1 * cos - x2 * sin, x1 * sin + x2 * cos])


def rotate_interleaved(x, position, theta=10000.0):
    """Rotary embedding of one head; 2 i pairs with 2 i + 1."""
    angle = rotary_angles(position, len(x), theta)
    x1, x2 = x[0::2], x[1::2]
    y = np.empty_like(x)
    y[0::2] = x1 * np.cos(angle) - x2 * np.sin(angle)
    y[1::2] = x1 * np.sin(angle) + x2 * np.cos(angle)
    return y


class CausalConv:
    """Depthwise convolution over time; the last tap is now.

    taps: [channels, 1, W]; bias: [channels] or None. No activation.
    """

    def __init__(self, taps, bias=None):
        self.taps, self.bias = taps[:, 0, :], bias
        self.past = []

    def step(self, x):
        self.past.append(x)
        W = self.taps.shape[1]
        y = np.zeros_like(x) if self.bias is None else self.bias.copy()
        for w in range(W):
            t = len(self.past) - W + w
            if t >= 0:
                y += self.taps[:, w] * self.past[t]
        return y
