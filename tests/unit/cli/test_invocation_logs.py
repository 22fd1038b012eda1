"""Log lines in JSON say which work they are about."""

from __future__ import annotations

import json
import logging
from typing import Any

from rebalancer.cli.invocation import JsonFormatter
from rebalancer.telemetry import span


def line(**extra: Any) -> dict[str, Any]:
    record = logging.makeLogRecord(
        {"name": "rebalancer.retries", "levelname": "INFO", "msg": "again", **extra}
    )
    found: dict[str, Any] = json.loads(JsonFormatter().format(record))
    return found


def test_a_line_carries_run_wave_and_pod_of_the_work_at_hand() -> None:
    with span("run", run="3f2a"), span("wave", wave=2), span("eviction", pod="shop/web-1"):
        found = line()
    assert (found["run"], found["wave"], found["pod"]) == ("3f2a", 2, "shop/web-1")
    assert not {"run", "wave", "pod"} & set(line())


def test_what_a_line_says_itself_counts_and_nothing_replaces_its_message() -> None:
    with span("eviction", pod="shop/web-1", message="no"):
        found = line(fields={"pod": "shop/web-2", "level": "no"})
    assert found["pod"] == "shop/web-2"
    assert (found["message"], found["level"]) == ("again", "info")
