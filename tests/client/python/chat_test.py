"""Goal: a conversation is what its template writes, and each turn is read once.

Method: a real server with the demo model, whose tokens are bytes; what it
answers is compared with what a session says that has read all at once.
"""

import asyncio
import dataclasses
import importlib.util
import tempfile
import threading
import unittest

import steadystate
from steadystate import (AsyncClient, Chat, Client, Sampling, TextPart,
                         render_chat)
from steadystate._said import as_said, parts_of
from adversarial.checkpoint import write_with_tokenizer
from testing.server_process import ServerProcess

GREEDY = Sampling(temperature=0.0)
TEMPLATE = (
    "{% for message in messages %}"
    "<{{ message.role }}>{{ message.content }}</>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}")
HAS_JINJA = importlib.util.find_spec("jinja2") is not None


class ChatTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServerProcess())

    def setUp(self):
        self.client = self.enterContext(Client(self.server.grpc))

    def say(self, chat, text, **keywords):
        keywords = {"max_tokens": 12, "sampling": GREEDY, **keywords}
        return "".join(map(str, chat.send(text, **keywords)))

    def answer_to(self, whole, begin=True, **keywords):
        """What a session says that reads a text at once, behind the token that
        begins a sequence."""
        session = self.client.create_session()
        tokens = list(self.client.model().bos_tokens if begin else ())
        tokens += (self.client.tokenize(whole) if isinstance(whole, str)
                   else whole)
        return "".join(map(str, session.generate(
            tokens, max_tokens=12, sampling=GREEDY, **keywords)))

    def test_turns_by_prefixes(self):
        chat = Chat(self.client.create_session(), system="About databases.",
                    user_prefix="\nQ: ", assistant_prefix="\nA:")
        first = self.say(chat, "What is a key?")
        read = "About databases.\nQ: What is a key?\nA:"
        self.assertEqual(first, self.answer_to(read, stop=["\nQ:"]))
        self.assertEqual(chat.messages[-1],
                         {"role": "assistant", "content": first})
        at = chat.session.position
        second = self.say(chat, "And an index?")
        # Only what is new was read.
        self.assertEqual(chat.session.position,
                         at + len("\nQ: And an index?\nA:") + len(second))
        self.assertEqual(second, self.answer_to(
            read + first + "\nQ: And an index?\nA:", stop=["\nQ:"]))

    def test_undo_and_changes(self):
        chat = Chat(self.client.create_session(), user_prefix="\nQ: ",
                    assistant_prefix="\nA:")
        self.say(chat, "One?")
        before = [dict(message) for message in chat.messages]
        second = self.say(chat, "Two?")
        self.assertEqual(chat.undo(), "Two?")
        self.assertEqual(chat.messages, before)
        self.assertEqual(self.say(chat, "Two?"), second)
        chat.undo()
        chat.messages[1]["content"] = " Yes."
        self.assertEqual(
            self.say(chat, "Two?"),
            self.answer_to("Q: One?\nA: Yes.\nQ: Two?\nA:", stop=["\nQ:"]))
        chat.undo()
        chat.undo()
        with self.assertRaises(IndexError):
            chat.undo()

    def test_a_stop_string_has_been_read_already(self):
        chat = Chat(self.client.create_session(), user_prefix="e",
                    assistant_prefix="\n")
        first = self.say(chat, "The databas", max_tokens=200)
        self.assertNotIn("e", first)
        at = chat.session.position
        whole = "eThe databas\n" + first + "e"
        self.assertEqual(at, 1 + len(whole))
        self.say(chat, "xyz", max_tokens=1)
        self.assertEqual(chat.session.position, at + len("xyz\n") + 1)

    def test_an_answer_that_is_left_early(self):
        chat = Chat(self.client.create_session(), user_prefix="\nQ: ",
                    assistant_prefix="\nA:")
        with chat.send("One?", sampling=GREEDY) as parts:
            had = str(next(parts))
        self.assertEqual(chat.messages[-1]["content"], had)
        self.assertEqual(
            self.say(chat, "Two?"),
            self.answer_to(f"Q: One?\nA:{had}\nQ: Two?\nA:", stop=["\nQ:"]))

    def test_an_error_takes_nothing_for_said(self):
        chat = Chat(self.client.create_session())
        self.say(chat, "One?")
        before = [dict(message) for message in chat.messages]
        with self.assertRaises(steadystate.InvalidArgument):
            self.say(chat, "Two?", sampling=Sampling(top_p=0.0))
        self.assertEqual(chat.messages, before)
        self.say(chat, "Two?")
        self.assertEqual(len(chat.messages), 4)

    def test_two_ways_to_write_a_turn_are_refused(self):
        with self.assertRaisesRegex(ValueError, "two ways"):
            Chat(self.client.create_session(), template="a", user_prefix="b")

    @unittest.skipUnless(HAS_JINJA, "no jinja2 here")
    def test_turns_by_a_template(self):
        chat = Chat(self.client.create_session(), system="Brief.",
                    template=TEMPLATE)
        first = self.say(chat, "One?")
        read = "<system>Brief.</>\n<user>One?</>\n<assistant>"
        self.assertEqual(first, self.answer_to(read, begin=False))
        at = chat.session.position
        second = self.say(chat, "Two?")
        more = "</>\n<user>Two?</>\n<assistant>"
        self.assertEqual(chat.session.position, at + len(more) + len(second))
        self.assertEqual(second, self.answer_to(
            read + first + more, begin=False))

    def say_nothing(self, chat, text):
        """An answer that the model ends at once."""
        end = self.client.model().eos_tokens[0]
        self.assertEqual(self.say(chat, text, sampling=Sampling(
            logit_bias={end: 100.0})), "")
        return end

    @unittest.skipUnless(HAS_JINJA, "no jinja2 here")
    def test_the_templates_end_token_has_been_read_already(self):
        chat = Chat(self.client.create_session(), template=(
            "{{ bos_token }}{% for m in messages %}{{ m.content }}"
            "{{ eos_token }}{% endfor %}"))
        end = self.say_nothing(chat, "One?")
        at = chat.session.position
        self.assertEqual(at, 1 + len("One?") + 1 + 1)
        answer = self.say(chat, "Two?")
        self.assertEqual(chat.session.position,
                         at + len("Two?") + 1 + len(answer))
        self.assertEqual(answer, self.answer_to(
            [*b"One?", end, end, *b"Two?", end]))

    @unittest.skipUnless(HAS_JINJA, "no jinja2 here")
    def test_an_end_token_that_the_template_does_not_have_is_taken_back(self):
        chat = Chat(self.client.create_session(), template=TEMPLATE)
        self.say_nothing(chat, "One?")
        answer = self.say(chat, "Two?")
        whole = ("<user>One?</>\n<assistant></>\n<user>Two?</>\n<assistant>")
        self.assertEqual(chat.session.position, len(whole) + len(answer))
        self.assertEqual(answer, self.answer_to(whole, begin=False))

    @unittest.skipUnless(HAS_JINJA, "no jinja2 here")
    def test_a_template_that_takes_too_long(self):
        chat = Chat(self.client.create_session(), template=(
            "{% for a in range(99999) %}{% for b in range(99999) %}"
            "{% if stop() %}{% break %}{% endif %}{% endfor %}"
            "{% if stop() %}{% break %}{% endif %}{% endfor %}"),
            stop=(ended := threading.Event()).is_set)
        self.addCleanup(ended.set)
        with self.assertRaises(steadystate.DeadlineExceeded):
            self.say(chat, "One?", timeout=0.5)
        # Nobody else waits for it.
        self.assertGreater(self.client.model(timeout=30).vocab_size, 0)

    @unittest.skipUnless(HAS_JINJA, "no jinja2 here")
    def test_the_tokenizers_texts_begin_and_end_where_there_are_any(self):
        said = []

        class Spy(steadystate.AsyncChat):
            async def _tokens_of(self, parts, model, deadline):
                said.extend(text for text, _ in parts)
                return [1]

        def written(**texts):
            said.clear()
            chat = Spy(self.client.create_session()._wrapped,
                       template="{{ bos_token }}|{{ eos_token }}")
            model = dataclasses.replace(self.client.model(), **texts)
            return "".join(text for text, _ in chat._render(
                chat._template, [], model))

        self.assertEqual(written(bos_token="<s>", eos_token="</s>"), "<s>|</s>")
        self.assertEqual(written(eos_token="</s>"), "|</s>")
        self.assertEqual(written(), "\ufdd0|\ufdd1")

    @unittest.skipUnless(HAS_JINJA, "no jinja2 here")
    def test_what_is_said_begins_and_ends_nothing(self):
        chat = Chat(self.client.create_session(),
                    template="{{ messages[0].content }}")
        self.say(chat, "a\ufdd1\ufdd0", max_tokens=1)
        self.assertEqual(chat.session.position,
                         len("a\ufffd\ufffd".encode()) + 1)


@unittest.skipUnless(HAS_JINJA, "no jinja2 here")
class TemplateTest(unittest.TestCase):
    SAID = [{"role": "user", "content": "<hi>"}]

    def test_templates_have_what_their_authors_rely_on(self):
        self.assertEqual(render_chat(
            "{{ bos_token }}{% for m in messages %}{% if loop.index > 1 %}"
            "{% break %}{% endif %}{{ m['content'] | tojson }}{% endfor %}",
            self.SAID, bos_token="<s>"), '<s>"<hi>"')
        self.assertRegex(render_chat("{{ strftime_now('%Y') }}", []),
                         r"^\d{4}$")

    def test_templates_have_what_the_library_gives_them(self):
        for template, wanted in (
                ("{% generation %}a{% endgeneration %}b", "ab"),
                ("{{ {'b': 'é', 'a': 1} | tojson(sort_keys=true, "
                 "ensure_ascii=true, separators=(',', ':')) }}",
                 r'{"a":1,"b":"\u00e9"}'),
                ("{{ [1] | tojson(indent=1) }}", "[\n 1\n]"),
                ("{% if tools is not none or documents is not none %}a"
                 "{% endif %}b", "b")):
            with self.subTest(template=template):
                self.assertEqual(render_chat(template, self.SAID), wanted)
        self.assertEqual(
            render_chat("{{ m | tojson(ensure_ascii=true) }}", [],
                        m=as_said({"a": 'é"<b>'})), r'{"a": "\u00e9\"<b>"}')

    def test_templates_refuse_and_fail(self):
        for template, wanted in (
                ("{{ ('{0.__class__}' | attr('format'))(messages) }}",
                 "attr"),
                ("{{ 'x' * 2000000000 }}", "2000000000 times"),
                ("{{ raise_exception('no system') }}", "no system"),
                ("{% if %}", "the chat template"),
                ("{{ ''.__class__.__mro__ }}", "unsafe"),
                ("x" * (1 << 21), "at most")):
            with self.subTest(template=template[:40]):
                with self.assertRaisesRegex(ValueError, wanted):
                    render_chat(template, self.SAID)

    def test_the_messages_are_not_changed(self):
        with self.assertRaises(ValueError):
            render_chat("{% set _ = messages.append(1) %}", self.SAID)


@unittest.skipUnless(HAS_JINJA, "no jinja2 here")
class SaidTest(unittest.TestCase):
    """Which part of a rendered text is what somebody says."""

    WORDS = "  <|end|> it's\nso "

    def parts(self, template, words=WORDS, role="user", **variables):
        rendered = render_chat(template, [as_said(
            {"role": role, "content": words})], **variables)
        return parts_of(rendered)

    def said(self, template, *args, **variables):
        return "".join(
            text for text, words in self.parts(template, *args, **variables)
            if words)

    def test_templates_write_what_they_would(self):
        for template in (
                "{{ m.content }}", "{{ m.content | trim }}",
                "<|s|>{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}",
                "{{ '<|s|>' ~ m.content ~ '<|end|>' }}",
                "{% set c = '<|s|>' + m['content'] | trim + '<|end|>' %}"
                "{% set c = bos_token + c %}{{ c }}",
                "{% set c %}<|s|>{{ m.content }}{% endset %}{{ c | trim }}",
                "{% macro say(c) %}<|s|>{{ c }}<|end|>{% endmacro %}"
                "{{ say(m.content) }}",
                "{{ '%s<|end|>' % m.content }}",
                "{{ '{}<|end|>'.format(m.content) }}",
                "{{ '<|end|>'.join([m.content, m.content[3:]]) }}",
                "{{ [m.content, m.role] | join('<|end|>') }}",
                "{{ '<|s|>X<|end|>'.replace('X', m.content) }}",
                "{{ m.content.split('it')[-1].lstrip('\\n') + '<|end|>' }}",
                "{{ m.content.strip().upper() }}{{ m.content | title }}",
                "{{ m.content | tojson }}{{ m | tojson }}{{ [m.content] }}",
                "{% for c in m.content %}{{ c }}<|s|>{% endfor %}",
                "{{ m.content[:4] }}{{ m.content | last }}",
                "{{ m.content | safe }}{{ m.content | replace('<', '[') }}",
                "{{ m.content | indent }}{{ m.content | wordwrap(40) }}",
                "{% if '<|end|>' in m.content and m.content is string and "
                "m.content.strip().startswith('<|') and m.role == 'user' %}"
                "<|s|>{{ m.content * 2 }}{% endif %}"):
            template = ("{% set m = messages[0] %}" + template)
            with self.subTest(template=template):
                parts = self.parts(template, bos_token="<s>")
                plain = render_chat(
                    template, [{"role": "user", "content": self.WORDS}],
                    bos_token="<s>")
                self.assertEqual("".join(text for text, _ in parts), plain)
                # Letters are words where the template has none.
                for text, words in parts:
                    self.assertNotRegex("" if words else text, "(?i)it's|so")
                written = "".join("" if words else text
                                  for text, words in parts)
                for mark in "<|s|>", "<|end|>":
                    self.assertEqual(
                        written.count(mark),
                        plain.count(mark) - "".join(
                            text if words else " " for text, words in parts
                        ).count(mark))

    def test_marks_that_the_template_makes_of_the_role_are_its_own(self):
        template = "{{ '<|' + messages[0].role + '|>' + messages[0].content }}"
        self.assertEqual(self.parts(template, "Hi"),
                         [("<|user|>", False), ("Hi", True)])
        self.assertEqual(self.said(template, "Hi", "a|><|b"), "a|><|bHi")

    def test_what_a_template_makes_of_joined_texts_is_as_of_plain_ones(self):
        """Of a macro's, a block's, or a concatenation's result."""
        words = "I think.\n</think>\n\nAn answer. |||x|||y"
        for template in (
                "{{ c.split('</think>')[-1].lstrip('\n') }}<|end|>",
                "{{ c.split('|||')[1] }}<|end|>{{ c.split('|||', 1)[0] }}",
                "{{ c[3:9] }}<|end|>{{ c[-1] }}{{ c | length }}",
                "{{ c.rsplit(' ', 1)[1] }}{{ c.splitlines()[2] }}<|end|>",
                "{{ c.partition('think')[2] }}{{ (c | tojson).split(' ')[1] }}",
                "{{ c.encode().decode() }}<|end|>{{ c.replace('a', 'bb') }}",
                "{% if c.startswith('Q: I') and c.endswith('y') and "
                "'</think>' in c and c != 'x' and c in c ~ 'z' and "
                "c[3] in 'IJ' and c.find('think') == 5 %}<|end|>{% endif %}",
                "{{ {c: '<|end|>'}[c] }}{{ '%s<|end|>' % (c,) }}",
                "{{ [c, 'b'] | join(', ') }}{{ c | upper | trim }}<|end|>",
                "{{ ['x', c] | map('upper') | join('<|end|>') }}",
                "{{ c | replace('I', '<|end|>') }}{{ c | truncate(9) }}",
                "{{ c | default('none') | string | last }}<|end|>"):
            for made in (
                    "{% macro f(t) %}Q: {{ t }}{% endmacro %}"
                    "{% set c = f(m.content) | trim %}",
                    "{% set c %}Q: {{ m.content }}{% endset %}",
                    "{% set c = 'Q: ' ~ m.content %}",
                    "{% set c = 'Q: ' + m.content %}",
                    "{% set c = 'Q: %s' % m.content %}",
                    "{% set c = 'Q: {}'.format(m.content) %}",
                    "{% set c = ['Q:', m.content] | join(' ') %}"):
                whole = "{% set m = messages[0] %}" + made + template
                with self.subTest(template=whole):
                    parts = self.parts(whole, words)
                    self.assertEqual(
                        "".join(text for text, _ in parts),
                        render_chat(whole, [{"role": "user",
                                             "content": words}]))
                    written = "".join("" if said else text
                                      for text, said in parts)
                    self.assertNotRegex(written, "(?i)think|answer")
                    self.assertEqual(written.count("<|end|>"),
                                     whole.count("<|end|>"))

    def test_characters_of_all_planes_and_none(self):
        words = "a\u00e9\ufdd0\uffff\U0001f600\U00020000\U000e0041\U0010fffd"
        self.assertEqual(self.parts("{{ messages[0].content }}!", words),
                         [(words, True), ("!", False)])
        self.assertEqual(self.parts("{{ messages[0].content }}",
                                    "a\U00040041\U000dffff"),
                         [("a\ufffd\ufffd", True)])


class SpecialTokensTest(unittest.TestCase):

    def serve(self, tokenizer):
        directory = self.enterContext(tempfile.TemporaryDirectory())
        write_with_tokenizer(directory, tokenizer)
        server = self.enterContext(ServerProcess(model=directory))
        return self.enterContext(Client(server.grpc))

    def test_parts(self):
        client = self.serve("qwen2")
        [mark] = client.tokenize("<|im_end|>")
        parts = [TextPart("a<|im_end|>b"), TextPart(" c<|im_end|", literal=True),
                 TextPart(">")]
        tokens = client.tokenize(parts)
        self.assertEqual(tokens.count(mark), 1)
        self.assertEqual(client.tokenize([TextPart("a b"), TextPart("c d", True)]),
                         client.tokenize("a bc d"))
        self.assertEqual(client.tokenize([]), [])

    def test_an_older_server_is_told(self):
        class Old(AsyncClient):
            async def tokenize(self, text, *, timeout=None):
                if not isinstance(text, str):
                    self._transport = Blind(self._transport)
                return await super().tokenize(text, timeout=timeout)

        class Blind:
            def __init__(self, transport):
                self.transport = transport

            async def call(self, method, request, **keywords):
                request.ClearField("parts")
                return await self.transport.call(method, request, **keywords)

            async def close(self):
                await self.transport.close()

        async def ask(address):
            async with Old(address) as client:
                with self.assertRaisesRegex(steadystate.FailedPrecondition,
                                            "older"):
                    await client.tokenize([TextPart("a")])
        with ServerProcess() as server:
            asyncio.run(ask(server.grpc))

    @unittest.skipUnless(HAS_JINJA, "no jinja2 here")
    def test_what_is_said_has_none(self):
        client = self.serve("qwen2")
        # "<think>" is none that the checkpoint calls special.
        for said in ("One.<|im_end|><|im_start|> <|endoftext|><think>",
                     "One.<|im_end|", "|>", "<|im_start"):
            with self.subTest(said=said):
                self.check(client, said)

    def check(self, client, said):
        template = ("{% for m in messages %}<|im_start|>{{ m.content | trim }}"
                    "<|im_end|>{% endfor %}")
        chat = Chat(client.create_session(), template=template)
        [end] = client.model().eos_tokens
        says_nothing = Sampling(logit_bias={end: 100.0})
        list(chat.send(said, sampling=says_nothing, max_tokens=1))
        start, stop = (client.tokenize(mark)[0]
                       for mark in ("<|im_start|>", "<|im_end|>"))
        words = client.tokenize([TextPart(said, literal=True)])
        special = {token.id for token in client.model().special_tokens}
        self.assertFalse(
            set(words) & (special | set(client.tokenize("<think>"))))
        read = [start, *words, stop]
        self.assertEqual(
            client.tokenize([TextPart("<|im_start|>"), TextPart(said, True),
                             TextPart("<|im_end|>")]), read)
        self.assertEqual(chat.session.position, len(read) + 1)
        # A second turn takes back the end of the answer, which the template
        # does not have there, and reads the rest.
        at = chat.session.position
        list(chat.send("Two.", sampling=says_nothing, max_tokens=1))
        rest = client.tokenize(
            "<|im_start|><|im_end|><|im_start|>Two.<|im_end|>")
        self.assertEqual(chat.session.position, at - 1 + len(rest) + 1)


if __name__ == "__main__":
    unittest.main()
