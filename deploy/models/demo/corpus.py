"""The text: prose from the HTML pages of a Debian documentation package."""

import hashlib
import html.parser
import io
import lzma
import os
import re
import shutil
import subprocess
import tarfile

import numpy as np

BLOCK_TAGS = frozenset(
    "p br div h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table tr pre blockquote hr "
    "center".split())
SKIPPED_TAGS = frozenset("script style svg form button".split())

# Pages that only repeat or index other pages, and tables of generated figures.
SKIPPED_PAGES = re.compile(
    r"/(requirements|doc_\w*crossref|keyword_index|sitemap|capi3ref|"
    r"sqlanalyze|syntaxdiagrams)\.html$|/(releaselog|syntax|search\.d)/")

WINDOW = 64  # bytes; no longer piece of held-out text is in the training text

# Paragraphs that the page generator adds to every page of a kind.
BOILERPLATE = re.compile(
    r"This page last modified|See also lists of|Used by:|References:|"
    r"Prev: |SHA\d+ for |(\S+\.html\S*\s*)+$")


class ProseParser(html.parser.HTMLParser):
    """Collects the readable text of one page, without navigation and scripts.

    `title` is the page's title, `text` its body: a blank line between blocks,
    line breaks kept only inside <pre>.
    """

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.text = ""
        self._skipped = []  # open tags of the subtree being skipped
        self._in_title = False
        self._in_pre = False

    def handle_starttag(self, tag, attributes):
        if self._skipped:
            if tag == self._skipped[-1]:
                self._skipped.append(tag)
            return
        is_navigation = tag == "div" and ("class", "nosearch") in attributes
        if tag in SKIPPED_TAGS or is_navigation:
            self._skipped.append(tag)
            return
        self._open_or_close(tag, True)

    def handle_endtag(self, tag):
        if not self._skipped:
            self._open_or_close(tag, False)
        elif tag == self._skipped[-1]:
            self._skipped.pop()

    def handle_data(self, data):
        if self._in_title:
            self.title += data
        elif not self._skipped:
            self.text += data if self._in_pre else re.sub(r"\s+", " ", data)

    def _open_or_close(self, tag, is_open):
        if tag == "title":
            self._in_title = is_open
        elif tag == "pre":
            self._in_pre = is_open
        if tag in BLOCK_TAGS:
            self.text += "\n" if tag in ("br", "tr") else "\n\n"
        elif tag in ("td", "th"):
            self.text += " "


def read_pages(deb):
    """Yields (name, HTML text) of every page in a Debian package file."""
    archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True,
                             stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            if member.isfile() and member.name.endswith(".html"):
                page = members.extractfile(member).read()
                yield member.name, page.decode("utf-8", "replace")


def paragraphs(page):
    """Returns the title and the paragraphs of one HTML page."""
    parser = ProseParser()
    parser.feed(page)
    parser.close()
    result = [parser.title.strip()]
    for block in re.split(r"\n\s*\n", parser.text):
        lines = [re.sub(r"[ \t]+", " ", line).rstrip()
                 for line in block.split("\n")]
        block = re.sub(r"(\W)\1{7,}", r"\1\1\1\1", "\n".join(lines).strip())
        if block and not BOILERPLATE.match(block):
            result.append(block)
    return result


def documents(deb):
    """Yields (name, bytes) of each document, in order of name.

    A paragraph of 64 characters or more is kept only where it occurs first, so
    that no page repeats another and the held-out pages are really unseen.
    """
    seen = set()
    for name, page in sorted(read_pages(deb)):
        if SKIPPED_PAGES.search(name):
            continue
        kept = []
        for paragraph in paragraphs(page):
            key = " ".join(paragraph.split())
            if len(key) < 64 or key not in seen:
                kept.append(paragraph)
                seen.add(key)
        document = "\n\n".join(kept).replace("\0", "").encode()
        if len(document) >= 400:
            yield name, document


def is_held_out(name):
    """True for about one page in ten, by a hash of its name."""
    return hashlib.sha256(os.path.basename(name).encode()).digest()[0] < 24


def windows_of(text):
    """Returns the set of all windows of WINDOW bytes of a document."""
    return {text[i:i + WINDOW] for i in range(len(text) - WINDOW + 1)}


def without_windows(document, windows):
    """Returns a document less the paragraphs that hold part of a known window.

    Taking a paragraph out makes new windows over the gap, hence the loop.
    """
    kept = document.split(b"\n\n")
    while True:
        text = b"\n\n".join(kept)
        shared = [i for i in range(len(text) - WINDOW + 1)
                  if text[i:i + WINDOW] in windows]
        if not shared:
            return text
        ends = np.cumsum([len(paragraph) + 2 for paragraph in kept])
        hit = {n for i in shared
               for n in np.searchsorted(ends, [i, i + WINDOW - 1], "right")}
        kept = [p for n, p in enumerate(kept) if n not in hit]


def load_bytes(work, part):
    """Reads train.bin or heldout.bin as u8[bytes]."""
    return np.fromfile(os.path.join(work, part), dtype=np.uint8)


def write_corpus(deb, work):
    """Writes train.bin and heldout.bin: documents, each followed by byte 0.

    No window of WINDOW bytes of the held-out text occurs in the training text.
    """
    os.makedirs(work, exist_ok=True)
    train, held_out = [], []
    for name, document in documents(deb):
        (held_out if is_held_out(name) else train).append(document)
    unseen = set().union(*map(windows_of, held_out))
    train = [without_windows(document, unseen) for document in train]
    for part, texts in (("train.bin", train), ("heldout.bin", held_out)):
        with open(os.path.join(work, part), "wb") as out:
            out.write(b"".join(text + b"\0" for text in texts if text))
        print(f"{part}: {len(texts)} documents, "
              f"{sum(map(len, texts)) + len(texts)} bytes")


def publish(work, folder):
    """Puts the texts beside the model, the long one compressed."""
    shutil.copyfile(os.path.join(work, "heldout.bin"),
                    os.path.join(folder, "heldout.bin"))
    with open(os.path.join(work, "train.bin"), "rb") as text, \
            open(os.path.join(folder, "train.bin.xz"), "wb") as out:
        out.write(lzma.compress(text.read(), preset=9 | lzma.PRESET_EXTREME))
