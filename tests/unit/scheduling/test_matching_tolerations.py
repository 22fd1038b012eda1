"""Which taints a pod tolerates: as Kubernetes' rule has it, and without comparing each with each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster.records import PodSpec, Taint, Toleration
from rebalancer.scheduling.matching import Tolerations
from rebalancer.scheduling.plugins.node_properties.taint_toleration import (
    untolerated_hard_taints,
    untolerated_taints,
)
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node, a_pod, a_snapshot

KEYS = st.sampled_from(["", "a", "b"])
VALUES = st.sampled_from(["", "x", "y"])
EFFECTS = st.sampled_from(["", "NoSchedule", "PreferNoSchedule", "NoExecute"])
OPERATORS = st.sampled_from(["", "Equal", "Exists", "Gt"])
TAINTS = st.builds(Taint, key=KEYS, value=VALUES, effect=EFFECTS)
TOLERATIONS = st.lists(
    st.builds(Toleration, key=KEYS, operator=OPERATORS, value=VALUES, effect=EFFECTS), max_size=6
)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """k8s.io/api v0.34.4 core/v1/toleration.go:38, line by line."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


@given(tolerations=TOLERATIONS, taint=TAINTS)
def test_a_taint_is_tolerated_when_one_toleration_matches_it(
    tolerations: list[Toleration], taint: Taint
) -> None:
    expected = any(tolerates(toleration, taint) for toleration in tolerations)
    assert Tolerations(tolerations).tolerate(taint) == expected


class Counted(str):
    """A key that counts how often one is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_taint_is_looked_up_and_not_compared_with_each_toleration() -> None:
    count = 300
    taints = [Taint(key=Counted(f"k{number}"), effect="PreferNoSchedule") for number in range(count)]
    given = [Toleration(key=Counted(f"k{number}"), operator="Exists") for number in range(1, count)]

    Counted.comparisons = 0
    tolerations = Tolerations(given)
    tolerated = [tolerations.tolerate(taint) for taint in taints]

    assert tolerated == [False] + [True] * (count - 1)
    assert Counted.comparisons < 20 * count


def test_taints_are_matched_once_for_all_pods_with_the_same_tolerations() -> None:
    taints = [{"key": key, "effect": "NoSchedule"} for key in ("a", "b")]
    tolerations = [Toleration(key="a", operator="Exists")]
    pods = [
        a_pod(f"p{number}", labels={"n": f"{number}"}, spec=PodSpec(tolerations=tolerations))
        for number in (1, 2)
    ]
    state = ClusterState.of(a_snapshot(nodes=[a_node("a", taints=taints), a_node("b")], pods=pods))
    first = state.pod_class[0]
    second = state.pod_class[1]

    assert first != second
    assert untolerated_taints(state, first).tolist() == [False, True]
    assert untolerated_taints(state, second) is untolerated_taints(state, first)
    assert untolerated_hard_taints(state, second) is untolerated_hard_taints(state, first)
    assert untolerated_hard_taints(state, first).tolist() == [True, False]
