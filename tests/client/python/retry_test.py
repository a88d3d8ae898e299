"""Goal: waits follow the server's hint, grow without one, and end.

Method: asks for the waits of made-up failures; no time passes.
"""

import unittest

from steadystate import (ConnectionLost, InvalidArgument, QueueFull, Retry,
                         SessionBusy)
from steadystate.retry import Backoff

LOST = ConnectionLost("no server", code="UNAVAILABLE")


class BackoffTest(unittest.TestCase):

    def test_the_servers_hint_is_waited_for(self):
        backoff = Backoff(Retry())
        error = QueueFull("full", retry_after=3.0)
        for _ in range(5):
            self.assertTrue(3.0 <= backoff.next_wait(error) <= 3.75)

    def test_waits_double_up_to_a_bound(self):
        backoff = Backoff(Retry(patience=1e9, first_wait=1.0, longest_wait=8.0))
        waits = [backoff.next_wait(LOST) for _ in range(100)]
        for wait, most in zip(waits, [1, 2, 4, 8] + [8] * 96):
            self.assertTrue(most / 2 <= wait <= most, (wait, most))

    def test_patience_ends(self):
        backoff = Backoff(Retry(patience=5.0))
        self.assertIsNone(backoff.next_wait(QueueFull("full", retry_after=6.0)))
        self.assertIsNotNone(backoff.next_wait(LOST))

    def test_attempts_end_and_success_begins_another_row(self):
        backoff = Backoff(Retry(attempts=2))
        for _ in range(2):
            self.assertIsNotNone(backoff.next_wait(LOST))
        self.assertIsNone(backoff.next_wait(LOST))
        backoff.succeed()
        self.assertIsNotNone(backoff.next_wait(LOST))

    def test_what_passes_by_itself_is_tried_again_and_nothing_else(self):
        backoff = Backoff(Retry())
        self.assertIsNone(backoff.next_wait(InvalidArgument("no")))
        self.assertIsNone(backoff.next_wait(QueueFull("no hint")))
        self.assertIsNotNone(backoff.next_wait(SessionBusy("another's")))

    def test_never_is_never(self):
        self.assertIsNone(Backoff(Retry.never()).next_wait(LOST))
        self.assertIsNone(Backoff(Retry.never()).next_wait(
            QueueFull("full", retry_after=0.0)))

    def test_values_are_looked_at(self):
        with self.assertRaisesRegex(ValueError, "patience is -1"):
            Retry(patience=-1)


if __name__ == "__main__":
    unittest.main()
