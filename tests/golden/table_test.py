"""server/model/mixers/README.md tells the sizes of sessions that a server tells."""

import sys

try:
    import numpy  # noqa: F401  the checkpoints are made by the reference
except ImportError:
    from testing.skip import skip

    skip("NumPy is not installed")

import table

if __name__ == "__main__":
    sys.exit(table.check())
