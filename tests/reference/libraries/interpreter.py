"""Triton kernels on a CPU: import this before any library that has some.

With TRITON_INTERPRET=1 Triton interprets its kernels with NumPy, program by
program: slow, but the library's own kernels, in float32. Triton's autotuner
would time all its configurations on a device; it takes the first here, which
changes no result beyond the order of sums.
"""

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

from triton.runtime import autotuner  # noqa: E402


def take_first_configuration():
    init = autotuner.Autotuner.__init__

    def init_with_one(self, *arguments, **options):
        init(self, *arguments, **options)
        self.configs = self.configs[:1]

    autotuner.Autotuner.__init__ = init_with_one


take_first_configuration()
