"""What the end-to-end tests share: a control plane of their own, and the command as a user starts it."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import assets
from tests.e2e.controlplane import ControlPlane
from tests.e2e.relocation_scene import scene, shared_control_plane

__all__ = ["scene", "shared_control_plane"]

# Where the system writes cores as files, one that is dumped lies in the folder of its command, which pytest
# keeps: a fault in compiled code that says nothing can be looked at.
_, _MOST = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (_MOST, _MOST))

# Its plugin is built into the schedulers of old minors.
collect_ignore = [] if assets.MINOR in assets.OLD_MINORS else ["test_network_traffic.py"]


@pytest.fixture
def control_plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane that is not started yet: ``start`` takes what it shall consist of."""
    folder = tmp_path / "controlplane"
    folder.mkdir()
    with ControlPlane(folder) as started:
        yield started


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let requests to loopback go unverified here, and only here; elsewhere the warning is an error."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning"))
