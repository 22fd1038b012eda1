"""Evictions that a webhook, a budget or a signal comes between: each has one end, and is journaled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rebalancer.errors import ExitCode
from tests.conftest import SUMMARY
from tests.e2e import clusters
from tests.e2e.api import Object, path_of
from tests.e2e.evacuation_webhook import Evacuations, serving
from tests.e2e.processes import wait_until
from tests.e2e.relocation_scene import BUDGET, LEASE, PODS, REPLICAS, Record, Scene
from tests.e2e.silent_webhook import a_webhook_that_never_answers, rehearsed_eviction

pytestmark = pytest.mark.safety


def test_sigterm_finishes_and_journals_the_eviction_in_flight_and_releases_the_lease(
    scene: Scene, record_property: Record
) -> None:
    # The eviction is in flight until the webhook hangs up, and is then granted.
    with a_webhook_that_never_answers(scene, failure_policy="Ignore") as webhook:
        run = scene.start()
        run.wait_for("evicting")
        webhook.wait_until_asked()  # after the line rebalancer looks at the pod, and evicts it then
        run.ask_to_stop()
        assert run.events("evicted") == []
        webhook.hang_up()
        ended = run.finished()
    assert ended.exit_code == ExitCode.INTERRUPTED, ended
    evicting, evicted = run.events("evicting"), run.events("evicted")
    assert [line["uid"] for line in evicted] == [line["uid"] for line in evicting]
    assert len(evicted) == 1
    assert scene.untouched() == set(scene.pods) - {evicted[0]["uid"]}
    assert scene.api.get(LEASE)["spec"].get("holderIdentity", "") == ""
    assert ended.document["stop"] == "Interrupted"
    results = [outcome["result"] for outcome in ended.document["outcomes"]]
    assert sorted(results) == ["Skipped", "Skipped", "Skipped", "Unknown"]
    record_property(
        SUMMARY, f"SIGTERM: the eviction in flight ended and was journaled, exit {ended.exit_code}"
    )


def test_a_webhook_that_fails_is_a_refusal_with_its_cause(scene: Scene, record_property: Record) -> None:
    with a_webhook_that_never_answers(scene, failure_policy="Fail", seconds=1):
        ended = scene.start(moves=2).finished()
    assert ended.exit_code == ExitCode.PARTLY_DONE, ended
    assert scene.untouched() == set(scene.pods)
    for outcome in ended.document["outcomes"]:
        assert outcome["result"] == "Refused"
        assert 'failed calling webhook "evictions.example.com"' in outcome["because"]
    refused = [line for line in ended.journal if line["event"] == "refused"]
    assert len(refused) == len(ended.document["outcomes"]) == 2
    record_property(
        SUMMARY, f"webhook refusals: {len(refused)} Refused with their cause, exit {ended.exit_code}"
    )


@contextmanager
def a_webhook_that_evacuates(scene: Scene, evacuations: Evacuations) -> Iterator[None]:
    """Have every eviction denied and, as KubeVirt does, be carried out in another way."""
    with serving(scene.folder, evacuations) as manifest:
        scene.api.create(manifest)
        try:
            wait_until(
                lambda: any(word in rehearsed_eviction(scene) for word in ("webhook", "evacuation")),
                "the API server asks the webhook",
            )
            yield
        finally:
            scene.api.delete(path_of(manifest))


def test_a_pod_that_a_webhook_moves_is_asked_for_once_and_waited_for(
    scene: Scene, record_property: Record
) -> None:
    def migrate(pod: str) -> None:
        threading.Timer(3.0, scene.api.delete, (f"{PODS}/{pod}",)).start()

    evacuations = Evacuations(begin=migrate)
    with a_webhook_that_evacuates(scene, evacuations):
        run = scene.start(moves=2)
        ended = scene.finish(run)
    assert ended.exit_code == ExitCode.DONE, ended
    assert [outcome["result"] for outcome in ended.document["outcomes"]] == ["Landed"] * 2
    assert len(run.events("started")) == len(evacuations.asked) == len(set(evacuations.asked)) == 2
    assert len(scene.untouched()) == REPLICAS - 2
    record_property(
        SUMMARY, f"evacuating webhook: 2 pods asked for once each, Landed, exit {ended.exit_code}"
    )


def test_a_pod_that_a_webhook_does_not_move_in_time_is_started_and_not_asked_for_by_the_next_run(
    scene: Scene, tmp_path: Path, record_property: Record
) -> None:
    state = f"--state={tmp_path / 'state.json'}"
    evacuations = Evacuations()
    with a_webhook_that_evacuates(scene, evacuations):
        first = scene.finish(scene.start(state, moves=1, wave_timeout="5s"))
        second = scene.finish(scene.start(state, moves=1, wave_timeout="5s"))
    assert (first.exit_code, second.exit_code) == (ExitCode.DONE, ExitCode.DONE), (first, second)
    (started,) = first.document["outcomes"]
    assert started["result"] == "Started"
    assert second.document["outcomes"] == []  # its workload is in cooldown
    assert len(evacuations.asked) == 1
    assert scene.untouched() == set(scene.pods)
    record_property(
        SUMMARY,
        f"evacuating webhook that is slow: Started, exit {first.exit_code}; the next run asked for none",
    )


def test_what_a_budget_refuses_is_tried_again_then_given_up_counted_and_explained(
    scene: Scene, record_property: Record
) -> None:
    def forbid() -> None:
        # After the cluster was read, before anything is evicted: the plan does not know of it.
        scene.api.create(clusters.budget("web", app="web", minAvailable=REPLICAS))
        wait_until(
            lambda: scene.api.get(BUDGET).get("status", {}).get("currentHealthy") == REPLICAS,
            "budget counted",
        )

    scene.when_load_is_read.append(forbid)
    ended = scene.start().finished()
    assert ended.exit_code == ExitCode.PARTLY_DONE, ended
    assert scene.untouched() == set(scene.pods)
    refused = [line for line in ended.journal if line["event"] == "refused"]
    assert refused
    assert all(line["attempts"] > 1 for line in refused)
    by_result: dict[str, list[Object]] = {"Refused": [], "Skipped": []}
    for outcome in ended.document["outcomes"]:
        by_result[outcome["result"]].append(outcome)
    assert len(by_result["Refused"]) == len(refused)
    for outcome in by_result["Refused"]:
        assert "The disruption budget web needs 4 healthy pods and has 4 currently" in outcome["because"]
    # Later waves read the cluster again, and see the budget before they ask.
    assert len(by_result["Skipped"]) == REPLICAS - len(refused)
    for outcome in by_result["Skipped"]:
        assert "budget default/web" in outcome["because"]
    record_property(
        SUMMARY,
        f"a budget that allows nothing: {len(refused)} Refused after {refused[0]['attempts']} attempts, "
        f"{len(by_result['Skipped'])} Skipped, exit {ended.exit_code}",
    )
