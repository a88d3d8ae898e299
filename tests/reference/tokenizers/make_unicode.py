"""Makes server/text/unicode_tables.inc: what the library `tokenizers`
takes characters for, where Debian's libraries of Unicode may not agree.

The library consists of parts with a Unicode of their own each, all of other
versions; so it is asked about every code point there is. Needs, from PyPI,
tokenizers and unicodedata2; run it as

    python3 tests/reference/tokenizers/make_unicode.py \\
        server/text/unicode_tables.inc

It takes a few minutes.
"""

import importlib.metadata
import pathlib
import sys
import unicodedata

import unicodedata2
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import models, normalizers, pre_tokenizers

CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
BLOCK = 20000
CATEGORIES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po "
    "Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn"
).split()
# Those that patterns of tokenizers name.
SCRIPTS = (
    "Han Hiragana Katakana Hangul Latin Cyrillic Greek Arabic Hebrew Armenian "
    "Georgian Thai Lao Tibetan Khmer Myanmar Devanagari Bengali Tamil Telugu "
    "Kannada Malayalam Gujarati Gurmukhi Oriya Sinhala Ethiopic Mongolian "
    "Common Inherited"
).split()
FORMS = {
    form: getattr(normalizers, form)()
    for form in ("NFC", "NFD", "NFKC", "NFKD")
}


def blocks(codes):
    return [codes[i : i + BLOCK] for i in range(0, len(codes), BLOCK)]


def matching(pattern, codes):
    """The code points that a pattern of one character matches."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = set(codes)
    for block in blocks(codes):
        text = "".join(map(chr, block))
        for _, (begin, end) in split.pre_tokenize_str(text):
            found.difference_update(block[begin:end])
    return found


def isolated(step):
    """The code points that a pre-tokenizer takes out of the letters around."""
    found = set()
    for block in blocks(CODES):
        text = "a" + "a".join(map(chr, block)) + "a"
        for _, (begin, end) in step.pre_tokenize_str(text):
            if end - begin == 1 and begin % 2 == 1:
                found.add(block[begin // 2])
    return found


def word_characters():
    """The code points beside which a single word is none."""
    tokenizer = Tokenizer(models.BPE(vocab={}, merges=[]))
    tokenizer.add_tokens(
        [AddedToken("[T]", single_word=True, normalized=False)]
    )
    found = set()
    for block in blocks(CODES):
        texts = [chr(code) + "[T]" for code in block]
        for code, encoding in zip(block, tokenizer.encode_batch(texts)):
            if not encoding.ids:
                found.add(code)
    return found


def unnormalized():
    """The code points of which the library's normal forms know nothing, while
    Unicode decomposes, orders or composes them."""
    found = set()
    for code in CODES:
        text = chr(code)
        forms = {form: unicodedata2.normalize(form, text) for form in FORMS}
        if any(
            forms[form] != FORMS[form].normalize_str(text) for form in FORMS
        ):
            found.add(code)
        marks = "a\u0345" + text
        known = FORMS["NFD"].normalize_str(marks)
        if known != unicodedata2.normalize("NFD", marks):
            found.add(code)
        parts = forms["NFD"]
        if len(parts) > 1 and FORMS["NFC"].normalize_str(parts) != forms["NFC"]:
            found.update((code, ord(parts[0])))
    return found


def categories():
    """The category of each code point."""
    known = {}
    for category in CATEGORIES:
        for code in matching(r"\p{%s}" % category, CODES):
            known[code] = category
    return known


def bytes_of(code):
    return len(chr(code).encode())


def scripts_of(codes):
    known = dict.fromkeys(codes, "")
    for script in SCRIPTS:
        for code in matching(r"\p{%s}" % script, codes):
            known[code] = script
    return known


def stand_ins():
    """For code points whose category depends on the version of Unicode: older
    ones of the library's category and script, as many bytes long."""
    category = categories()

    def is_settled(code):
        return (
            category[code]
            == unicodedata.category(chr(code))
            == (unicodedata2.category(chr(code)))
        )

    open_codes = [code for code in CODES if not is_settled(code)]
    kinds = {(category[c], bytes_of(c)) for c in open_codes}
    candidates = [
        c
        for c in CODES
        if (category[c], bytes_of(c)) in kinds and is_settled(c)
    ]
    script = scripts_of(open_codes + candidates)
    chosen = {}
    for code in candidates:
        # Of unassigned ones only those that stay so.
        stays = (
            category[code] != "Cn" or code & 0xFFFE == 0xFFFE or code == 0x378
        )
        if stays:
            kind = (category[code], bytes_of(code), script[code])
            chosen.setdefault(kind, code)
    found = {}
    for code in open_codes:
        kind = (category[code], bytes_of(code), script[code])
        other = [c for k, c in chosen.items() if k[:2] == kind[:2]]
        if kind in chosen or other:
            found[code] = chosen.get(kind, other[0] if other else None)
        else:
            print("nothing stands for", hex(code), kind)
    return found


def ranges(values):
    """[first, last, value] of neighbours that have the same value."""
    found = []
    for code, value in sorted(values.items()):
        if found and found[-1][1] == code - 1 and found[-1][2] == value:
            found[-1][1] = code
        else:
            found.append([code, code, value])
    return found


def write_array(file, comment, kind, name, entries):
    print("%s ranges: %d" % (name, len(entries)))
    file.write("\n// %s\nconstexpr %s %s[] = {" % (comment, kind, name))
    line = ""
    for entry in entries:
        text = "{" + ", ".join("0x%X" % number for number in entry) + "},"
        if not line or len(line) + 1 + len(text) > 80:
            file.write(line + "\n")
            line = "    " + text
        else:
            line += " " + text
    file.write(line + "\n};\n")


def write_set(file, comment, name, codes):
    entries = [entry[:2] for entry in ranges(dict.fromkeys(codes, 0))]
    write_array(file, comment, "CodeRange", name, entries)


def main(path):
    version = importlib.metadata.version("tokenizers")
    with open(path, "w") as file:
        file.write(
            "// Made by tests/reference/tokenizers/make_unicode.py of tokenizers %s\n"
            "// and Unicode %s and %s.\n"
            % (
                version,
                unicodedata.unidata_version,
                unicodedata2.unidata_version,
            )
        )
        write_set(
            file,
            "Beside these a single word is none.",
            "kWordCharacters",
            word_characters(),
        )
        write_set(
            file,
            "What the step Digits cuts at.",
            "kNumbers",
            isolated(pre_tokenizers.Digits(individual_digits=True)),
        )
        write_set(
            file,
            "What the step Punctuation cuts at.",
            "kPunctuation",
            isolated(pre_tokenizers.Punctuation()),
        )
        write_set(
            file,
            "What normal forms leave as it is, and do not order or compose.",
            "kUnnormalized",
            unnormalized(),
        )
        write_array(
            file,
            "What stands for these in patterns.",
            "StandInRange",
            "kStandIns",
            ranges(stand_ins()),
        )


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
