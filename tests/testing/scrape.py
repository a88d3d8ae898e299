"""Reads a server's metrics."""

import re
import time
import urllib.request


def scrape(address):
    """All samples of http://ADDRESS/metrics.

    Returns {name: {frozenset of (label, value): number}}, without the label
    `model`, which is the same everywhere.
    """
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
        text = page.read().decode()
    samples = {}
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        name, labels, value = re.fullmatch(
            r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
        key = frozenset(pair for pair in pairs if pair[0] != "model")
        samples.setdefault(name, {})[key] = float(value)
    return samples


def value(address, name, **labels):
    """One sample, 0 if there is none with exactly these labels."""
    return scrape(address).get(name, {}).get(frozenset(labels.items()), 0)


def wait_for_value(address, wanted, name, timeout_s=60, **labels):
    """Waits until a sample is `wanted`: a call is counted when it has ended,
    which its client may see first. Returns the last value that was seen."""
    deadline = time.monotonic() + timeout_s
    while True:
        seen = value(address, name, **labels)
        if seen == wanted or time.monotonic() > deadline:
            return seen
        time.sleep(0.02)
