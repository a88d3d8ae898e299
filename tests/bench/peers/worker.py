"""What one process of a peer does: logits, or the time of a measurement.

A peer is made from the parsed options and has
  vocab                 how many tokens it knows
  reset()               forgets all sequences
  absorb(tokens, every) sequence 0 reads them; logits float32 [tokens, vocab]
                        if every, else [1, vocab], of the last
  begin(tokens)         all sequences are fresh ones that have read these; asked
                        of those whose sequences have something behind them
  step(tokens)          sequence i reads tokens[i]; logits [len(tokens), vocab]
  about()               {name: text}: versions and such
Logits are valid until the next call. The result is one line of JSON on
standard output, {"about"} and of a measurement {"seconds": of each repetition,
"tokens": of one}; logits go to a NumPy file with the arrays `prefill` and
`decode`.
"""

import argparse
import json
import time

import numpy as np

LEAST = 3  # repetitions of a measurement
ENOUGH_S = 20  # after which it ends before that
WARM_UP = 512  # tokens that are read before at most
MOST = 1000  # more would not fit behind what sequences may have read


def parse(doc, add_options):
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("logits", "prefill", "decode"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sequences", type=int, default=1,
                        help="decoded together")
    parser.add_argument("--behind", type=int, default=0,
                        help="tokens that each has read before it decodes")
    parser.add_argument("--prompt", type=int, default=512,
                        help="tokens that prefill reads")
    parser.add_argument("--seconds", type=float, default=3,
                        help="how long a measurement takes at least")
    parser.add_argument("--token_ids", help="of logits: a file, a JSON list")
    parser.add_argument("--before", type=int, default=1,
                        help="tokens read at once before the decoded ones")
    parser.add_argument("--out", help="of logits: the file")
    add_options(parser)
    options = parser.parse_args()
    options.token_ids = read_tokens(options)
    return options


def read_tokens(options):
    if options.what != "logits":
        return []
    with open(options.token_ids) as file:
        return json.load(file)


def write_logits(peer, options):
    """Of all tokens read at once, and of those decoded one at a time."""
    tokens, before = options.token_ids, options.before
    at_once = np.array(peer.absorb(tokens, every=True))
    peer.reset()
    peer.absorb(tokens[:before], every=False)
    single = [np.array(peer.step([token])[0]) for token in tokens[before:]]
    np.savez(options.out, prefill=at_once, decode=np.array(single))


def is_enough(seconds, at_least):
    """LEAST repetitions, `at_least` seconds in all, but no more than MOST."""
    if len(seconds) < LEAST:
        return sum(seconds) > ENOUGH_S
    return sum(seconds) >= at_least or len(seconds) >= MOST


def timed(action, at_least):
    """Seconds of each repetition."""
    seconds = []
    while not is_enough(seconds, at_least):
        begin = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begin)
    return seconds


def measure(peer, options):
    random = np.random.default_rng(1)

    def some_tokens(count):
        return random.integers(peer.vocab, size=count).tolist()

    def decode():
        peer.step(some_tokens(options.sequences))

    def prefill(count=options.prompt):
        peer.reset()
        peer.absorb(some_tokens(count), every=False)

    if options.what == "decode":
        if options.behind:
            peer.begin(some_tokens(options.behind))
        decode()
        return options.sequences, timed(decode, options.seconds)
    prefill(min(options.prompt, WARM_UP))
    return options.prompt, timed(prefill, options.seconds)


def run(doc, make_peer, add_options=lambda parser: None):
    options = parse(doc, add_options)
    peer = make_peer(options)
    result = {"about": peer.about()}
    if options.what == "logits":
        write_logits(peer, options)
    else:
        result["tokens"], result["seconds"] = measure(peer, options)
    print(json.dumps(result))
