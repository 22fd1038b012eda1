"""Policy tests as JUnit XML, which CI systems show beside their other tests."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rebalancer.questions.policy_tests import PolicyTestReport
from rebalancer.reporting.words import words


def junit_xml(reports: Sequence[PolicyTestReport]) -> str:
    """One test suite for each file of assertions, one test case for each assertion."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for report in reports:
        counts = f'tests="{len(report.assertions)}" failures="{report.failed}"'
        lines.append(f'  <testsuite name="{_text(report.file)}" {counts}>')
        for item in report.assertions:
            case = f'<testcase classname="{_text(report.policy)}" name="{_text(item.assertion)}"'
            if item.holds:
                lines.append(f"    {case}/>")
            else:
                lines.append(f'    {case}><failure message="{_text(item.because)}"/></testcase>')
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _text(text: str) -> str:
    """Text for an attribute: on one line, without control characters, escaped."""
    return escape(words(text))
