"""The shipped Grafana dashboard, and what Grafana makes of its queries."""

import json
import re

from testing.server_process import ROOT

DASHBOARD = ROOT / "deploy/grafana/steadystate.json"


def load_dashboard():
    return json.loads(DASHBOARD.read_text())


def panels_with_queries(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def targets(dashboard):
    """Every query of the dashboard: [("panel title/refId", target)]."""
    return [(f'{panel["title"]}/{target["refId"]}', target)
            for panel in panels_with_queries(dashboard)
            for target in panel["targets"]]


def variables(dashboard):
    """The variables that are filled by queries, in their order."""
    return [variable for variable in dashboard["templating"]["list"]
            if variable["type"] == "query"]


def substitute(expression, values, scrape_interval_s):
    """The query that Grafana sends for an expression.

    values are those chosen of each variable. Several are joined to a regular
    expression, quoted once for it and once for PromQL's string.
    """
    for name, chosen in values.items():
        quoted = [re.sub(r"([\\^$*+?.()|{}\[\]])", r"\\\\\1", value)
                  for value in chosen]
        text = quoted[0] if len(quoted) == 1 else "(" + "|".join(quoted) + ")"
        expression = expression.replace("$" + name, text)
    # At the finest resolution, that of the scrapes.
    rate_interval_ms = round(4 * scrape_interval_s * 1000)
    expression = expression.replace("$__rate_interval", f"{rate_interval_ms}ms")
    if "$" in expression:
        raise AssertionError(f"nothing is known to replace in: {expression}")
    return expression


def metric_names(expression):
    """Names of the metrics and recorded series in a PromQL expression."""
    text = re.sub(r"\{[^{}]*\}|\[[^\[\]]*\]", " ", expression)
    text = re.sub(r"\b(by|on|group_left)\s*(\([^()]*\))?", " ", text)
    words = re.findall(r"\b[a-zA-Z_][a-zA-Z0-9_:]*\b(?!\s*\()", text)
    return set(words) - {"and", "or"}


def matched_values(expression):
    """The label values that an expression's selectors name: {(label, value)}.

    Those that come from a variable, or from Prometheus itself, are left out.
    """
    found = set()
    matchers = re.findall(r'(\w+)(?:=|=~|!=|!~)"([^"]*)"', expression)
    for label, value in matchers:
        if "$" not in value and label not in ("job", "alertname", "alertstate"):
            found.update((label, one) for one in value.split("|"))
    return found
