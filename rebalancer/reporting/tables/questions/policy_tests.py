"""The assertions of policy tests, a line each, and why those fail that do."""

from __future__ import annotations

from rich.text import Text

from rebalancer.planning.plan import API_VERSION, Value
from rebalancer.questions.policy_tests import PolicyTestReport
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import counted, words


class PolicyTestReports(Value, frozen=True):
    """The reports of all files of one command."""

    reports: tuple[PolicyTestReport, ...]
    failed: int
    api_version: str = API_VERSION
    kind: str = "PolicyTestReports"


def policy_tests_table(found: PolicyTestReports, style: Style = Style()) -> Text:
    """The reports as text."""
    lines = Lines(style)
    for report in found.reports:
        lines.message(f"{report.file}: policy {report.policy} on {report.source}", 0, "bold")
        for item in report.assertions:
            mark = ("holds ", "green") if item.holds else ("fails ", "red")
            lines.add("  ", mark, words(item.assertion))
            if not item.holds:
                lines.message(item.because, 8, "dim", most=3)
    total = sum(len(report.assertions) for report in found.reports)
    verdict = f"{found.failed} failed" if found.failed else "all hold"
    lines.add((f"{counted(total, 'assertion')}: {verdict}", "red" if found.failed else "green"))
    return lines.text
