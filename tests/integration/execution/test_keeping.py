"""What a run leaves is kept by a real API server, in the shapes it accepts."""

from __future__ import annotations

from collections.abc import Sequence

from rebalancer.execution.events import EventWriter
from rebalancer.execution.outcomes import Outcome, after_outcomes
from rebalancer.execution.safety import read_health
from rebalancer.planning.scheduler_location import SchedulerLocation
from rebalancer.state.results import Result
from rebalancer.state.run_state import after_plan
from rebalancer.state.stores import ConfigMapStore
from tests.integration.execution.cluster import a_hot_cluster, a_move_of


def test_a_run_is_remembered_in_a_config_map() -> None:
    with a_hot_cluster() as runner:
        store = ConfigMapStore(runner.api, "kube-system", "rebalancer-state")
        store.update(lambda state: after_plan(state, ["hot"], runner.time.clock()))

        def checkpoint(outcomes: Sequence[Outcome]) -> None:
            store.update(lambda state: after_outcomes(state, outcomes, runner.time.clock(), 3600))

        outcomes = runner.run(a_move_of(runner.sandbox, "web-0"), save=checkpoint)
        kept = ConfigMapStore(runner.api, "kube-system", "rebalancer-state").load()
    assert kept is not None
    [move] = kept.moves
    assert (move.result, move.to_node) == (Result.LANDED, outcomes.outcomes[0].node)
    assert kept.hot_runs("hot") == 1


def test_an_event_is_accepted() -> None:
    with a_hot_cluster() as runner:
        events = EventWriter(runner.api, "run-1", runner.time.clock)
        runner.run(a_move_of(runner.sandbox, "web-0"), shown_to=(events,))
        written = runner.sandbox.store.all("events", "shop")
    assert [event["reason"] for event in written if event["reason"] == "Rebalanced"] == ["Rebalanced"]


def test_the_sandboxs_scheduler_is_seen_to_live() -> None:
    location = SchedulerLocation("default-scheduler")
    with a_hot_cluster() as runner:
        assert runner.sandbox.wait_until(lambda: runner.sandbox.store.all("leases", "kube-system"))
        now = runner.time.clock()
        alive = read_health(runner.api, now, now, (location,))
        runner.sandbox.stop_scheduler()
        later = read_health(runner.api, now + 3600, now, (location,))
    assert alive.schedulers[0].alive is True
    assert later.schedulers[0].alive is False
    assert (alive.node_count, alive.not_ready_nodes, alive.pending_pods) == (3, (), ())
