"""Pods counted event by event are those of a fresh reading."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from rebalancer.cluster.kinds import NODES, PODS
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer_demo import Sandbox
from rebalancer_extender.watched_state import Counted, WatchedState
from tests.builders import a_node, a_pod
from tests.integration.demo.builders import START
from tests.integration.reading.servers import a_sandbox, api_of
from tests.waiting import HANG_SECONDS, eventually


@contextmanager
def watched() -> Iterator[tuple[Sandbox, WatchedState, LiveReader]]:
    """A cluster that was read once and is watched, and a reader of it."""
    with a_sandbox(bookmark_seconds=0.02) as sandbox, api_of(sandbox.url, "") as api:
        state = WatchedState(api, node_metrics=False, clock=lambda: START)
        try:
            state.renew()
            yield sandbox, state, LiveReader(api, lambda: START)
        finally:
            state.close()


def counts(counted: Counted) -> dict[str, int]:
    names = counted.snapshot.nodes.names
    return dict(zip(names, counted.state.pod_count.tolist(), strict=True))


def fresh(reader: LiveReader) -> tuple[dict[str, int], dict[str, int]]:
    """Pods, and thousandths of a core that they request, by node."""
    snapshot = build_snapshot(reader.read((NODES, PODS)))
    state = ClusterState.of(snapshot)
    pods, cpu = state.pod_count.tolist(), state.requested[:, 0].tolist()
    names = snapshot.nodes.names
    return dict(zip(names, pods, strict=True)), dict(zip(names, cpu, strict=True))


def churn(sandbox: Sandbox, chance: random.Random) -> None:
    """Create, bind, finish or delete some pods."""
    for _ in range(30):
        name = f"web-{chance.randrange(20)}"
        found = sandbox.store.get("pods", "default", name)
        if found is None:
            node = chance.choice(["", "n0", "n1", "n2"])
            sandbox.store.create("pods", a_pod(name, node=node, cpu=f"{chance.randrange(1, 4)}00m"))
        elif chance.random() < 0.4:
            sandbox.store.remove("pods", "default", name)
        elif not found["spec"].get("nodeName"):
            sandbox.store.mutate("pods", "default", name, lambda pod: pod["spec"].update(nodeName="n1"))
        else:
            ended = {"phase": chance.choice(["Running", "Succeeded"])}
            sandbox.store.mutate("pods", "default", name, partial(_with_status, ended))


def _with_status(changes: Mapping[str, str], pod: dict[str, Any]) -> None:
    pod["status"].update(changes)


def test_after_any_events_the_counts_are_those_of_a_fresh_reading() -> None:
    chance = random.Random(3)
    with watched() as (sandbox, state, reader):
        for round_number in range(6):
            churn(sandbox, chance)
            expected = fresh(reader)

            def same(expected: tuple[dict[str, int], dict[str, int]] = expected) -> bool:
                with state.changed:
                    counted = state.up_to_date()
                    requested = counted.state.requested[:, 0].tolist()
                    cpu = dict(zip(counted.snapshot.nodes.names, requested, strict=True))
                    return (counts(counted), cpu) == expected

            eventually(same, awaited="the events are counted")
            if round_number % 2:
                state.renew()
                assert same()


def test_an_answer_waits_until_a_pod_is_seen_on_its_node() -> None:
    with watched() as (sandbox, state, _):
        sandbox.store.create("pods", a_pod("late-1"))
        with state.changed:
            assert not state.await_bound(("default", "late-1"), 0.0)
            sandbox.store.mutate("pods", "default", "late-1", lambda pod: pod["spec"].update(nodeName="n2"))
            assert state.await_bound(("default", "late-1"), HANG_SECONDS)


def test_a_node_that_came_since_has_the_columns_made_anew() -> None:
    with watched() as (sandbox, state, _):
        sandbox.store.create("nodes", a_node("n7"))
        sandbox.store.create("pods", a_pod("late-1", node="n7"))
        before = len(state.up_to_date().snapshot.nodes)

        def stale() -> bool:
            with state.changed:
                state.up_to_date()
                return state.is_stale

        eventually(stale, awaited="the event of the pod")
        # The event of the node comes by another watch, and may be later.
        eventually(lambda: "n7" in state.renew().nodes.row, awaited="columns with the node")
        with state.changed:
            assert counts(state.up_to_date())["n7"] == 1
        assert len(state.up_to_date().snapshot.nodes) == before + 1


def test_each_event_is_counted_once_however_many_answers_follow() -> None:
    with watched() as (sandbox, state, _):
        for number in range(5):
            sandbox.store.create("pods", a_pod(f"once-{number}", node="n0", cpu="100m"))
        with state.changed:
            assert all(state.await_bound(("default", f"once-{number}"), HANG_SECONDS) for number in range(5))
            for _ in range(10):
                seen = state.up_to_date().seen

        assert seen == 5
