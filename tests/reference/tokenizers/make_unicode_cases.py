"""Makes tests/data/tokenizers/unicode.json: what the library `tokenizers` makes
of characters about which versions of Unicode differ, and of their neighbours.

Needs, from PyPI, tokenizers, unicodedata2 and what make_unicode.py wrote; run
it as

    python3 tests/reference/tokenizers/make_unicode_cases.py \\
        server/text/unicode_tables.inc \\
        tests/data/tokenizers/unicode.json

A tokenizer here has a token for each byte. Its steps remove what they match, so
that the tokens tell what that was.
"""

import json
import pathlib
import re
import sys

import unicodedata2
from make import byte_alphabet
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers
from tokenizers import pre_tokenizers as steps

IN_TEXT = 64  # characters
WORD, WORD_ID = "[T]", 256
PATTERNS = [
    r"\p{L}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}", r"\p{C}", r"\p{Lu}",
    r"\p{Ll}", r"\p{Lo}", r"\p{Nd}", r"\p{Han}", r"[^\s\p{L}\p{N}]", r"\d",
]  # fmt: skip


def byte_tokenizer(step=None, normalizer=None):
    vocab = {character: byte for character, byte in byte_alphabet().items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    byte_level = steps.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = steps.Sequence(
        [step, byte_level] if step else [byte_level]
    )
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    return tokenizer


def removing(pattern):
    return steps.Split(Regex(pattern), "removed")


def tokenizers():
    """By name: a tokenizer, and which texts it is tried with."""
    found = {}
    for pattern in PATTERNS:
        found["Split " + pattern] = (
            byte_tokenizer(removing(pattern)),
            "characters",
        )
    punctuation = steps.Punctuation("removed")
    found["Punctuation"] = (byte_tokenizer(punctuation), "characters")
    # A number becomes a part of its own, and those are removed.
    digits = steps.Sequence([steps.Digits(True), removing(r"^\S$")])
    found["Digits"] = (byte_tokenizer(digits), "among_letters")
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        normalizer = getattr(normalizers, form)()
        found[form] = (byte_tokenizer(normalizer=normalizer), "marks")
    word = byte_tokenizer()
    word.add_tokens([AddedToken(WORD, single_word=True, normalized=False)])
    assert word.token_to_id(WORD) == WORD_ID
    found["before a word"] = (word, "before_words")
    found["behind a word"] = (word, "behind_words")
    return found


def codes_at_edges(tables):
    """The ends of all ranges, and what lies beside them."""
    codes = set()
    for first, last in re.findall(r"\{0x(\w+), 0x(\w+)[,}]", tables):
        first, last = int(first, 16), int(last, 16)
        codes.update((first - 1, first, last, last + 1))
    return [
        c
        for c in sorted(codes)
        if 0x21 <= c < 0x110000 and not 0xD800 <= c < 0xE000
    ]


def compositions(codes):
    """What some of them are put together from."""
    texts = (unicodedata2.normalize("NFD", chr(code)) for code in codes)
    return [text for text in texts if len(text) > 1]


def in_texts(parts):
    """Parts in a few texts."""
    return [
        " ".join(parts[i : i + IN_TEXT]) for i in range(0, len(parts), IN_TEXT)
    ]


def all_texts(codes):
    characters = [chr(code) for code in codes]
    return {
        "characters": in_texts(characters),
        "among_letters": in_texts(["aa" + c + "aa" for c in characters]),
        "marks": in_texts(
            ["a\u0345" + c + "\u0301" for c in characters] + compositions(codes)
        ),
        "before_words": in_texts([c + WORD for c in characters]),
        "behind_words": in_texts([WORD + c for c in characters]),
    }


def result(tokenizer, text):
    """The bytes of the tokens; the word is an asterisk, which no text has."""
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return bytes(0x2A if i == WORD_ID else i for i in ids).decode(
        "utf-8", "replace"
    )


def main(tables, target):
    texts = all_texts(codes_at_edges(tables.read_text()))
    cases = []
    for name, (tokenizer, kind) in tokenizers().items():
        cases.append(
            {
                "name": name,
                "texts": kind,
                "tokenizer": json.loads(tokenizer.to_str()),
                "results": [result(tokenizer, text) for text in texts[kind]],
            }
        )
    value = {"texts": texts, "cases": cases}
    text = json.dumps(
        value, ensure_ascii=False, indent=0, separators=(",", ":")
    )
    target.write_text(text + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
