"""The lab's tests: its commands are installed, and what needs Dask is left to ``make dask``."""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec

import pytest

from rebalancer.cli.groups import COMMAND_GROUP
from tests.unit.cli.conftest import rebalancer_program

__all__ = ["rebalancer_program"]

collect_ignore = [] if find_spec("distributed") else ["timeline/test_dask.py", "timeline/test_places.py"]


@pytest.fixture(autouse=True, scope="session")
def _commands_are_installed() -> None:
    names = {point.name for point in entry_points(group=COMMAND_GROUP)}
    if "timeline" not in names:
        pytest.fail(
            "the lab is installed in an older state: pip install --no-deps --no-build-isolation -e lab"
        )
