"""Goal: every error says what, why and what to do, by its class.

Method: statuses as the server makes them, made here with the package's own
messages; those of a real server are in aio_test.py.
"""

import pickle
import unittest

import steadystate
from steadystate import _wire, errors


def status(code, reason, metadata=(), retry_delay_ms=None):
    made = _wire.rpc.Status(code=code, message="so it is")
    info = _wire.rpc.ErrorInfo(reason=reason, domain="steadystate",
                               metadata=dict(metadata))
    made.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo",
                     value=info.SerializeToString())
    if retry_delay_ms is not None:
        retry = _wire.rpc.RetryInfo()
        retry.retry_delay.FromMilliseconds(retry_delay_ms)
        made.details.add(type_url="type.googleapis.com/google.rpc.RetryInfo",
                         value=retry.SerializeToString())
    return made


class ErrorsTest(unittest.TestCase):

    def test_everything_that_came_is_there(self):
        error = errors.from_status(status(
            10, "POSITION_MISMATCH", {"position": "7"}, retry_delay_ms=1500))
        self.assertIs(type(error), steadystate.PositionMismatch)
        self.assertEqual((error.code, error.reason, error.message),
                         ("ABORTED", "POSITION_MISMATCH", "so it is"))
        self.assertEqual(error.metadata, {"position": "7"})
        self.assertEqual(error.position, 7)
        self.assertEqual(error.retry_after, 1.5)
        self.assertEqual(str(error), "ABORTED POSITION_MISMATCH: so it is")

    def test_reasons_of_the_table_are_reasons_of_the_protos(self):
        known = _wire.enum_values("steadystate.v1.ErrorReason")
        self.assertEqual(set(errors._BY_REASON) - set(known), set())

    def test_groups(self):
        for reason, code, group in (
                ("SESSION_EXPIRED", 5, steadystate.SessionNotFound),
                ("CHECKPOINT_NOT_FOUND", 5, steadystate.NotFound),
                ("DRAINING", 14, steadystate.Unavailable),
                ("QUEUE_FULL", 8, steadystate.ResourceExhausted),
                ("TOKEN_OUT_OF_RANGE", 3, steadystate.InvalidArgument),
                ("POSITION_OUT_OF_REACH", 11, steadystate.OutOfRange)):
            with self.subTest(reason=reason):
                self.assertIsInstance(errors.from_status(status(code, reason)),
                                      group)

    def test_a_reason_that_is_not_known_goes_by_its_code(self):
        error = errors.from_status(status(9, "SOMETHING_NEW"))
        self.assertIs(type(error), steadystate.FailedPrecondition)
        self.assertEqual(error.reason, "SOMETHING_NEW")

    def test_a_status_without_details(self):
        error = errors.from_status(_wire.rpc.Status(code=13, message="oh"))
        self.assertIs(type(error), steadystate.InternalError)
        self.assertEqual(str(error), "INTERNAL: oh")
        self.assertIsNone(error.retry_after)
        self.assertIsNone(error.position)

    def test_errors_go_from_process_to_process(self):
        error = errors.from_status(status(8, "QUEUE_FULL", {"bounds": "32"},
                                          retry_delay_ms=10))
        copy = pickle.loads(pickle.dumps(error))
        self.assertIs(type(copy), type(error))
        self.assertEqual(vars(copy), vars(error))


if __name__ == "__main__":
    unittest.main()
