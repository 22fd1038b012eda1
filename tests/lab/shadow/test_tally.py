"""Another configuration is judged by the same pods, on the cluster as it really was."""

from __future__ import annotations

import pytest

from rebalancer.agreement.decisions import Result
from rebalancer_lab.shadow.tally import ShadowTally, requested_percent
from tests.builders import a_node
from tests.unit.agreement.test_decisions import a_decision
from tests.unit.agreement.test_replay import decided, scheduled, with_weights
from tests.unit.agreement.watched import Watched


def test_the_configuration_in_force_places_every_pod_where_it_is() -> None:
    cluster = scheduled(4, 20)
    beside = ShadowTally("same.yaml")

    beside.add(decided(cluster), cluster.snapshots[cluster.version])

    report = beside.report()
    assert (report.decisions, report.elsewhere, report.moved) == (20, 0, 0)
    assert report.highest["cpu"][0] == report.highest["cpu"][1]


def test_another_one_says_how_many_pods_would_be_elsewhere_and_what_that_does_to_nodes() -> None:
    cluster = Watched(a_node("big", cpu=8), a_node("small", cpu=1))
    cluster.create("web", cpu="800m")
    cluster.bind("web", "small")
    beside = ShadowTally("other.yaml")

    beside.add(decided(cluster), cluster.snapshots[cluster.version])

    report = beside.report()
    assert (report.decisions, report.elsewhere, report.moved) == (1, 1, 1)
    assert report.arrivals == {"big": 1}
    assert report.highest["cpu"] == (80.0, 10.0)


def test_pods_that_are_gone_are_nowhere() -> None:
    cluster = Watched(a_node("big", cpu=8), a_node("small", cpu=1))
    cluster.create("web", cpu="800m")
    cluster.bind("web", "small")
    cluster.delete("web")
    beside = ShadowTally("other.yaml")

    beside.add(decided(cluster), cluster.snapshots[cluster.version])

    assert (beside.report().elsewhere, beside.report().moved) == (1, 0)


def test_a_weight_that_changes_decisions_is_seen_before_it_is_rolled_out() -> None:
    cluster = scheduled(9, 40)
    beside = ShadowTally("heavier.yaml")

    configuration = with_weights({"NodeResourcesBalancedAllocation": 20})
    beside.add(decided(cluster, configuration=configuration), cluster.snapshots[cluster.version])

    assert 0 < beside.report().elsewhere <= beside.report().expected_elsewhere <= 40


def test_a_decision_that_nobody_can_compute_is_not_beside_anything() -> None:
    cluster = Watched(a_node("a"))
    beside = ShadowTally("other.yaml")

    beside.add([a_decision(1, Result.UNPREDICTABLE)], cluster.snapshots[cluster.version])

    assert beside.report().decisions == 0


def test_requests_are_percentages_of_what_nodes_have() -> None:
    cluster = Watched(a_node("a", cpu=1), a_node("b", cpu=2))
    cluster.create("web", cpu="500m")
    cluster.bind("web", "a")
    snapshot = cluster.snapshots[cluster.version]

    assert requested_percent(snapshot, {})[:, 0].tolist() == pytest.approx([50.0, 0.0])
    assert requested_percent(snapshot, {"uid-web": "b"})[:, 0].tolist() == pytest.approx([0.0, 25.0])
    assert requested_percent(snapshot, {"uid-web": "gone"})[:, 0].tolist() == pytest.approx([50.0, 0.0])
