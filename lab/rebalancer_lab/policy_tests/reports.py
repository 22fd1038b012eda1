"""What became of assertions, as text and as JUnit XML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rich.text import Text

from rebalancer.counting import counted
from rebalancer.planning.plan import API_VERSION, Value
from rebalancer.reporting.tables.text import Lines, Style
from rebalancer.reporting.words import words
from rebalancer_lab.policy_tests.assertions import PolicyTestReport


class PolicyTestReports(Value, frozen=True):
    """The reports of all files of one command."""

    reports: tuple[PolicyTestReport, ...]
    failed: int
    api_version: str = API_VERSION
    kind: str = "PolicyTestReports"


def policy_tests_table(tests: PolicyTestReports, style: Style = Style()) -> Text:
    """The reports as text."""
    lines = Lines(style)
    for report in tests.reports:
        if report.error:
            lines.message(f"{report.cluster}: {report.error}", 0, "red")
            continue
        lines.headline("", f"{report.file}: policy {report.policy} on {report.source}")
        for checked in report.assertions:
            mark, colour = ("  holds ", "green") if checked.holds else ("  fails ", "red")
            lines.labelled(mark, checked.assertion, label_style=colour)
            if not checked.holds:
                lines.message(checked.because, 8, "dim")
    total = sum(len(report.assertions) for report in tests.reports)
    unread = sum(bool(report.error) for report in tests.reports)
    verdict = f"{tests.failed} failed" if tests.failed else "all hold"
    verdict += f"; {counted(unread, 'cluster')} not read" if unread else ""
    lines.message(
        f"{counted(total, 'assertion')}: {verdict}", 0, "red" if tests.failed or unread else "green"
    )
    return lines.text


def junit_xml(reports: Sequence[PolicyTestReport]) -> str:
    """One test suite for each file of assertions and cluster, one test case for each assertion."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for report in reports:
        counts = f'tests="{len(report.assertions) or 1}" failures="{report.failed}"'
        counts += ' errors="1"' if report.error else ""
        name = " on ".join(filter(None, (report.file, report.cluster)))
        lines.append(f'  <testsuite name="{_text(name)}" {counts}>')
        if report.error:
            error = f'<error message="{_text(report.error)}"/>'
            lines.append(f'    <testcase classname="cluster" name="is read">{error}</testcase>')
        for checked in report.assertions:
            case = f'<testcase classname="{_text(report.policy)}" name="{_text(checked.assertion)}"'
            if checked.holds:
                lines.append(f"    {case}/>")
            else:
                lines.append(f'    {case}><failure message="{_text(checked.because)}"/></testcase>')
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _text(text: str) -> str:
    """Text for an attribute: on one line, without control characters, escaped."""
    return escape(words(text))
