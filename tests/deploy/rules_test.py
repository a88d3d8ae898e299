"""Goal: the rules of Prometheus are valid, and each alert is tested.

Method: promtool checks the configuration and runs the rules' unit tests, as
they are and with one more label on every series, as targets have that are
labelled by their operator. Another case sees that the tests name every alert
once firing and once quiet, and that deploy/README.md names it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from testing.prometheus_process import CONFIG_DIR
from testing.server_process import ROOT


def promtool(*arguments):
    result = subprocess.run(["promtool", *arguments], cwd=CONFIG_DIR, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return result.returncode, result.stdout


def with_one_more_label(tests):
    """The unit tests, but every series has env="prod", and alerts may."""
    changes = (
        (r"(?m)^  - rules.yml$", f"  - {CONFIG_DIR / 'rules.yml'}"),
        (r"(?m)^( +- series: \w+{)", r'\1env="prod", '),
        (r"(?m)^( +- expr:) (ALERTS{.*})$", r"\1 max without (env) (\2)"),
        (r"(?m)^( +- labels:) ALERTS({.*})$", r"\1 '\2'"),
        (r"(?m)^( +)- exp_labels:\n", r"\g<0>\1    env: prod\n"),
    )
    for pattern, replacement in changes:
        tests, count = re.subn(pattern, replacement, tests)
        if count == 0:
            raise AssertionError(f"nothing to change: {pattern}")
    return tests


class RulesTest(unittest.TestCase):

    def test_promtool_accepts_configuration_and_rules(self):
        code, output = promtool("check", "config", "prometheus.yml")
        self.assertEqual(code, 0, output)
        self.assertIn("1 rule files found", output)

    def test_unit_tests_of_the_rules_pass(self):
        code, output = promtool("test", "rules", "rules_test.yml")
        self.assertEqual(code, 0, output)

    def test_a_label_of_the_targets_own_changes_nothing(self):
        tests = (CONFIG_DIR / "rules_test.yml").read_text()
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write(with_one_more_label(tests))
            file.flush()
            code, output = promtool("test", "rules", file.name)
        self.assertEqual(code, 0, output)

    def test_each_alert_is_documented_and_tested_firing_and_quiet(self):
        alerts = re.findall(r"- alert: (\w+)",
                            (CONFIG_DIR / "rules.yml").read_text())
        self.assertGreater(len(alerts), 10)
        self.assertEqual(len(alerts), len(set(alerts)))
        cases = re.split(r"\n      - (?=expr|alertname)",
                         (CONFIG_DIR / "rules_test.yml").read_text())
        firing, quiet = set(), set()
        for case in cases:
            name = re.search(r'alertname(?:="|: )(\w+)', case)
            if name and re.search(r"exp_(samples|alerts): \[\]", case):
                quiet.add(name[1])
            elif name:
                firing.add(name[1])
        documented = re.findall(r"^\| (Steadystate\w+) \|",
                                (ROOT / "deploy/README.md").read_text(),
                                re.MULTILINE)
        self.assertEqual(documented, alerts)
        self.assertEqual(firing, set(alerts))
        self.assertEqual(quiet, set(alerts))


if __name__ == "__main__":
    if shutil.which("promtool") is None:
        print("skipped: promtool is not installed: deploy/install-packages "
              "--tests does it")
        sys.exit(77)
    unittest.main(verbosity=2)
