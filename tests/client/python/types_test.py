"""Goal: messages and the package's classes say the same.

Method: messages made here, read and written; every field of a class must be one
of its message, so that none is left behind when the protos change.
"""

import dataclasses
import datetime
import unittest

import steadystate
from steadystate import _wire, types
from steadystate._generation import request_of

MESSAGES = {
    "Session": steadystate.SessionInfo,
    "Checkpoint": steadystate.CheckpointInfo,
    "Model": steadystate.ModelInfo,
    "TokenLogprob": steadystate.TokenLogprob,
    "StepResponse": steadystate.StepResult,
    "Sampling": steadystate.Sampling,
    "GenerateResponse.GeneratedToken": steadystate.GeneratedToken,
    "GenerateResponse.Usage": steadystate.Usage,
    "ScoreResponse.ScoredToken": steadystate.ScoredToken,
}
# Of servers that are newer than these protos may be.
LATER = {("Model", "chat_template")}


class TypesTest(unittest.TestCase):

    def test_classes_have_fields_of_their_messages(self):
        for name, cls in MESSAGES.items():
            known = _wire.message_class(
                f"steadystate.v1.{name}").DESCRIPTOR.fields_by_name
            for field in dataclasses.fields(cls):
                if (name, field.name) not in LATER:
                    self.assertIn(field.name, known, name)

    def test_a_session_is_read(self):
        message = _wire.v1.Session(name="sessions/a", position=7,
                                   state="HIBERNATED", labels={"k": "v"})
        message.ttl.FromSeconds(90)
        message.create_time.FromSeconds(1)
        found = types.read(steadystate.SessionInfo, message)
        self.assertEqual(found.name, "sessions/a")
        self.assertEqual(found.position, 7)
        self.assertEqual(found.state, "HIBERNATED")
        self.assertEqual(found.ttl, datetime.timedelta(seconds=90))
        self.assertEqual(found.create_time, datetime.datetime(
            1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc))
        self.assertIsNone(found.expire_time)
        self.assertEqual(found.labels, {"k": "v"})

    def test_absence_is_none_and_zero_is_zero(self):
        step = _wire.v1.StepResponse(position=1)
        self.assertIsNone(types.read(steadystate.StepResult,
                                     step).sampled_token)
        step.sampled_token = 0
        step.top_logprobs.add(token=3, logprob=-0.5)
        found = types.read(steadystate.StepResult, step)
        self.assertEqual(found.sampled_token, 0)
        self.assertEqual(found.top_logprobs,
                         (steadystate.TokenLogprob(3, -0.5),))

    def test_sampling_sets_what_is_given_and_nothing_else(self):
        message = _wire.v1.Sampling()
        steadystate.Sampling(temperature=0.0, seed=0,
                             logit_bias={5: -100.0}).write(message)
        self.assertEqual({field.name for field, _ in message.ListFields()},
                         {"temperature", "seed", "logit_bias"})

    def test_a_durability_that_there_is_not(self):
        for wrong in ("FOREVER", 3):
            with self.assertRaisesRegex(ValueError, f"{wrong!r}, one of NONE"):
                types.write_session(_wire.v1.Session(), durability=wrong)

    def test_names_of_enums_may_be_in_lower_case(self):
        session = _wire.v1.Session()
        types.write_session(session, durability="log")
        self.assertEqual(types.read(steadystate.SessionInfo,
                                    session).durability, "LOG")

    def test_a_single_stop_text_is_no_sequence_of_letters(self):
        def asked(**given):
            return request_of(**{
                "prompt": None, "max_tokens": None, "sampling": None,
                "stop": (), "stop_tokens": (), "ignore_eos": False,
                "logprobs": None, **given})

        self.assertEqual(asked(stop="END").stop, ["END"])
        self.assertEqual(asked(stop=("a", "b")).stop, ["a", "b"])
        self.assertEqual(asked(stop_tokens={3}).stop_tokens, [3])
        for given, said in (
                ({"stop": 3}, "stop is 3, a str, or a sequence"),
                ({"stop": [b"x"]}, "stop is .b'x'., a str, or a sequence"),
                ({"stop_tokens": 3}, "stop_tokens is 3, a sequence"),
                ({"stop_tokens": "x"}, "stop_tokens is 'x', a sequence"),
                ({"prompt": 7}, "the prompt is 7, a sequence of token ids"),
                ({"max_tokens": -1}, "max_tokens is -1, .* 0 to 184467440737"),
                ({"max_tokens": "9"}, "max_tokens is '9', a whole number"),
                ({"logprobs": -1}, "logprobs is -1, .* of 0 to 4294967295"),
                ({"sampling": 0.7}, r"sampling is 0.7, .*temperature=0.7\)"),
                ({"sampling": {"temperature": 1}}, "sampling is {.*a Sampling"),
                ({"sampling": steadystate.Sampling(seed=-1)}, "seed is -1, "),
                ({"sampling": steadystate.Sampling(logit_bias={"a": 1})},
                 "logit_bias is {'a': 1}, a mapping of token ids")):
            with self.subTest(given=given), self.assertRaisesRegex(
                    (TypeError, ValueError), said):
                asked(**given)

    def test_labels_are_texts(self):
        for wrong in ({"k": 1}, 3, ["k"]):
            with self.assertRaisesRegex(TypeError, "labels is .* str to str"):
                types.write_session(_wire.v1.Session(), labels=wrong)

    def test_a_ttl_that_is_no_number_of_seconds(self):
        message = _wire.v1.Session()
        for wrong in ("10m", datetime.timedelta(minutes=10)):
            with self.assertRaisesRegex(TypeError, "ttl is .* of seconds"):
                types.write_session(message, ttl=wrong)
        for wrong in (float("inf"), float("nan")):
            with self.assertRaisesRegex(ValueError, "ttl is .* of seconds"):
                types.write_session(message, ttl=wrong)
        types.write_session(message, ttl=1.5)
        self.assertEqual(message.ttl.ToTimedelta(),
                         datetime.timedelta(seconds=1.5))


if __name__ == "__main__":
    unittest.main()
