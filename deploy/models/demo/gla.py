"""The model: gated linear attention (GLA), in PyTorch.

Plain functions over a dictionary of weights, whose keys are the names that the
exported file uses.

Letters in shapes: B rows, T tokens per row, D model width, H heads, K and V
key and value width per head, N chunks per row, C tokens per chunk, F MLP width,
W taps of the convolution.
"""

import math

import torch
import torch.nn.functional as F

CONFIG = {
    "architectures": ["GLAForCausalLM"],
    "model_type": "gla",
    "tokenizer": "bytes",
    "vocab_size": 256,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": None,
    "hidden_size": 256,
    "num_hidden_layers": 5,
    "num_heads": 8,
    "num_kv_heads": None,
    "expand_k": 0.5,
    "expand_v": 1.0,
    "feature_map": None,
    "use_short_conv": True,
    "conv_size": 4,
    "use_output_gate": True,
    "clamp_min": None,
    "hidden_ratio": 4,
    "intermediate_size": 512,
    "hidden_act": "swish",
    "elementwise_affine": True,
    "norm_eps": 1e-6,
    "fuse_norm": True,
    "attn_mode": "chunk",
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_cache": True,
}
GATE_RANK = 16  # width between the two decay projections; a constant of GLA
GATE_TEMPERATURE = 16  # the decay is sigmoid(.) ** (1 / 16); likewise
CHUNK = 32  # tokens per chunk of the parallel form


def widths(config):
    """Returns (H, K, V): heads, key width and value width per head."""
    heads = config["num_heads"]
    key = int(config["hidden_size"] * config["expand_k"]) // heads
    value = int(config["hidden_size"] * config["expand_v"]) // heads
    return heads, key, value


def weight_shapes(config):
    """Returns {tensor name: shape}; a matrix is stored [out, in]."""
    D, I = config["hidden_size"], config["intermediate_size"]
    heads, key, value = widths(config)
    DK, DV, taps = heads * key, heads * value, config["conv_size"]
    shapes = {"model.embeddings.weight": (config["vocab_size"], D)}
    for layer in range(config["num_hidden_layers"]):
        names = {
            "attn_norm.weight": (D,),
            "attn.q_proj.weight": (DK, D),
            "attn.k_proj.weight": (DK, D),
            "attn.v_proj.weight": (DV, D),
            "attn.g_proj.weight": (DV, D),
            "attn.gk_proj.0.weight": (GATE_RANK, D),
            "attn.gk_proj.1.weight": (DK, GATE_RANK),
            "attn.gk_proj.1.bias": (DK,),
            "attn.q_conv1d.weight": (DK, 1, taps),
            "attn.k_conv1d.weight": (DK, 1, taps),
            "attn.v_conv1d.weight": (DV, 1, taps),
            "attn.g_norm_swish_gate.weight": (value,),
            "attn.o_proj.weight": (D, DV),
            "mlp_norm.weight": (D,),
            "mlp.gate_proj.weight": (I, D),
            "mlp.up_proj.weight": (I, D),
            "mlp.down_proj.weight": (D, I),
        }
        for name, shape in names.items():
            shapes[f"model.layers.{layer}.{name}"] = shape
    shapes["model.norm.weight"] = (D,)
    shapes["lm_head.weight"] = (config["vocab_size"], D)
    return shapes


def initial_weight(name, shape, config):
    """Draws one tensor from torch's global generator."""
    if "norm" in name:
        return torch.ones(shape)
    if name.endswith("gk_proj.1.bias"):
        # The channels of a head start with memories of 10 to 6500 tokens.
        heads, key, _ = widths(config)
        return torch.linspace(-1.0, 6.0, key).repeat(heads)
    if "conv1d" in name:
        taps = torch.zeros(shape)
        taps[..., -1] = 1.0
        return taps + 0.2 * torch.randn(shape)
    std = 0.5 * shape[-1] ** -0.5
    if "o_proj" in name or "down_proj" in name:
        std /= math.sqrt(2 * config["num_hidden_layers"])
    return std * torch.randn(shape)


def initial_weights(config, seed):
    """Returns {name: f32 tensor that requires a gradient}."""
    torch.manual_seed(seed)
    return {name: initial_weight(name, shape, config).requires_grad_()
            for name, shape in weight_shapes(config).items()}


def initial_state(config, rows):
    """Returns zeros: per layer the matrices and the convolution's window,

    (f32[B, H, K, V], f32[B, W-1, 2*H*K + H*V]).
    """
    heads, key, value = widths(config)
    channels = heads * (2 * key + value)
    return [(torch.zeros(rows, heads, key, value),
             torch.zeros(rows, config["conv_size"] - 1, channels))
            for _ in range(config["num_hidden_layers"])]


def linear(x, *matrices, dtype=torch.float32):
    """Returns y = W x for W the matrices stacked by rows, in float32.

    dtype is that of the product; bfloat16 is twice as fast where the processor
    has AVX512_BF16.
    """
    stacked = matrices[0] if len(matrices) == 1 else torch.cat(matrices)
    return F.linear(x.to(dtype), stacked.to(dtype)).float()


def rms_norm(x, weight, eps):
    """Divides the last axis by its root mean square, then scales it."""
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


def short_conv(x, window, taps):
    """Causal depthwise convolution, then silu.

    x f32[B, T, channels], window f32[B, W-1, channels] the inputs before it,
    taps f32[channels, 1, W], the last tap for the current token.
    Returns y of x's shape, and the window of the next call.
    """
    count, tokens = taps.shape[-1], x.shape[1]
    padded = torch.cat([window, x], dim=1)
    y = padded[:, :tokens] * taps[:, 0, 0]
    for w in range(1, count):
        y = torch.addcmul(y, padded[:, w:w + tokens], taps[:, 0, w])
    return F.silu(y), padded[:, tokens:].detach().clone()


def plain(q, k, v, log_decay, state):
    """The definition, one token at a time; shapes as chunkwise.

      S <- exp(log_decay)[:, None] * S + k v^T
      o <- K^-1/2 S^T q          the token's own (k, v) is included
    """
    outputs = []
    for t in range(q.shape[1]):
        state = (log_decay[:, t, :, :, None].exp() * state
                 + k[:, t, :, :, None] * v[:, t, :, None, :])
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(outputs, 1) * q.shape[-1] ** -0.5, state


def chunkwise(q, k, v, log_decay, state):
    """The same function, in parallel within chunks of C tokens.

      q, k, log_decay  f32[B, T, H, K]      v  f32[B, T, H, V]
      state            f32[B, H, K, V]
    Returns o f32[B, T, H, V] and the state after the last token.

    With b the running sum of log_decay inside a chunk, the weight of token j in
    output i is sum_k q_i k_j exp(b_i - b_j): a matrix product of q exp(b) and
    k exp(-b). The latter stays finite while a chunk's sum is above -80, that is
    a mean gate input above -40; trained gates stay far from it.
    """
    B, T, H, K = q.shape
    C = min(CHUNK, T)
    if T % C:
        raise ValueError(f"{T} tokens are not a multiple of the chunk, {C}")
    chunked = lambda x: (x.reshape(B, T // C, C, H, x.shape[-1])
                         .permute(1, 0, 3, 2, 4))  # [N, B, H, C, width]
    running_sum = chunked(log_decay).cumsum(-2)
    grown = running_sum.exp()
    q = chunked(q) * grown * K ** -0.5
    k = chunked(k) * (-running_sum).exp()
    v = chunked(v)
    inside = (q @ k.transpose(-1, -2)).tril() @ v  # [N, B, H, C, V]
    added = k.transpose(-1, -2) @ v  # [N, B, H, K, V]
    decays = grown[..., -1, :, None]
    at_start = []  # the state before each chunk
    for decay, update in zip(decays.unbind(0), added.unbind(0)):
        at_start.append(state)
        state = decay * (state + update)
    o = inside + q @ torch.stack(at_start)
    return o.permute(1, 0, 3, 2, 4).reshape(B, T, H, v.shape[-1]), state


def attention(x, w, config, state, dtype):
    """One GLA layer. x f32[B, T, D], normalised; w the attn.* weights."""
    B, T, _ = x.shape
    heads, key, value = widths(config)
    DK, DV = heads * key, heads * value
    matrix, window = state
    projected = linear(x, w["q_proj.weight"], w["k_proj.weight"],
                       w["v_proj.weight"], w["g_proj.weight"],
                       w["gk_proj.0.weight"], dtype=dtype)
    qkv, gate, low_rank = projected.split([2 * DK + DV, DV, GATE_RANK], -1)
    taps = torch.cat([w["q_conv1d.weight"], w["k_conv1d.weight"],
                      w["v_conv1d.weight"]])
    qkv, window = short_conv(qkv, window, taps)
    log_decay = F.logsigmoid(F.linear(low_rank, w["gk_proj.1.weight"],
                                      w["gk_proj.1.bias"])) / GATE_TEMPERATURE
    by_head = lambda y: y.reshape(B, T, heads, -1)
    q, k, v = map(by_head, qkv.split([DK, DK, DV], -1))
    o, matrix = chunkwise(q, k, v, by_head(log_decay), matrix)
    o = rms_norm(o, w["g_norm_swish_gate.weight"],
                 config["norm_eps"]).reshape(B, T, DV)
    y = linear(o * F.silu(gate), w["o_proj.weight"], dtype=dtype)
    return y, (matrix, window)


def mlp(x, w, dtype):
    """SwiGLU: down(silu(gate x) * up x). x f32[B, T, D]; w: mlp.* weights."""
    gate, up = linear(x, w["gate_proj.weight"], w["up_proj.weight"],
                      dtype=dtype).chunk(2, -1)
    return linear(F.silu(gate) * up, w["down_proj.weight"], dtype=dtype)


def below(weights, prefix):
    """Returns the weights whose names start with prefix, without it."""
    return {name[len(prefix):]: tensor for name, tensor in weights.items()
            if name.startswith(prefix)}


def forward(weights, config, tokens, state, dtype=torch.float32):
    """Returns logits f32[B, T, vocabulary] and the next state.

    tokens i64[B, T], T at most 32 or a multiple of 32; state as initial_state.
    """
    eps = config["norm_eps"]
    x = F.embedding(tokens, weights["model.embeddings.weight"])
    next_state = []
    for n, layer_state in enumerate(state):
        w = below(weights, f"model.layers.{n}.")
        normed = rms_norm(x, w["attn_norm.weight"], eps)
        y, layer_state = attention(normed, below(w, "attn."), config,
                                   layer_state, dtype)
        x = x + y
        normed = rms_norm(x, w["mlp_norm.weight"], eps)
        x = x + mlp(normed, below(w, "mlp."), dtype)
        next_state.append(layer_state)
    x = rms_norm(x, weights["model.norm.weight"], eps)
    return linear(x, weights["lm_head.weight"], dtype=dtype), next_state
