"""What holds for all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A property recorded under this name is a line of the summary at the end of all tests, whoever ran the test.
SUMMARY = "summary"

# A timed assertion is a defect: how long an example takes depends on what else the machine does.
settings.register_profile("rebalancer", deadline=None)
settings.load_profile("rebalancer")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines that tests recorded for the summary."""
    reports = terminalreporter.stats.get("passed", [])
    lines = [value for report in reports for name, value in report.user_properties if name == SUMMARY]
    for line in sorted(map(str, lines)):
        terminalreporter.write_line(line)
