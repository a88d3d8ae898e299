"""Lets the peers import what the tests share: import this first."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parents[1]
ROOT = TESTS.parent

for folder in (TESTS, TESTS / "reference"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
