"""What kube-scheduler-simulator recorded becomes a timeline; anything else is one line."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rebalancer.cli.program import main
from rebalancer.cluster import times
from rebalancer.errors import InputError
from rebalancer.observe.timeline import Timeline
from rebalancer_lab.timeline.simulator_recordings import recordings
from tests.builders import a_node, a_pod
from tests.conftest import examples
from tests.lab.timeline.recorded_days import NOW


def a_change(after: float, event: str, kind: str, item: Mapping[str, Any]) -> bytes:
    resource = {"apiVersion": "v1", "kind": kind, **item}
    if event == "Delete":
        names = {key: item["metadata"].get(key, "") for key in ("name", "namespace")}
        resource = {"apiVersion": "v1", "kind": kind, "metadata": names}
    return (
        msgspec.json.encode({"time": times.render(NOW + after), "event": event, "resource": resource}) + b"\n"
    )


def a_recording(path: Path) -> Path:
    web = a_pod("web", cpu="1")
    path.write_bytes(
        a_change(0, "Add", "Node", a_node("a"))
        + a_change(1, "Add", "Pod", web)
        + a_change(2, "Update", "Pod", a_pod("web", node="a", cpu="1"))
        + a_change(3, "Add", "Event", {"metadata": {"name": "other"}})
        + a_change(700, "Delete", "Pod", web)
        + a_change(710, "Add", "Node", a_node("b"))
    )
    return path


def test_the_objects_at_every_interval_are_the_moments_of_a_timeline(tmp_path: Path) -> None:
    path, folder = a_recording(tmp_path / "changes.jsonl"), tmp_path / "days"
    result = CliRunner().invoke(main, ["timeline", "backfill", str(folder), "--recording", str(path)])

    assert result.exit_code == 0, result.output
    timeline = Timeline.open(folder)
    assert timeline.moments() == (NOW + 300, NOW + 600, NOW + 900)
    snapshots = [timeline.observation(at).snapshot for at in timeline.moments()]
    assert [len(item.pods) for item in snapshots] == [1, 1, 0]
    assert [item.nodes.names for item in snapshots] == [("a",), ("a",), ("a", "b")]
    assert snapshots[0].pods.node.tolist() == [0]


def test_a_line_that_is_no_change_is_named(tmp_path: Path) -> None:
    path = a_recording(tmp_path / "changes.jsonl")
    path.write_bytes(path.read_bytes() + b'{"time": "2026-11-20T13:00:00Z", "event": "Add"}\n')

    with pytest.raises(InputError, match=r"changes\.jsonl:7: not what kube-scheduler-simulator records"):
        list(recordings(path, 300.0))


def test_a_change_at_the_end_of_time_is_named(tmp_path: Path) -> None:
    path = tmp_path / "changes.jsonl"
    path.write_bytes(
        a_change(0, "Add", "Node", a_node("a"))
        .replace(b"2026-", b"9999-")
        .replace(b"-11-20T12:00:00", b"-12-31T23:59:59")
    )

    with pytest.raises(InputError, match=r"changes\.jsonl:1: .* is not a time between the years 1 and 9999"):
        list(recordings(path, 300.0))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(50)
)
@given(content=st.binary(max_size=300))
def test_a_file_of_anything_is_refused_or_holds_nothing(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("anything") / "changes.jsonl"
    path.write_bytes(content)

    with contextlib.suppress(InputError):
        assert list(recordings(path, 300.0)) == []
