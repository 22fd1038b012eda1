from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.prometheus.servers import MISSING

NEEDS_PROMETHEUS = {"server", "cluster"}  # fixtures


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where Prometheus is not installed, its tests are skipped with a line a file."""
    if shutil.which("prometheus") and shutil.which("promtool"):
        return
    for item in items:
        here = Path(__file__).parent in item.path.parents
        if here and NEEDS_PROMETHEUS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.skip(reason=MISSING))
