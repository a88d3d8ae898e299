"""Goal: what is shipped has the guards that Debian's own programs have.

Method: reads the programs and the module as ELF, and how each of their sources
was compiled. That the reading sees a lack is tested on a program that is
compiled without any guard.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from testing.elf import missing_guards

BIN_DIR = pathlib.Path(os.environ["STEADYSTATE_BIN_DIR"])


class HardeningTest(unittest.TestCase):

    def test_programs_have_every_guard(self):
        for name in ("steadystate-server", "steadystate"):
            self.assertEqual(missing_guards((BIN_DIR / name).read_bytes()),
                             set(), name)

    def test_module_has_every_guard(self):
        # It calls no function that FORTIFY would replace.
        path = BIN_DIR / "steadystate-sentencepiece.so"
        self.assertLessEqual(missing_guards(path.read_bytes()), {"FORTIFY"})

    def test_every_source_is_compiled_with_them(self):
        commands = json.loads(
            (BIN_DIR.parent / "compile_commands.json").read_text())
        tests = f"{pathlib.Path(__file__).resolve().parents[1]}/"
        shipped = {entry["file"]: entry["command"] for entry in commands
                   if not entry["file"].startswith(tests)}
        # The generated code, too, which reads what clients send.
        self.assertTrue(any("generation.pb.cc" in file for file in shipped))
        for file, command in shipped.items():
            for flag in ("-fstack-protector-strong", "-fstack-clash-protection",
                         r"-D_FORTIFY_SOURCE=[23]", "-O[23]"):
                self.assertRegex(command, rf"(^|\s){flag}(\s|$)", file)

    @unittest.skipUnless(shutil.which("cc"), "no compiler")
    def test_a_program_without_guards_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bare"
            subprocess.run(
                ["cc", "-x", "c", "-", "-o", str(path), "-O0", "-no-pie",
                 "-fno-pie", "-fno-stack-protector", "-U_FORTIFY_SOURCE",
                 "-Wl,-z,norelro", "-Wl,-z,lazy", "-Wl,-z,execstack"],
                input=b"int main(void) { return 0; }", check=True)
            self.assertEqual(
                missing_guards(path.read_bytes()),
                {"stack protector", "FORTIFY", "BIND_NOW", "RELRO",
                 "no code on the stack", "any address"})


if __name__ == "__main__":
    unittest.main()
