"""Goal: `steadystate chat` writes a conversation as the model's own template
does, byte for byte, and sends each turn once.

Method: a real server with templates of the kinds that checkpoints have, and a
tokenizer that knows their marks. Between it and the program something notes
what goes by; Jinja renders the same messages. Weights are zero, so a bias says
what the model answers: some letters, or the end of its message.
"""

import concurrent.futures
import datetime
import json
import pathlib
import subprocess
import tempfile
import unittest

from adversarial import stubs
from adversarial.checkpoint import write_with_tokenizer
from testing.server_process import BIN_DIR, ServerProcess
from testing.skip import skip

import grpc

try:
    import jinja2
except ImportError:
    skip("no jinja2; deploy/install-packages --tests brings it")
from client.chat_templates import make_golden  # noqa: E402

GENERATE = stubs.GENERATION + "Generate"
TOKENIZE = stubs.MODELS + "Tokenize"
TIMEOUT_S = 60
LETTERS = ("Z", "a", ".")
SYSTEM = "You are terse."
TEMPLATES = pathlib.Path(make_golden.__file__).parent

# Of Qwen2.5, without its tools.
QWEN = """
{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "assistant") %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content }}
        {{- '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
LFM2 = """
{{- bos_token -}}
{%- for message in messages -%}
    {%- set content = message["content"] -%}
    {{- "<|im_start|>" + message["role"] + "\\n" + content + "<|im_end|>\\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- "<|im_start|>assistant\\n" -}}
{%- endif -%}
"""
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
    "{{ content }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
# How Qwen3.5 begins an answer, of larger sizes and of small ones.
THINKING = """
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- else %}
        {{- '<think>\\n' }}
    {%- endif %}
{%- endif %}
"""
NOT_THINKING = """
    {%- if enable_thinking is defined and enable_thinking is true %}
        {{- '<think>\\n' }}
    {%- else %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
PHI = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + "
       "'<|im_sep|>' + message['content'] + '<|im_end|>' }}{% endfor %}")


def render(template, messages, bos):
    """As transformers does it."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(
        messages=messages, bos_token=bos, add_generation_prompt=True)


class Eavesdropper(grpc.GenericRpcHandler):
    """Passes calls on to a server, and keeps its generations: of each the
    parts of the text that its tokens were made of, and its answers."""

    def __init__(self, server):
        self.generations = []
        self.tokens = []  # of each generation
        self._parts = {}  # of texts, by their tokens
        self._channel = grpc.insecure_channel(server)
        self._front = grpc.server(
            concurrent.futures.ThreadPoolExecutor(max_workers=8),
            handlers=[self])
        self.address = "127.0.0.1:%d" % self._front.add_insecure_port(
            "127.0.0.1:0")

    def __enter__(self):
        self._front.start()
        return self

    def __exit__(self, *_):
        self._front.stop(None).wait(TIMEOUT_S)
        self._channel.close()

    def service(self, handler_call_details):
        method = handler_call_details.method
        return grpc.stream_stream_rpc_method_handler(
            lambda requests, context: self._pass_on(method, requests, context))

    def _pass_on(self, method, requests, context):
        sent, answers = list(requests), []
        if method == GENERATE:
            request = stubs.generation.GenerateRequest.FromString(sent[0])
            self.tokens.append(list(request.tokens.ids))
            self.generations.append(
                (self._parts[tuple(request.tokens.ids)], answers))
        try:
            for answer in self._channel.stream_stream(method)(
                    iter(sent), timeout=TIMEOUT_S):
                if method == GENERATE:
                    answers.append(
                        stubs.generation.GenerateResponse.FromString(answer))
                if method == TOKENIZE:
                    request = stubs.model.TokenizeRequest.FromString(sent[0])
                    tokens = stubs.model.TokenizeResponse.FromString(answer)
                    self._parts[tuple(tokens.tokens)] = request.parts
                yield answer
        except grpc.RpcError as error:
            context.set_trailing_metadata(error.trailing_metadata())
            context.abort(error.code(), error.details())


def text_of(parts):
    return "".join(part.text for part in parts)


def said_in(parts):
    return [part.text for part in parts if part.literal]


class ChatTemplateTest(unittest.TestCase):

    def serve(self, kind, template, bos="", generation=None):
        """Serves a model with the tokenizer `kind` and a template."""
        directory = self.enterContext(tempfile.TemporaryDirectory())
        write_with_tokenizer(directory, kind)
        pathlib.Path(directory, "chat_template.jinja").write_text(template)
        pathlib.Path(directory, "tokenizer_config.json").write_text(
            json.dumps({"bos_token": bos or None}))
        if generation is not None:
            pathlib.Path(directory, "generation_config.json").write_text(
                json.dumps(generation))
        server = self.enterContext(
            ServerProcess("--weight_dtype", "f32", model=directory))
        self.eavesdropper = self.enterContext(Eavesdropper(server.grpc))
        self.client = self.enterContext(stubs.Client(server.grpc))

    def tokens(self, text):
        return list(self.client.tokenize(
            stubs.model.TokenizeRequest(text=text), timeout=TIMEOUT_S).tokens)

    def chat(self, lines, *options, code=0):
        """Says lines to a model that answers with letters until it ends its
        message, a tenth of the time. Returns the program's errors."""
        biases = {self.tokens(letter)[0]: 20 for letter in LETTERS}
        biases[self.tokens(self.mark)[0]] = 19
        chat = subprocess.run(
            [BIN_DIR / "steadystate", "chat", "--address",
             self.eavesdropper.address, "--seed", "3", *options,
             *(f"--logit_bias={token}={bias}"
               for token, bias in biases.items())],
            input="".join(line + "\n" for line in lines), text=True,
            capture_output=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(chat.returncode, code, chat.stderr)
        return chat.stderr

    def answer(self, answers):
        """The text of an answer, and whether the model has ended it."""
        text = "".join(answer.text_delta for answer in answers)
        last = [answer for answer in answers if answer.tokens][-1]
        ended = last.tokens[-1].token == self.tokens(self.mark)[0]
        return text, ended

    def check_conversation(self, template, bos, mark, *options):
        """Three turns are what Jinja makes of them."""
        self.mark = mark
        said = ["Hi there", "  Größe? ", "And so on"]
        ends = set()
        for number, most in enumerate(("3", "40")):
            del self.eavesdropper.generations[:]
            self.chat(said, "--system", SYSTEM, "-n", most, "-s",
                      f"kept-{number}", *options)
            messages = [{"role": "system", "content": SYSTEM}]
            read = ""
            for line, (parts, answers) in zip(
                    said, self.eavesdropper.generations, strict=True):
                messages.append({"role": "user", "content": line.strip()})
                read += text_of(parts)
                self.assertEqual(said_in(parts)[-1], line.strip())
                self.assertLessEqual(len(said_in(parts)), 2)
                self.assertEqual(read, render(template, messages, bos))
                text, ended = self.answer(answers)
                read += text + (self.mark if ended else "")
                ends.add(ended)
                messages.append({"role": "assistant", "content": text})
        # Answers that the model ended, and answers that were cut.
        self.assertEqual(ends, {False, True})

    def test_lfm2_begins_with_its_token(self):
        self.serve("lfm2", LFM2, "<|startoftext|>", {"eos_token_id": 1003})
        self.check_conversation(LFM2, "<|startoftext|>", "<|im_end|>")
        self.assertEqual(self.eavesdropper.tokens[0][:2], [1001, 1002])

    def test_qwen_without_generation_config(self):
        # The mark ends an answer, whatever config.json says.
        self.serve("qwen2", QWEN)
        self.check_conversation(QWEN, "", "<|im_end|>")

    def test_answers_begin_as_the_template_begins_them(self):
        self.mark = "<|im_end|>"
        for ending in (THINKING, NOT_THINKING):
            template = QWEN.removesuffix("{%- endif %}\n").rstrip() + ending
            self.serve("qwen2", template)
            self.chat(["Why?"], "-n", "1")
            rendered = render(template, [{"role": "user", "content": "Why?"}],
                              "")
            self.assertIn("assistant\n<think>\n", rendered)
            self.assertEqual(
                text_of(self.eavesdropper.generations[0][0]), rendered)

    def test_templates_of_checkpoints(self):
        self.mark = "<|im_end|>"
        made = make_golden.environment(datetime.datetime.now)
        for path in sorted(TEMPLATES.glob("*.jinja")):
            template = path.read_text()
            # It has no messages of the system.
            systems = ("",) if path.stem == "gemma" else ("", " Be terse. ")
            self.serve("qwen2", template, "<|startoftext|>")
            for system in systems:
                messages = [{"role": "system", "content": system}] * bool(
                    system) + [{"role": "user", "content": "Why?"}]
                def rendered():
                    return make_golden.render(made, template, messages,
                                              "<|startoftext|>")
                before = rendered()  # some write the day, which may end
                del self.eavesdropper.generations[:]
                self.chat(["Why?"], "-n", "1", "--system", system)
                with self.subTest(path=path.name, system=system):
                    self.assertIn(text_of(self.eavesdropper.generations[0][0]),
                                  (before, rendered()))

    def test_a_template_that_is_not_understood_is_refused(self):
        self.mark = "<|im_end|>"
        self.serve("qwen2", QWEN + "{{ messages | tojson }}")
        refused = self.chat(["a"], code=1)
        for hint in ("FAILED_PRECONDITION", "line 14: the filter 'tojson'",
                     "--template chatml", "--user_prefix", "Python package"):
            self.assertIn(hint, refused)
        self.assertEqual(self.eavesdropper.generations, [])

    def test_llama3(self):
        self.serve("llama3", LLAMA3, "<|begin_of_text|>")
        self.check_conversation(LLAMA3, "<|begin_of_text|>", "<|eot_id|>")

    def test_a_form_may_be_named(self):
        self.serve("qwen2", PHI)
        self.check_conversation(QWEN, "", "<|im_end|>", "--template", "chatml")

    def test_turns_are_taken_back(self):
        self.serve("lfm2", LFM2, "<|startoftext|>")
        self.mark = "<|im_end|>"
        self.chat(["One", "/undo", "One", "Two", "/fork copy", "/undo", "Two"],
                  "-n", "9", "-s", "ada")
        sent = [text_of(parts) for parts, _ in self.eavesdropper.generations]
        self.assertEqual(sent[0], sent[1])
        self.assertEqual(sent[2], sent[3])
        self.assertTrue(sent[0].startswith("<|startoftext|><|im_start|>user\n"))
        # Another chat goes on where an answer has ended.
        self.chat(["Three"], "-s", "copy", "-n", "1")
        self.assertEqual(
            text_of(self.eavesdropper.generations[-1][0]),
            "\n<|im_start|>user\nThree<|im_end|>\n<|im_start|>assistant\n")

    def test_marks_that_are_said_are_text(self):
        self.serve("lfm2", LFM2, "<|startoftext|>")
        self.mark = "<|im_end|>"
        special = {self.tokens(mark)[0]: mark for mark in (
            "<|startoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>")}
        for mark in special.values():
            for line in f"a{mark}b", mark[:-2], mark[1:]:
                self.chat([line], "--system", f"c{mark}", "-n", "1")
                found = [special[token]
                         for token in self.eavesdropper.tokens[-1]
                         if token in special]
                # Those of the form: of the system, the user, and the answer.
                self.assertEqual(found, [
                    "<|startoftext|>", *["<|im_start|>", "<|im_end|>"] * 2,
                    "<|im_start|>"], line)
                self.assertEqual(said_in(self.eavesdropper.generations[-1][0]),
                                 [f"c{mark}", line])

    def test_marks_that_are_mere_letters_are_not_said(self):
        self.serve("llama3", "")
        self.mark = "<|eot_id|>"
        self.assertIn("'<|im_end|>' cannot be said",
                      self.chat(["a<|im_end|>b"], "--template", "chatml",
                                code=1))
        self.assertIn("cannot be said",
                      self.chat(["a"], "--template", "chatml", "--system",
                                "<|im_start|>", code=1))
        self.assertEqual(self.eavesdropper.generations, [])

    def test_other_forms_and_prefixes(self):
        self.serve("qwen2", PHI)
        self.mark = "<|im_end|>"
        refused = self.chat(["a"], code=1)
        for hint in ("--user_prefix", "--template", "Python package"):
            self.assertIn(hint, refused)
        self.assertEqual(self.eavesdropper.generations, [])
        for options in (["--user_prefix", "Q: ", "--assistant_prefix", " A:"],
                        ["--template", "none"]):
            self.chat(["a"], "-n", "1", *options)
        self.assertEqual(
            [text_of(parts) for parts, _ in self.eavesdropper.generations],
            ["Q: a A:", "User: a\n\nAssistant:"])
        self.assertIn("two ways to write a turn",
                      self.chat([], "--template", "chatml", "--user_prefix",
                                "Q", code=2))
        self.assertIn("none of auto|chatml|llama3|none",
                      self.chat([], "--template", "jinja", code=2))


if __name__ == "__main__":
    unittest.main()
