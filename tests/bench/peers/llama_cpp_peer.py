#!/usr/bin/env python3
"""llama.cpp by its C API, as llama-cpp-python has it. A worker, see worker.py.

States are float32: llama.cpp has no other for recurrent models. The keys and
values of softmax attention are in float16, as they are by default, or float32.
"""

import ctypes
import importlib.metadata
import os

import llama_cpp as api
import numpy as np
import worker

CACHES = {"f16": api.GGML_TYPE_F16, "f32": api.GGML_TYPE_F32}
# "copied" reads the weights into memory of its own instead of mapping them.
LOAD_MODES = {"mapped": api.LLAMA_LOAD_MODE_MMAP,
              "copied": api.LLAMA_LOAD_MODE_NONE}


@api.llama_log_callback
def say_nothing(level, text, user_data):
    pass


def as_tokens(tokens):
    return (api.llama_token * len(tokens))(*tokens)


class LlamaCpp:
    """One model and one context of so many sequences."""

    def __init__(self, options):
        api.llama_log_set(say_nothing, ctypes.c_void_p(0))
        api.llama_backend_init()
        self.model = self._load(options)
        self.vocab = api.llama_vocab_n_tokens(
            api.llama_model_get_vocab(self.model))
        room = max(options.prompt, options.sequences, options.behind,
                   len(options.token_ids))
        self.context = self._make_context(options, room)
        self.batch = api.llama_batch_init(room, 0, 1)
        self.position = [0] * options.sequences
        # What was read once serves the measurements that follow.
        self.prompt_file = f"{options.model}.{options.cache}-{options.behind}"

    def _load(self, options):
        parameters = api.llama_model_default_params()
        parameters.load_mode = LOAD_MODES[options.memory]
        model = api.llama_model_load_from_file(os.fsencode(options.model),
                                               parameters)
        if not model:
            raise RuntimeError(f"llama.cpp does not load {options.model}")
        return model

    def _positions(self, options, room):
        """How many a sequence has at most."""
        if api.llama_model_is_recurrent(self.model):
            return 65536  # a bound, no memory
        return room + worker.MOST + 1

    def _make_context(self, options, room):
        parameters = api.llama_context_default_params()
        parameters.n_ctx = self._positions(options, room) * options.sequences
        parameters.type_k = parameters.type_v = CACHES[options.cache]
        if options.cache == "f32":
            # That attention would round them to float16 again.
            parameters.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_DISABLED
        parameters.n_batch = room
        parameters.n_ubatch = min(options.ubatch, room)
        parameters.n_seq_max = options.sequences
        parameters.n_threads = options.threads
        parameters.n_threads_batch = options.threads
        parameters.no_perf = True
        context = api.llama_init_from_model(self.model, parameters)
        if not context:
            raise RuntimeError("llama.cpp makes no context")
        return context

    def reset(self):
        api.llama_memory_clear(api.llama_get_memory(self.context), True)
        self.position = [0] * len(self.position)

    def _decode(self, tokens, sequences, wanted):
        """Logits float32 [rows wanted, vocab], in the order of the rows."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, (token, sequence) in enumerate(zip(tokens, sequences)):
            batch.token[i] = token
            batch.pos[i] = self.position[sequence]
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wanted[i]
            self.position[sequence] += 1
        code = api.llama_decode(self.context, batch)
        if code != 0:
            raise RuntimeError(f"llama_decode returns {code}")
        logits = api.llama_get_logits(self.context)  # waits for them
        return np.ctypeslib.as_array(logits, shape=(sum(wanted), self.vocab))

    def absorb(self, tokens, every):
        wanted = [every] * (len(tokens) - 1) + [True]
        return self._decode(tokens, [0] * len(tokens), wanted)

    def begin(self, tokens):
        """One sequence reads them, the others become copies of it."""
        self.reset()
        path = os.fsencode(self.prompt_file)
        if not self._read_prompt(path, tokens):
            self.absorb(tokens, every=False)
            api.llama_state_seq_save_file(self.context, path, 0,
                                          as_tokens(tokens), len(tokens))
        memory = api.llama_get_memory(self.context)
        for sequence in range(1, len(self.position)):
            api.llama_memory_seq_cp(memory, 0, sequence, -1, -1)
        self.position = [len(tokens)] * len(self.position)

    def _read_prompt(self, path, tokens):
        """Makes sequence 0 what a file has, if it is of these tokens."""
        if not os.path.exists(path):
            return False
        found, count = as_tokens([0] * len(tokens)), ctypes.c_size_t()
        size = api.llama_state_seq_load_file(self.context, path, 0, found,
                                             len(tokens), ctypes.byref(count))
        if size and list(found[:count.value]) == tokens:
            return True
        self.reset()
        return False

    def step(self, tokens):
        count = len(tokens)
        return self._decode(tokens, range(count), [True] * count)

    def about(self):
        return {
            "llama.cpp": api.llama_version().decode(),
            "llama-cpp-python": importlib.metadata.version("llama-cpp-python"),
            "system_info": api.llama_print_system_info().decode().strip(),
        }


def add_options(parser):
    parser.add_argument("--ubatch", type=int, default=512,
                        help="tokens that are computed together at most")
    parser.add_argument("--memory", choices=LOAD_MODES, default="mapped")
    parser.add_argument("--cache", choices=CACHES, default="f16",
                        help="type of keys and values")


if __name__ == "__main__":
    worker.run(__doc__, LlamaCpp, add_options)
