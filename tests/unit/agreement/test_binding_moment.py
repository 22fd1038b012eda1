"""Why a pod is where it is, is answered for the moment of a timeline at which it had just been bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rebalancer.agreement.binding_moment import binding_moment
from rebalancer.agreement.following import why_there
from rebalancer.cluster import times
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.errors import InputError
from rebalancer.load.raw_figures import RawFigures
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.timeline import Timeline, TimelineWriter
from rebalancer.planning.inputs import Observation
from tests.builders import a_node, a_pod, a_recording

NOW = 1_795_176_000.0
STEP = 300.0


def a_web(node: str = "", *, created: float = NOW, uid: str = "first") -> dict[str, Any]:
    pod = a_pod("web", node=node, namespace="shop", cpu="1", created=times.render(created))
    pod["metadata"]["uid"] = uid
    return pod


def a_timeline(folder: Path, *pods: dict[str, Any] | None) -> Timeline:
    """A moment for each, in which the pod is as given, or not there."""
    writer = TimelineWriter(folder, 1 << 30)
    for number, pod in enumerate(pods):
        nodes = [a_node("a"), a_node("b")]
        recording = a_recording(None, nodes=nodes, pods=[] if pod is None else [pod])
        observation = Observation(build_snapshot(recording), RawFigures(), NOW + number * STEP)
        assert writer.write(observation, None)
    return Timeline.open(folder)


def at(number: int) -> float:
    return NOW + number * STEP


DAY = (None, a_web(), a_web("a"), a_web("a"), None)


@pytest.mark.parametrize("name", ["web", "shop/web"])
def test_the_first_moment_that_has_the_pod_on_a_node_is_that_of_its_binding(
    tmp_path: Path, name: str
) -> None:
    timeline = a_timeline(tmp_path, *DAY)

    assert binding_moment(timeline, name, None) == at(2)
    assert binding_moment(timeline, name, at(3)) == at(2)
    assert binding_moment(timeline, name, at(2)) == at(2)


def test_of_two_pods_of_a_name_it_is_that_of_the_last_one_before(tmp_path: Path) -> None:
    second = a_web("b", created=at(3), uid="second")
    timeline = a_timeline(tmp_path, a_web("a"), a_web("a"), None, second, second)

    assert binding_moment(timeline, "web", None) == at(3)
    assert binding_moment(timeline, "web", at(2)) == at(0)


def test_a_pod_that_no_moment_has_on_a_node_is_said_to_be_on_none(tmp_path: Path) -> None:
    timeline = a_timeline(tmp_path, *DAY)

    with pytest.raises(InputError, match="has pod shop/web on a node"):
        binding_moment(timeline, "shop/web", at(1))
    with pytest.raises(InputError, match="has pod other on a node"):
        binding_moment(timeline, "other", None)


def test_why_finds_that_moment_by_itself(tmp_path: Path) -> None:
    a_timeline(tmp_path, *DAY)

    found = why_there(PlanOptions(source=tmp_path), "pod/shop/web", "", None)

    assert found.decision.node == "a"
    assert times.render(at(2)) in found.computed
    assert "the first recorded moment" in found.computed
