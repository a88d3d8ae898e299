"""A TestCase for asyncio whose tests end, also where something hangs."""

import asyncio
import logging
import unittest

TIMEOUT_S = 60

# Tests that start servers keep their event loops waiting, and may.
logging.getLogger("asyncio").setLevel(logging.ERROR)


class TimedCase(unittest.IsolatedAsyncioTestCase):
    """Fails a test that takes too long where it waits."""

    def _callTestMethod(self, method):
        async def timed():
            async with asyncio.timeout(TIMEOUT_S):
                await method()

        super()._callTestMethod(timed)
