"""Goal: README's commands of grpcurl and ghz print what it says.

Method: carries them out, in order, against a real server.
"""

import os
import unittest

from clients.peers import find_program
from readme import transcript
from readme.groups import commands_in
from testing.server_process import ServerProcess

PROGRAMS = [find_program(name) for name in ("grpcurl", "ghz")]


class ToolsTest(unittest.TestCase):

    def test_commands(self):
        commands = commands_in("tools")
        self.assertGreater(len(commands), 2)
        folders = [os.path.dirname(program) for program in PROGRAMS]
        environment = dict(os.environ, PATH=os.pathsep.join(
            [*folders, os.environ["PATH"]]))
        with ServerProcess() as server:
            for result in transcript.run_commands(commands, server,
                                                  environment):
                with self.subTest(line=result.command.line):
                    self.assertEqual(result.status, 0, result.output)
                    self.assertTrue(transcript.matches(result.command.expected,
                                                       result.output),
                                    result.output)


if __name__ == "__main__":
    unittest.main()
