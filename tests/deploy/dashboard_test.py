"""Goal: no query of the dashboard or of the rules looks at nothing.

Method: Prometheus scrapes a real server under load, with the shipped
configuration and rules; every query is asked, as Grafana would, until it has
answered with finite numbers. An alert's expression is empty while all is well:
what is asked of it is the left side of each of its comparisons. A server that
has nothing to do and one with a single session, of which the right answers are
known, show that the numbers mean what their panels say.
"""

import math
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

from testing import dashboard as shipped
from testing.prometheus_process import INTERVAL_S, PrometheusProcess
from testing.server_process import BIN_DIR, ROOT, ServerProcess

DEADLINE_S = 60
COMPARISON = re.compile(r"\s*(?:==|!=|>=|<=|>|<)\s*")

# Those of Grafana's units that are of use here, or one of our own.
UNITS = re.compile(r"none|short|s|bytes|percentunit|reqps|dateTimeFromNow"
                   r"|suffix:[a-z/]+")

# Zero is what these show while all is well; the others must show something.
MAY_BE_ZERO = {
    "Alerts firing/A",
    "Checkpoints and kept prompts/A",
    "Checkpoints and kept prompts/B",
    "Connections refused and cut/A",
    "Connections refused and cut/B",
    "Requests begun/B",
    "Requests begun/C",
    "Requests and streams in progress/B",
    "Requests and streams in progress/D",
    "Requests and streams in progress/E",
    "Sessions created and ended/C",
    "Sessions created and ended/D",
    "Sessions that cannot be used/A",
    "States hibernated and woken/C",
    "Store: time and failures/B",
    "Tokens computed again/A",
    "Tokens per second by kind/B",
}


def balanced(text):
    return text.count("(") == text.count(")") and text.count("{") == text.count(
        "}")


def watched(expression):
    """What an alert's expression looks at: the left side of its comparisons.

    An expression is `series OP number`, several of them joined by `and`, or
    absent(series).
    """
    sides = []
    for part in re.split(r"\s+and\s+", expression.strip()):
        absent = re.fullmatch(r"absent\((.*)\)", part)
        if absent:
            sides.append(absent[1])
            continue
        pieces = COMPARISON.split(part)
        if len(pieces) != 2 or not balanced(pieces[0]):
            raise AssertionError(f"not series OP number: {part!r}")
        float(pieces[1])
        sides.append(pieces[0])
    return sides


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


class Load:
    """Puts work and errors on a server until the end of its `with` block."""

    # Both ways to generate: only Generate has times to the first token and
    # between tokens, only the other one has streams. Modest, for this machine
    # is shared with Prometheus and with other tests.
    KINDS = (("--rpc=step", "--streams=2"), ("--rpc=generate",))

    def __init__(self, address):
        self._address = address
        self._loads = []
        self._ended = threading.Event()
        self._problem = None
        self._failing = threading.Thread(target=self._fail_until_ended)

    def __enter__(self):
        for kind in self.KINDS:
            self._loads.append(subprocess.Popen(
                self._command("load", "--sessions=2", "--rate=10",
                              "--warmup=0s", "--duration=0",
                              # The store's panels are looked at, too.
                              "--durability=log", *kind),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True))
        self._loads.append(subprocess.Popen(
            self._command("session", "watch"), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        self._failing.start()
        return self

    def __exit__(self, error_type, error, traceback):
        self._ended.set()
        self._failing.join()
        for load in self._loads:
            load.terminate()
        reports = [load.communicate(timeout=DEADLINE_S)[0]
                   for load in self._loads]
        if error is None:
            self._check(reports)

    def _check(self, reports):
        for load, report in zip(self._loads, reports):
            if load.returncode != 0:
                raise AssertionError(
                    f"{load.args} ended with {load.returncode}:\n{report}")
        if self._problem is not None:
            raise self._problem

    def _command(self, *arguments):
        return [BIN_DIR / "steadystate", *arguments, "--address",
                self._address]

    def _run(self, *arguments):
        return subprocess.run(
            self._command(*arguments), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=DEADLINE_S)

    def _fail_until_ended(self):
        try:
            self._wait_for_sessions()
            self._expect_done("session", "create", "--id", "sleeper")
            while not self._ended.is_set():
                self._fail_for_two_reasons()
                self._wake_and_wait()
        except (AssertionError, subprocess.TimeoutExpired) as problem:
            self._problem = problem

    # The loads' own must not be refused.
    def _wait_for_sessions(self):
        def all_there():
            there = self._run("session", "list").stdout.splitlines()
            return len(there) == 4 or self._ended.is_set()

        if not wait_for(all_there):
            raise AssertionError("the loads have not created their sessions")

    def _expect_done(self, *arguments):
        result = self._run(*arguments)
        if result.returncode != 0:
            raise AssertionError(result.stderr)

    # A session that sleeps in the store between two tokens.
    def _wake_and_wait(self):
        def sleeps():
            shown = self._run("session", "get", "sleeper").stdout
            return "HIBERNATED" in shown or self._ended.is_set()

        self._expect_done("generate", "--session", "sleeper", "--prompt", "a",
                          "--max_tokens", "1")
        if not wait_for(sleeps):
            raise AssertionError("the session does not leave memory")

    # A session that is not there, and memory for none more. Ends sessions, too.
    def _fail_for_two_reasons(self):
        missing = self._run("session", "get", "no-such-session")
        if "SESSION_NOT_FOUND" not in missing.stderr:
            raise AssertionError(missing.stderr)
        created = []
        while True:
            name = f"extra-{len(created)}"
            result = self._run("session", "create", "--id", name)
            if result.returncode != 0:
                break
            created.append(name)
        if "STATE_BUDGET_EXHAUSTED" not in result.stderr:
            raise AssertionError(result.stderr)
        deleted = self._run("session", "delete", *created)
        if deleted.returncode != 0:
            raise AssertionError(deleted.stderr)


class Question:
    """One query, and what its answer has to be."""

    def __init__(self, name, query, nonzero=False, labels=()):
        self.name = name
        self.query = query
        self._nonzero = nonzero
        self._labels = labels
        self.answer = "not asked"

    def ask(self, prometheus):
        """True once the answer is what it has to be."""
        self.answer = prometheus.query(self.query)
        finite = [(labels, value) for labels, value in self.answer
                  if math.isfinite(value)]
        if self._nonzero and not any(value != 0 for _, value in finite):
            return False
        return bool(finite) and all(label in labels for labels, _ in finite
                                    for label in self._labels)

    def __str__(self):
        return f"  {self.name}\n    {self.query}\n    answer: {self.answer}"


def panel_questions(dashboard, values):
    return [
        Question("panel " + name,
                 shipped.substitute(target["expr"], values, INTERVAL_S),
                 nonzero=name not in MAY_BE_ZERO,
                 labels=re.findall(r"{{(\w+)}}",
                                   target.get("legendFormat", "")))
        for name, target in shipped.targets(dashboard)
    ]


def rule_questions(rules):
    questions = []
    for rule in rules:
        if rule["type"] == "recording":
            questions.append(Question(f'rule {rule["name"]}', rule["query"]))
            questions.append(Question(f'record {rule["name"]}', rule["name"]))
        else:
            questions += [Question(f'alert {rule["name"]}', side)
                          for side in watched(rule["query"])]
    return questions


def choose(prometheus, dashboard):
    """All values of each variable, in order: each may use the ones before."""
    values = {}
    for variable in shipped.variables(dashboard):
        metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)",
                                     variable["query"]["query"]).groups()
        selector = shipped.substitute(metric, values, INTERVAL_S)
        values[variable["name"]] = prometheus.get(
            f"label/{label}/values", **{"match[]": selector})
    return values


def scrape(address):
    """Every metric's name in a scrape, and every pair of label and value."""
    url = f"http://{address}/metrics"
    with urllib.request.urlopen(url, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    series = [line for line in lines if not line.startswith("#")]
    names = {re.match(r"\w+", line)[0] for line in series}
    labels = {pair for line in series
              for pair in re.findall(r'(\w+)="([^"]*)"', line)}
    return names, labels


def require_prometheus():
    if shutil.which("prometheus") is None:
        raise unittest.SkipTest(
            "prometheus is not installed: deploy/install-packages --tests "
            "does it")


class LiveTest(unittest.TestCase):
    """Everything that is asked of Prometheus has an answer."""

    @classmethod
    def setUpClass(cls):
        require_prometheus()
        cls.dashboard = shipped.load_dashboard()
        # Memory for 8 sessions of the demo model, which is soon spent.
        store = cls.enterClassContext(tempfile.TemporaryDirectory())
        server = cls.enterClassContext(
            ServerProcess("--state_memory", "1MiB", "--store",
                          f"{store}/store", "--store_budget", "3MiB",
                          "--hibernate_after", "1s"))
        cls.names, cls.labels = scrape(server.metrics)
        cls.prometheus = cls.enterClassContext(
            PrometheusProcess(server.metrics))
        cls.enterClassContext(Load(server.grpc))

    def rules(self):
        groups = self.prometheus.get("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def test_every_query_has_finite_answers(self):
        values = {}

        def variables_have_values():
            values.update(choose(self.prometheus, self.dashboard))
            return all(values.values())

        self.assertTrue(wait_for(variables_have_values),
                        f"a variable without values: {values}")
        pending = panel_questions(self.dashboard, values) + rule_questions(
            self.rules())
        self.assertGreater(len(pending), 80)

        def all_answered():
            pending[:] = [question for question in pending
                          if not question.ask(self.prometheus)]
            return not pending

        wait_for(all_answered)
        self.assertFalse(
            pending, "without finite, and where so asked nonzero, answers "
            f"with the legend's labels in {DEADLINE_S} s:\n" +
            "\n".join(map(str, pending)))

    def test_no_rule_failed_to_evaluate(self):
        self.assertTrue(
            wait_for(lambda: all(rule["health"] != "unknown"
                                 for rule in self.rules())))
        self.assertEqual([], [(rule["name"], rule.get("lastError"))
                              for rule in self.rules()
                              if rule["health"] != "ok"])

    def expressions(self):
        return [target["expr"]
                for _, target in shipped.targets(self.dashboard)
                ] + [rule["query"] for rule in self.rules()]

    def test_every_name_is_a_metric_of_the_server_or_a_record(self):
        recorded = {rule["name"] for rule in self.rules()
                    if rule["type"] == "recording"}
        known = self.names | recorded | {"up", "ALERTS"}
        for expression in self.expressions():
            names = shipped.metric_names(expression)
            self.assertTrue(names, f"no metric found in: {expression}")
            self.assertLessEqual(names, known, expression)

    # One of several reasons that is misspelt would not make a query empty.
    def test_every_label_value_is_there_before_anything_happens(self):
        checked = set()
        for expression in self.expressions():
            values = shipped.matched_values(expression)
            self.assertLessEqual(values, self.labels, expression)
            checked |= values
        self.assertIn(("reason", "INTERNAL"), checked)

    def test_every_alert_says_what_is_wrong_and_what_to_do(self):
        for rule in self.rules():
            if rule["type"] != "alerting":
                continue
            with self.subTest(rule["name"]):
                self.assertIn(rule["labels"].get("severity"),
                              ("page", "ticket"))
                self.assertEqual({"summary", "description", "action"},
                                 set(rule["annotations"]))


class QuietTest(unittest.TestCase):
    """What is shown of a server with less to do."""

    def setUp(self):
        require_prometheus()
        self.dashboard = shipped.load_dashboard()
        # A session of the demo model takes 116 KiB: 8.8 fit.
        self.server = self.enterContext(
            ServerProcess("--state_memory", "1MiB"))
        self.prometheus = self.enterContext(
            PrometheusProcess(self.server.metrics))

    def panel(self, title):
        panel, = (panel for panel in self.dashboard["panels"]
                  if panel["title"] == title)
        return panel

    def values(self, panel):
        """What each of a panel's queries answers, less the labels."""
        chosen = choose(self.prometheus, self.dashboard)
        if not all(chosen.values()):
            return [[] for _ in panel["targets"]]
        return [[value for _, value in self.prometheus.query(
            shipped.substitute(target["expr"], chosen, INTERVAL_S))]
                for target in panel["targets"]]

    def test_numbers_of_an_idle_server(self):
        """Each is a number, or the panel says why there is none."""
        records = ("instance_model:steadystate_time_to_first_token_seconds"
                   ":p99_rate5m",
                   "instance_model:steadystate_inter_token_latency_seconds"
                   ":p99_rate5m",
                   "instance_model:steadystate_tokens:rate1m",
                   "job_model:steadystate_failures:ratio_rate1h")
        self.assertTrue(wait_for(
            lambda: all(map(self.prometheus.query, records))))
        without = set()
        for panel in self.dashboard["panels"]:
            if panel["type"] == "stat":
                with self.subTest(panel["title"]):
                    values, = self.values(panel)
                    self.assertTrue(all(map(math.isfinite, values)), values)
                    if not values:
                        without.add(panel["title"])
                        self.assertIn("noValue",
                                      panel["fieldConfig"]["defaults"])
        self.assertEqual(without, {"First token, p99", "Between tokens, p99",
                                   "Requests failed, 1 h"})

    def test_sessions_that_still_fit_are_whole(self):
        panel = self.panel("Sessions that still fit")
        self.assertTrue(wait_for(lambda: all(self.values(panel))))
        self.assertEqual(self.values(panel), [[7]])

    def test_batches_of_one_session_and_one_token(self):
        """The histogram's quantiles would lie between 0 and 1."""
        load = subprocess.Popen(
            [BIN_DIR / "steadystate", "load", "--address", self.server.grpc,
             "--rpc=generate", "--sessions=1", "--rate=5", "--prompt_tokens=1",
             "--generate_tokens=4", "--warmup=0s", "--duration=0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            for title in "Batch size", "Rows of a batch":
                self.check_all_are_one(self.panel(title))
        finally:
            load.terminate()
            status = load.wait(DEADLINE_S)
        self.assertEqual(status, 0)

    def check_all_are_one(self, panel):
        answers = []

        def all_finite():
            answers[:] = self.values(panel)
            return all(any(map(math.isfinite, values)) for values in answers)

        self.assertTrue(wait_for(all_finite), answers)
        self.assertEqual(answers, [[1], [1], [1]], panel["title"])


class DashboardTest(unittest.TestCase):
    """What can be said of the dashboard without Grafana."""

    @classmethod
    def setUpClass(cls):
        cls.dashboard = shipped.load_dashboard()
        cls.rules = (ROOT / "deploy/prometheus/rules.yml").read_text()

    def test_file_says_which_grafana_and_which_datasource(self):
        self.assertEqual(self.dashboard["schemaVersion"], 39)
        self.assertEqual(self.dashboard["uid"], "steadystate")
        self.assertEqual(self.dashboard["refresh"], "5s")
        kinds = {variable["name"]: variable["type"]
                 for variable in self.dashboard["templating"]["list"]}
        self.assertEqual(kinds, {"datasource": "datasource", "model": "query",
                                 "instance": "query"})

    def test_every_panel_has_unit_description_and_queries(self):
        for panel in shipped.panels_with_queries(self.dashboard):
            with self.subTest(panel["title"]):
                unit = panel["fieldConfig"]["defaults"]["unit"]
                self.assertTrue(UNITS.fullmatch(unit), unit)
                self.assertGreater(len(panel["description"]), 20)
                self.assertEqual(panel["datasource"],
                                 {"type": "prometheus", "uid": "${datasource}"})
                refs = [target["refId"] for target in panel["targets"]]
                self.assertEqual(len(refs), len(set(refs)))
                self.assertTrue(refs)
                for target in panel["targets"]:
                    if panel["type"] == "timeseries":
                        self.assertTrue(target["legendFormat"])

    def test_ids_and_titles_are_unique(self):
        for key in "id", "title":
            values = [panel[key] for panel in self.dashboard["panels"]]
            self.assertEqual(len(values), len(set(values)), values)

    def test_panels_lie_within_the_grid_and_not_on_each_other(self):
        taken = {}
        for panel in self.dashboard["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    other = taken.setdefault((x, y), panel["title"])
                    self.assertEqual(other, panel["title"], "overlap")

    def test_every_selector_follows_the_variables(self):
        for name, target in shipped.targets(self.dashboard):
            selectors = re.findall(r"{([^{}]*)}", target["expr"])
            self.assertTrue(selectors, name)
            for selector in selectors:
                if "alertname" not in selector:
                    self.assertRegex(selector, r"\$(instance|model)\b", name)

    def test_thresholds_begin_without_a_bound_and_rise(self):
        for panel in shipped.panels_with_queries(self.dashboard):
            thresholds = panel["fieldConfig"]["defaults"].get("thresholds")
            if thresholds:
                first, *others = [step["value"] for step in thresholds["steps"]]
                self.assertIsNone(first, panel["title"])
                self.assertEqual(others, sorted(others), panel["title"])

    def test_alerts_and_flags_that_are_named_exist(self):
        alerts = set(re.findall(r"- alert: (\w+)", self.rules))
        help_text = subprocess.run(
            [BIN_DIR / "steadystate-server", "--help"], text=True, timeout=30,
            capture_output=True, check=True).stdout
        flags = set(re.findall(r"^  (?:-\w, )?--(\w+)", help_text, re.MULTILINE))
        texts = self.rules + shipped.DASHBOARD.read_text()
        self.assertLessEqual(set(re.findall(r"\bSteadystate[A-Z]\w+", texts)),
                             alerts)
        named = set(re.findall(r"--(\w+)", texts))
        self.assertTrue(named)
        self.assertLessEqual(named, flags)

    def test_the_alert_for_slow_tokens_names_what_holds_them_up(self):
        alert = self.rules[self.rules.index("- alert: SteadystateItlP99High"):]
        flag, = set(re.findall(r"--(\w+)", alert.split("- alert:")[1]))
        help_text = subprocess.run(
            [BIN_DIR / "steadystate-server", "--help"], text=True, timeout=30,
            capture_output=True, check=True).stdout
        said = re.split(r"\n  (?:-\w, )?--", help_text)
        about, = (text for text in said if text.startswith(flag + " "))
        self.assertIn("those who generate token by token",
                      " ".join(about.split()))

    def test_grafana_takes_rates_over_the_scrape_interval(self):
        provisioned = (ROOT / "deploy/grafana/provisioning/datasources/"
                       "prometheus.yml").read_text()
        config = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
        self.assertEqual(
            re.findall(r"timeInterval: (\w+)", provisioned),
            re.findall(r"scrape_interval: (\w+)", config))


class WatchedTest(unittest.TestCase):
    """The test's own reading of alerts."""

    def test_finds_the_left_sides(self):
        self.assertEqual(watched('up{job="a"} == 0'), ['up{job="a"}'])
        self.assertEqual(watched("a:b > 1\n  and c:d\n  <= 0.5"),
                         ["a:b", "c:d"])
        self.assertEqual(watched("absent(x)"), ["x"])

    def test_refuses_what_it_cannot_take_apart(self):
        refusals = AssertionError, ValueError
        for expression in "a > b", "a", "a > 1 < 2", "(a > 1) > 2":
            with self.assertRaises(refusals, msg=expression):
                watched(expression)


if __name__ == "__main__":
    program = unittest.main(verbosity=2, exit=False)
    skipped = [reason for _, reason in program.result.skipped]
    if program.result.wasSuccessful() and skipped:
        print(f"skipped in part: {skipped[0]}")
        sys.exit(77)
    sys.exit(not program.result.wasSuccessful())
