"""Makes tests/data/tokenizers: small tokenizers of the kinds that checkpoints
ship, and what the libraries that these kinds come from make of many strings.

Needs, from PyPI, tokenizers, sentencepiece and rwkv (of this only its
rwkv_tokenizer.py); run it as

    python3 tests/reference/tokenizers/make.py tests/data/tokenizers

The versions that made what is kept are in versions.json there. Training may end
elsewhere with other versions, and does with other texts to train on: then all
of it changes, and still must agree. With names of tokenizers after the folder
only those are made, on the strings that are there.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import pathlib
import tempfile

import sentencepiece
import texts
from tokenizers import AddedToken, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

SEED = 20261121
ROOT = pathlib.Path(__file__).resolve().parents[3]
CORPUS = ["README.md", "deploy/README.md", "kernels/README.md",
          "server/model/README.md", "LICENSE"]  # fmt: skip
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN3_5_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CL100K_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|"
    r" ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
TEKKEN_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPACE_MARK = "\u2581"


def train(lines, normalizer, pre_tokenizer, special=(), size=1000, **options):
    """A BPE tokenizer without a decoder, trained on `lines`."""
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    byte_level = "ByteLevel" in repr(pre_tokenizer)
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def edited(tokenizer, edit):
    """The tokenizer of a tokenizer.json after `edit` changed it."""
    description = json.loads(tokenizer.to_str())
    edit(description)
    return Tokenizer.from_str(json.dumps(description))


def neox(lines):
    """GPT-NeoX: NFC, byte level, runs of spaces as added tokens."""
    tokenizer = train(
        lines,
        normalizers.NFC(),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        ["<|endoftext|>", "<|padding|>"],
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(" " * n) for n in range(24, 1, -1)])
    return tokenizer


def prefix_space(lines):
    """Byte level with a space in front, compatible forms, single digits."""
    steps = [
        pre_tokenizers.Punctuation(),
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=True),
    ]
    tokenizer = train(
        lines,
        normalizers.NFKC(),
        pre_tokenizers.Sequence(steps),
        ["<|endoftext|>"],
        size=700,
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def by_pattern(lines, pattern, normalizer=None, special=()):
    """Words by a pattern, then bytes, as most instruct models have it."""
    split = pre_tokenizers.Split(pattern_of(pattern), "isolated")
    byte_level = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    tokenizer = train(
        lines, normalizer, pre_tokenizers.Sequence([split, byte_level])
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def llama3(lines):
    """Llama 3: a pattern of its own, and whole words before any merge."""
    tokenizer = by_pattern(
        lines, LLAMA3_PATTERN, special=["<|begin_of_text|>", "<|eot_id|>"]
    )

    def add_words(description):
        # No merge leads to this word, but with ignore_merges it is a token.
        description["model"]["ignore_merges"] = True
        description["model"]["vocab"]["extraordinary"] = 1002

    return edited(tokenizer, add_words)


def with_bos(tokenizer, bos):
    """Puts `bos` before each text, in the way of Llama 3."""
    template = processors.TemplateProcessing(
        single=f"{bos} $A",
        pair=f"{bos} $A {bos}:1 $B:1",
        special_tokens=[(bos, tokenizer.token_to_id(bos))],
    )
    byte_level = processors.ByteLevel(trim_offsets=True)
    tokenizer.post_processor = processors.Sequence([byte_level, template])
    return tokenizer


def gpt2(lines):
    """GPT-2: its own words alone."""
    tokenizer = train(
        lines,
        None,
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        ["<|endoftext|>"],
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def qwen2(lines):
    """Qwen2 and Qwen3-Next: single digits, NFC; words of a chat as tokens, of
    which those of thinking are no special ones."""
    tokenizer = by_pattern(
        lines,
        QWEN2_PATTERN,
        normalizers.NFC(),
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    )
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_tokens(
        [AddedToken(t, normalized=False) for t in ("<think>", "</think>")]
    )
    return tokenizer


def qwen3_5(lines):
    """Qwen3.5: the same, but marks belong to words."""
    tokenizer = by_pattern(
        lines,
        QWEN3_5_PATTERN,
        normalizers.NFC(),
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    )
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def lfm2(lines):
    """LFM2: of Llama 3's kind, with a token that begins every text."""
    special = ["<|pad|>", "<|startoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = by_pattern(lines, LLAMA3_PATTERN, special=special)

    def whole_words_first(description):
        description["model"]["ignore_merges"] = True

    return with_bos(edited(tokenizer, whole_words_first), "<|startoftext|>")


def granite(lines):
    """Granite 4: of the cl100k kind, in that pattern's own, possessive form."""
    return by_pattern(
        lines,
        CL100K_PATTERN,
        special=["<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>"],
    )


def nemotron(lines):
    """Nemotron 3: of the tekken kind, where a capital letter begins a word."""
    tokenizer = by_pattern(
        lines, TEKKEN_PATTERN, special=["<unk>", "<s>", "</s>"]
    )

    def whole_words_first(description):
        description["model"]["ignore_merges"] = True

    return with_bos(edited(tokenizer, whole_words_first), "<s>")


def pattern_of(text):
    """A regular expression for a Split."""
    from tokenizers import Regex

    return Regex(text)


def byte_fallback(lines, size=1300):
    """Tokens of the Llama kind, trained on words that begin with a mark."""
    special = ["<unk>", "<s>", "</s>"]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer = train(
        lines,
        None,
        pre_tokenizers.Metaspace(prepend_scheme="always"),
        special + bytes_,
        size=size,
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )

    def bytes_are_ordinary(description):
        description["added_tokens"] = description["added_tokens"][:3]

    return edited(tokenizer, bytes_are_ordinary)


def llama_decoder():
    """The decoder of Llama and Mistral."""
    return decoders.Sequence(
        [
            decoders.Replace(SPACE_MARK, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )


def llama(lines):
    """Llama 2 and Mistral as converted: a normalizer and no pre-tokenizer."""
    tokenizer = byte_fallback(lines)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(SPACE_MARK), normalizers.Replace(" ", SPACE_MARK)]
    )
    tokenizer.decoder = llama_decoder()

    def no_pre_tokenizer(description):
        description["pre_tokenizer"] = None

    return edited(tokenizer, no_pre_tokenizer)


def mistral(lines):
    """Mistral as of late: a pre-tokenizer that marks the start of a text."""
    tokenizer = byte_fallback(lines)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
        prepend_scheme="first", split=False
    )
    tokenizer.decoder = llama_decoder()
    tokenizer.add_special_tokens(["[INST]", "[/INST]"])
    return tokenizer


def metaspace(lines):
    """Words by a mark, with the decoder of that name; tokens that strip."""
    tokenizer = byte_fallback(lines, size=900)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens(
        [
            AddedToken("[MASK]", lstrip=True, normalized=False),
            AddedToken("[SEP]", rstrip=True, lstrip=True, normalized=False),
        ]
    )
    tokenizer.add_tokens([AddedToken("the", single_word=True)])
    return tokenizer


def unknown(lines):
    """Characters without bytes to fall back on; decomposed; stripped."""
    tokenizer = train(
        [line for line in lines if line.isascii()],
        normalizers.Sequence([normalizers.NFD(), normalizers.Strip()]),
        pre_tokenizers.Split(pattern_of(r"\s+"), "merged_with_previous"),
        ["<unk>"],
        size=400,
        unk_token="<unk>",
        fuse_unk=False,
    )
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_tokens([AddedToken("[WORD]"), AddedToken("\u00e9")])
    return tokenizer


TOKENIZERS = [neox, prefix_space, llama3, llama, mistral, metaspace, unknown]
TOKENIZERS += [gpt2, qwen2, qwen3_5, lfm2, granite, nemotron]


def write_expected(folder, strings, encode, decode):
    """What a tokenizer makes of each string, and what text comes back where it
    is not the string itself. A string whose tokens are None is passed over."""
    ids = [encode(string) for string in strings]
    lines = ("?" if t is None else " ".join(map(str, t)) for t in ids)
    (folder / "ids.txt").write_text("".join(line + "\n" for line in lines))
    decoded = {}
    for index, (string, tokens) in enumerate(zip(strings, ids)):
        text = string if tokens is None else decode(tokens)
        if text != string:
            decoded[str(index)] = text
    (folder / "decoded.json").write_text(dump(decoded))


def dump(value):
    """JSON that a person can compare line by line."""
    return json.dumps(value, indent=0, separators=(",", ":")) + "\n"


def old_merges(description):
    """The older form of merges, "a b"."""
    model = description["model"]
    model["merges"] = [" ".join(merge) for merge in model["merges"]]


def write_json_tokenizers(target, lines, strings, tokenizers):
    """tokenizer.json files and what the library tokenizers makes of them."""
    for make in tokenizers:
        folder = target / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = make(lines)
        description = json.loads(tokenizer.to_str())
        if make in (neox, llama):
            old_merges(description)
        text = json.dumps(
            description, ensure_ascii=False, separators=(",", ":")
        )
        (folder / "tokenizer.json").write_text(text + "\n")
        tokenizer = Tokenizer.from_str(text)
        write_expected(
            folder,
            strings,
            lambda s: tokenizer.encode(s, add_special_tokens=False).ids,
            tokenizer.decode,
        )


def write_sentencepiece(target, lines, strings):
    """tokenizer.model files and what SentencePiece makes of them."""
    kinds = {
        "sentencepiece_bpe": {
            "model_type": "bpe",
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "split_digits": True,
            "vocab_size": 1100,
        },
        "sentencepiece_unigram": {
            "model_type": "unigram",
            "vocab_size": 900,
            "user_defined_symbols": ["[MASK]"],
        },
    }
    for name, options in kinds.items():
        folder = target / name
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_prefix=f"{scratch}/m",
                num_threads=1,
                minloglevel=2,
                **options,
            )
            model = pathlib.Path(scratch, "m.model").read_bytes()
        (folder / "tokenizer.model").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        unigram = options["model_type"] == "unigram"
        write_expected(
            folder,
            strings,
            lambda s: (
                None
                if unigram and is_tie(processor, s)
                else processor.encode(s)
            ),
            processor.decode,
        )


def is_tie(processor, string):
    """True if two ways to cut a string are as probable as each other: then the
    order in which probabilities are added decides, which differs between
    versions of SentencePiece."""
    best = processor.nbest_encode(string, nbest_size=2)
    score = [sum(map(processor.get_score, tokens)) for tokens in best]
    return len(best) > 1 and best[0] != best[1] and score[0] - score[1] < 1e-3


def rwkv_reference(path):
    """The tokenizer of the package rwkv with the vocabulary at `path`."""
    package = importlib.util.find_spec("rwkv").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location(
        "rwkv_tokenizer", pathlib.Path(package, "rwkv_tokenizer.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TRIE_TOKENIZER(str(path))


def write_rwkv(target, lines, strings):
    """A vocabulary in the form of RWKV's: all bytes, then frequent words."""
    folder = target / "rwkv"
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train(
        lines, None, pre_tokenizers.ByteLevel(add_prefix_space=False), size=1400
    )
    tokenizer.decoder = decoders.ByteLevel()
    byte_of = byte_alphabet()
    tokens = {bytes([byte]) for byte in range(256)}
    for word in tokenizer.get_vocab():
        tokens.add(bytes(byte_of[character] for character in word))
    ordered = sorted(tokens, key=lambda token: (len(token), token))
    with open(folder / "rwkv_vocab_small.txt", "w", encoding="utf-8") as file:
        for index, token in enumerate(ordered, start=1):
            try:
                literal = repr(token.decode())
            except UnicodeDecodeError:
                literal = repr(token)
            file.write(f"{index} {literal} {len(token)}\n")
    reference = rwkv_reference(folder / "rwkv_vocab_small.txt")
    write_expected(folder, strings, reference.encode, reference.decode)


def byte_alphabet():
    """The byte that each character of byte-level tokens stands for."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    byte_of = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    return byte_of | {chr(0x100 + i): byte for i, byte in enumerate(others)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("only", nargs="*")
    arguments = parser.parse_args()
    target = arguments.target
    target.mkdir(parents=True, exist_ok=True)
    lines = texts.corpus(ROOT / path for path in CORPUS)
    if arguments.only:
        strings = json.loads((target / "strings.json").read_text())
        only = [t for t in TOKENIZERS if t.__name__ in arguments.only]
        write_json_tokenizers(target, lines, strings, only)
        return
    strings = texts.strings(SEED)
    (target / "strings.json").write_text(dump(strings))
    write_json_tokenizers(target, lines, strings, TOKENIZERS)
    write_sentencepiece(target, lines, strings)
    write_rwkv(target, lines, strings)
    packages = ["tokenizers", "sentencepiece", "rwkv"]
    versions = {name: importlib.metadata.version(name) for name in packages}
    (target / "versions.json").write_text(dump(versions))
    print(f"{len(strings)} strings")


if __name__ == "__main__":
    main()
