"""What evictions of a wave spend of budgets, and what quotas leave for the pods that they make anew."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.cluster.pod_classes import PodClass
from rebalancer.planning.eviction.budgets import Budget, Quotas, Spending, WaveBudgets, allowed_by
from tests.builders import a_budget, a_pod, a_snapshot


def a_counted(name: str, allowed: int) -> Budget:
    return Budget(
        name=f"shop/{name}",
        matches=lambda _labels: True,
        allowed=allowed,
        healthy=True,
        always_allow_unready=False,
        message="",
    )


WEB, ALL = a_counted("web", 2), a_counted("all", 1)


def test_a_wave_spends_a_budget_until_it_allows_no_more() -> None:
    wave = WaveBudgets()
    spending = Spending((WEB,), free=False)
    for spent in range(2):
        assert wave.exhausted(spending) is None, spent
        wave.spend(spending)

    assert wave.exhausted(spending) is WEB


def test_a_pod_that_is_free_spends_nothing_and_goes_where_nothing_is_left() -> None:
    wave = WaveBudgets()
    for _ in range(5):
        wave.spend(Spending((WEB,), free=True))
    assert wave.exhausted(Spending((WEB,), free=False)) is None

    for _ in range(2):
        wave.spend(Spending((WEB,), free=False))
    assert wave.exhausted(Spending((WEB,), free=True)) is None
    assert wave.exhausted(Spending((WEB,), free=False)) is WEB


def test_each_budget_of_a_pod_is_spent_and_the_first_without_room_is_named() -> None:
    wave = WaveBudgets()
    both = Spending((WEB, ALL), free=False)
    wave.spend(both)

    assert wave.exhausted(both) is ALL
    assert wave.exhausted(Spending((WEB,), free=False)) is None
    wave.spend(Spending((WEB,), free=False))
    assert wave.exhausted(both) is WEB


def test_a_copy_counts_for_itself() -> None:
    wave = WaveBudgets()
    one = Spending((ALL,), free=False)
    copied = wave.copy()
    copied.spend(one)

    assert (wave.exhausted(one), copied.exhausted(one)) == (None, ALL)
    assert copied.copy().exhausted(one) is ALL


def test_a_pod_without_budgets_is_never_held_back() -> None:
    assert WaveBudgets().exhausted(Spending((), free=False)) is None


@pytest.mark.parametrize(("allowed", "counted"), [(3, 3), (0, 0), (-1, 0)])
def test_a_budget_allows_what_its_status_says_and_never_less_than_nothing(allowed: int, counted: int) -> None:
    (record,) = a_snapshot(poddisruptionbudgets=[a_budget("web", labels={}, allowed=allowed)]).budgets or ()
    assert allowed_by(record)[0] == counted


def a_quota(
    hard: dict[str, str], used: dict[str, str] | None = None, *, name: str = "q", of: str = "status"
) -> dict[str, Any]:
    quota: dict[str, Any] = {"metadata": {"name": name, "namespace": "default"}, "spec": {}, "status": {}}
    quota[of]["hard"] = hard
    if used is not None:
        quota["status"]["used"] = used
    return quota


def quotas_of(*quotas: dict[str, Any], **pod: Any) -> tuple[Quotas, PodClass]:
    snapshot = a_snapshot(
        pods=[a_pod("web", **{"cpu": "500m", "memory": "1Gi", **pod})], resourcequotas=quotas
    )
    return Quotas(snapshot), snapshot.pods.classes[0]


ROOM = [
    # hard, used, how many more pods of 500m and 1Gi
    ({"pods": "5"}, {"pods": "3"}, 2),
    ({"count/pods": "5"}, {"count/pods": "5"}, 0),
    ({"pods": "5"}, {"pods": "7"}, 0),
    ({"pods": "5"}, None, 5),
    ({"requests.cpu": "2"}, {"requests.cpu": "500m"}, 3),
    ({"cpu": "2"}, {"cpu": "1600m"}, 0),
    ({"requests.memory": "4Gi"}, {"requests.memory": "1Gi"}, 3),
    ({"pods": "5", "cpu": "2"}, {"pods": "1", "cpu": "1"}, 2),
    ({"cpu": "many"}, {"cpu": "1"}, 0),
]


@pytest.mark.parametrize("of", ["status", "spec"])
@pytest.mark.parametrize(("hard", "used", "more"), ROOM)
def test_a_quota_has_room_for_so_many_more_pods(
    hard: dict[str, str], used: dict[str, str] | None, more: int, of: str
) -> None:
    quotas, pod = quotas_of(a_quota(hard, used, of=of))
    room = quotas.room(pod)
    assert room is not None
    assert room[0] == more
    assert (quotas.lacking(pod) == "") == (more > 0)


@pytest.mark.parametrize(("others", "lacks"), [(0, False), (1, False), (2, True)])
def test_pods_that_are_made_at_the_same_time_take_the_room_of_a_quota(others: int, lacks: bool) -> None:
    quotas, pod = quotas_of(a_quota({"pods": "5"}, {"pods": "3"}))
    said = quotas.lacking(pod, [pod] * others)
    assert bool(said) == lacks
    assert (f"makes {others} more" in said) == lacks


def test_the_tightest_quota_is_named() -> None:
    quotas, pod = quotas_of(a_quota({"pods": "9"}, name="wide"), a_quota({"cpu": "1"}, name="tight"))
    assert quotas.room(pod) == (2, "quota tight, 0 of 1 cpu used")


def test_limits_count_where_a_quota_counts_them() -> None:
    limits = {"cpu": "2", "memory": "2Gi"}
    container = {"name": "main", "image": "a", "resources": {"limits": limits, "requests": {"cpu": "1"}}}
    quotas, pod = quotas_of(a_quota({"limits.cpu": "5"}), spec={"containers": [container, {"name": "b"}]})
    assert quotas.room(pod) == (2, "quota q, 0 of 5 limits.cpu used")


def test_what_a_pod_does_not_take_holds_no_pod_back() -> None:
    quotas, pod = quotas_of(a_quota({"services": "0", "requests.nvidia.com/gpu": "0"}, {"services": "3"}))
    assert (quotas.room(pod), quotas.lacking(pod)) == (None, "")
    assert Quotas(a_snapshot(pods=[a_pod("web")])).room(pod) is None


COUNT = "count/replicasets.apps"


@pytest.mark.parametrize(
    ("hard", "used", "full"),
    [
        ("3", "2", False),
        ("3", "3", True),
        ("3", "4", True),
        ("3", None, False),
        ("0", None, True),
        ("x", "1", True),
    ],
)
@pytest.mark.parametrize("of", ["status", "spec"])
def test_a_kind_without_room_is_named_with_its_quota(
    hard: str, used: str | None, full: bool, of: str
) -> None:
    quotas, _ = quotas_of(a_quota({COUNT: hard}, None if used is None else {COUNT: used}, of=of))
    said = f"quota q has no room for another one in {COUNT}" if full else ""
    assert quotas.without_room("default", COUNT) == said
    assert quotas.without_room("default", "count/pods") == quotas.without_room("other", COUNT) == ""
