"""What a consolidation empties in all plans of a run together, and in which of its nodes it goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.planning.inputs import PlanningInputs, RunSoFar
from rebalancer.planning.plan import Move
from rebalancer.planning.planner import Planner
from rebalancer.scheduling.registry import load_configuration
from rebalancer.state.run_state import RunState
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import NOW, a_past_move, a_workload, plan_of
from tests.unit.planning.strategies.test_consolidation import _PACKING, inputs

_NODES = ("a", "b", "c", "d", "full")


def read_after(
    moved: Collection[str] = (),
    gone: Collection[str] = (),
    of_a: Mapping[str, Mapping[str, str]] | None = None,
    **settings: Any,
) -> PlanningInputs:
    """a has one pod and b, c and d a larger one each; what was ``moved`` runs on the node that is filled."""
    at = {f"on-{name}": "full" if f"on-{name}-0" in moved else name for name in "abcd"}
    sizes = {name: f"{600 + 10 * number}m" for number, name in enumerate(sorted(at))}
    workloads = [a_workload(name, [at[name]], cpu=sizes[name]) for name in at]
    for item in workloads:
        if item.pods[0]["metadata"]["name"] in moved:
            item.pods[0]["metadata"]["uid"] += "-new"
    nodes = [a_node(name, cpu=10) for name in _NODES if name not in gone]
    for key, values in (of_a or {}).items():
        nodes[0]["metadata"].setdefault(key, {}).update(values)
    return inputs(
        load_configuration(_PACKING, "test"),
        [*workloads, a_workload("rest", ["full"] * 3)],
        nodes,
        {"minNodeAge": "0s", **settings},
        state=RunState(
            moves=tuple(
                a_past_move(uid=f"uid-default-{name}", from_node=name[3], to_node="full", evicted_at=NOW - 60)
                for name in moved
            )
        ),
    )


def later_sources(made: Sequence[Move], read: PlanningInputs) -> set[str]:
    """The nodes that pods leave by the next plan of a run that has made these moves."""
    return {move.from_node for move in plan_of(read, RunSoFar(made=tuple(made))).moves}


@pytest.mark.parametrize("gone", [(), ("a",)])
def test_all_plans_of_a_run_empty_no_more_nodes_than_max_nodes(gone: tuple[str, ...]) -> None:
    """A run plans again where a pod landed elsewhere than most likely; the node may be gone by then."""
    (first,) = plan_of(read_after(maxNodes=1)).moves

    assert first.from_node == "a"
    assert later_sources([first], read_after([first.pod.name], gone, maxNodes=1)) == set()
    assert len(later_sources([first], read_after([first.pod.name], gone, maxNodes=2))) == 1


def test_a_later_plan_leaves_nodes_alone_that_another_strategy_moved_pods_from() -> None:
    (first,) = plan_of(read_after(maxNodes=1)).moves
    other = replace(first, strategy="lifetime", from_node="b", pod=replace(first.pod, uid="other"))
    read = read_after([first.pod.name], maxNodes=4)
    moves = (*(read.state.moves if read.state else ()), a_past_move(from_node="b", to_node="full"))
    read = replace(read, state=RunState(moves=moves))

    assert later_sources([first, other], read) == {"c", "d"}


@rows(
    "of_a",
    [
        {"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}},
        {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        {"labels": {"karpenter.sh/nodepool": "batch"}},
        {"labels": {"node-role.kubernetes.io/control-plane": ""}},
        {"labels": {"pool": "web"}},
    ],
)
def test_no_more_pods_leave_a_node_that_its_owner_keeps_by_now(of_a: Mapping[str, Mapping[str, str]]) -> None:
    other = {"matchExpressions": [{"key": "pool", "operator": "DoesNotExist"}]}
    (move,) = plan_of(read_after(maxNodes=1, nodeSelector=other)).moves
    found = Planner(read_after(of_a=of_a, maxNodes=1, nodeSelector=other)).recheck([move])

    assert found == {move.pod.uid: "NotNeeded: its node is not emptied any more"}


@pytest.mark.parametrize(("gone", "goes_on"), [((), True), (("d",), False)])
def test_no_more_pods_leave_nodes_once_fewer_than_are_kept_would_stay_in_use(
    gone: tuple[str, ...], goes_on: bool
) -> None:
    """Two of five are emptied and three are kept, when another one is removed."""
    moves = plan_of(read_after(keep=3)).moves
    found = Planner(read_after(gone=gone, keep=3)).recheck(moves).values()

    assert [move.from_node for move in moves] == ["a", "b"]
    assert [isinstance(verdict, Move) for verdict in found] == [goes_on] * 2
