"""Load-aware plugins keep figures: a decision is computed by those that its scheduler may have had then."""

from __future__ import annotations

import pytest

from rebalancer.agreement.decisions import Decision, Result
from rebalancer.agreement.replay import SeenView, decide_again
from rebalancer.load.scheduler_view import AVERAGE, CPU_TYPE, Metric, SchedulerView, WatcherMetrics
from rebalancer.planning.inputs import SchedulerStart
from tests.builders import a_node
from tests.rows import rows
from tests.unit.agreement.watched import Watched
from tests.unit.planning.builders import with_scheduler
from tests.unit.planning.landing.hot_pods import PACKED

CHANGED = 100.0  # when the figures became others
WINDOW_END = -500.0  # nothing was bound too lately for them


def view(**percent: float) -> SchedulerView:
    nodes = {name: (Metric(CPU_TYPE, AVERAGE, value),) for name, value in percent.items()}
    return SchedulerView({"http://w": WatcherMetrics(nodes, WINDOW_END, WINDOW_END, WINDOW_END, "test")})


# It packs up to 40 %: first on a, then on b.
BEFORE, AFTER = view(a=35, b=5), view(a=5, b=35)
SEEN = (SeenView(BEFORE, 0.0, CHANGED), SeenView(AFTER, CHANGED - 10.0))


def decision(node: str, at: float, seen: tuple[SeenView, ...] = SEEN) -> Decision:
    """The decision on a pod that was bound then."""
    cluster = Watched(a_node("a", cpu=10), a_node("b", cpu=10))
    cluster.create("web", cpu="10m", seconds=at)
    cluster.bind("web", node, seconds=0.0)
    inputs = cluster.inputs(configuration=PACKED, view=AFTER)
    (found,) = decide_again(inputs, cluster.changes, upto=cluster.version, bound_claims=(), seen=seen)
    return found


@rows(
    "at, nodes",
    [
        (CHANGED - 20.0, {"a"}),
        (CHANGED - 5.0, {"a", "b"}),  # they were read before and after, and could be others in between
        (CHANGED + 25.0, {"a", "b"}),  # it reads them every thirty seconds
        (CHANGED + 40.0, {"b"}),
    ],
)
def test_a_decision_agrees_with_any_figures_that_its_scheduler_could_have(at: float, nodes: set[str]) -> None:
    results = {node: decision(node, at).result for node in ("a", "b")}

    assert {node for node, result in results.items() if result is Result.AS_COMPUTED} == nodes
    assert {node for node, result in results.items() if result is Result.MISSED} == {"a", "b"} - nodes


def test_of_several_views_the_chance_is_the_mean() -> None:
    assert decision("a", CHANGED + 25.0).chance == pytest.approx(0.5)
    assert decision("b", CHANGED + 40.0).chance == 1.0


@pytest.mark.parametrize(("seconds", "result"), [(1.0, Result.REORDERED), (5.0, Result.MISSED)])
def test_a_pod_bound_at_the_edge_of_a_window_may_be_in_its_figures_or_not(
    seconds: float, result: Result
) -> None:
    """With its 3 cores added node a is packed above 40 %, and b is better; without it a is."""
    cluster = Watched(a_node("a", cpu=10), a_node("b", cpu=10))
    cluster.create("before", cpu="3", seconds=1000.0)
    cluster.bind("before", "a", seconds=0.0)
    cluster.log.take(cluster.version)
    cluster.create("web", cpu="10m", seconds=62.0)
    cluster.bind("web", "a", seconds=0.0)
    end = 1000.0 + 60.0 - seconds  # of a window that does not show it for so many seconds more
    metrics = {name: (Metric(CPU_TYPE, AVERAGE, value),) for name, value in (("a", 35.0), ("b", 5.0))}
    seen = SchedulerView({"http://w": WatcherMetrics(metrics, end, end - 900, end, "test")})
    inputs = cluster.inputs(configuration=PACKED, view=seen)

    (found,) = decide_again(
        inputs,
        cluster.changes,
        upto=cluster.version,
        bound_claims=(),
        seen=[SeenView(seen, 0.0)],
        bound_at={"uid-before": 1000.0},
    )

    assert found.result is result


@pytest.mark.parametrize(
    ("young", "at", "result"),
    [
        ("a", 1005.0, Result.REORDERED),
        ("a", 995.0, Result.MISSED),  # before it forgets
        ("b", 1005.0, Result.MISSED),  # of a node without a younger pod it forgets none
    ],
)
def test_every_five_minutes_a_scheduler_forgets_pods_that_its_figures_do_not_show_yet(
    young: str, at: float, result: Result
) -> None:
    """With its 3 cores added node a is packed above 40 %, and b is better; without it a is."""
    cluster = Watched(a_node("a", cpu=10), a_node("b", cpu=10))
    bound = {"before": 935.0, "young": 950.0}
    for name, node, cpu in (("before", "a", "3"), ("young", young, "1m")):
        cluster.create(name, cpu=cpu, seconds=bound[name] - cluster.now)
        cluster.bind(name, node, seconds=0.0)
    cluster.log.take(cluster.version)
    cluster.create("web", cpu="10m", seconds=at - cluster.now)
    cluster.bind("web", "a", seconds=0.0)
    metrics = {name: (Metric(CPU_TYPE, AVERAGE, value),) for name, value in (("a", 35.0), ("b", 5.0))}
    seen = SchedulerView({"http://w": WatcherMetrics(metrics, 990.0, 90.0, 990.0, "test")})
    inputs = cluster.inputs(configuration=PACKED, view=seen)
    inputs = with_scheduler(inputs, start=SchedulerStart(700.0, "its lease"))

    (found,) = decide_again(
        inputs,
        cluster.changes,
        upto=cluster.version,
        bound_claims=(),
        seen=[SeenView(seen, 0.0)],
        bound_at={f"uid-{name}": seconds for name, seconds in bound.items()},
    )

    assert found.result is result


def test_what_a_scheduler_may_have_read_before_it_was_followed_is_not_known() -> None:
    found = decision("a", CHANGED - 75.0)

    assert found.result is Result.UNPREDICTABLE
    assert found.because.startswith("its load-aware plugins may still have had figures from before")
