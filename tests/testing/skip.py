"""How a test script says that it cannot run here."""

import sys

SKIPPED = 77  # what ctest takes for it


def skip(sentence):
    """Ends the script as skipped, with a sentence that says what is missing."""
    print(f"skipped: {sentence}", flush=True)
    sys.exit(SKIPPED)
