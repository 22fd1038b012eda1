"""A restart changes a Deployment's template once, judged just before, and its rolling update is followed."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from urllib3.exceptions import ProtocolError

from rebalancer.cluster import times
from rebalancer.errors import ExitCode
from rebalancer.execution.events import EventWriter
from rebalancer.execution.evict import Patience
from rebalancer.execution.journal import Journal, in_flight
from rebalancer.execution.outcomes import Outcomes, Stop, after_outcomes
from rebalancer.execution.waves import carry_out
from rebalancer.planning.plan import RESTART, Move
from rebalancer.planning.workloads.rolling_updates import RESTARTED_AT
from rebalancer.policy.schema import Execution, Safety
from rebalancer.state.results import Result
from rebalancer.state.run_state import MoveHistory
from tests.rows import rows
from tests.unit.execution.builders import NOW, a_move, a_plan
from tests.unit.execution.contexts import a_context
from tests.unit.execution.fake_api import Answer, FakeTime, Request, fake_api, not_found, refusal
from tests.unit.planning.surge_builders import a_deployment

TIMEOUT = 60.0
LOST = ProtocolError("Connection aborted.", ConnectionResetError(104, "reset"))
NO_RIGHT = refusal(
    403, 'deployments.apps "web" is forbidden: User "robot" cannot patch resource "deployments"'
)


def a_restart(name: str = "web-1", **changes: Any) -> Move:
    move = a_move(name, **changes)
    pod = replace(move.pod, workload_uid="uid-web")
    return replace(move, pod=pod, action=RESTART)


class RollingCluster:
    """One Deployment with one pod; a changed template makes another pod, and that ends the old one."""

    def __init__(self, time: FakeTime) -> None:
        self.time = time
        self.lands_on = "cool"
        self.ready_after = 5.0
        self.gone_after = 8.0
        self.deployment = a_deployment(metadata={"namespace": "shop", "resourceVersion": "7"})
        self.deployment["spec"]["template"] = {"metadata": {"annotations": {"mine": "kept"}}}
        self.patches: list[Request] = []
        self.answers: list[Answer | Exception | None] = []  # to patches; None: as it should be
        self.changed_at: float | None = None
        self.pod_there = True
        self.before_patch: Callable[[], None] = lambda: None

    def __call__(self, request: Request) -> Answer | Exception:
        if request.path == "/api/v1/nodes":
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            return Answer(
                200, {"kind": "NodeList", "items": [{"metadata": {"name": "cool"}, "status": ready}]}
            )
        if request.path == "/api/v1/pods":
            return Answer(200, {"kind": "PodList", "items": []})
        if request.path == "/api/v1/namespaces/shop/pods":
            return Answer(200, {"kind": "PodList", "items": self._pods()})
        if request.path == "/api/v1/namespaces/shop/pods/web-1":
            found = [pod for pod in self._pods() if pod["metadata"]["name"] == "web-1"]
            return Answer(200, found[0]) if found else not_found(request.path)
        assert request.path == "/apis/apps/v1/namespaces/shop/deployments/web", request.path
        if request.method == "GET":
            return Answer(200, self.deployment)
        assert request.method == "PATCH"
        return self._patch(request)

    def _patch(self, request: Request) -> Answer | Exception:
        self.patches.append(request)
        self.before_patch()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Answer):
            return answer
        if request.body["metadata"]["resourceVersion"] != self.deployment["metadata"]["resourceVersion"]:
            return refusal(409, "the object has been modified")
        if "dryRun" not in request.query:
            annotations = self.deployment["spec"]["template"]["metadata"]["annotations"]
            new = request.body["spec"]["template"]["metadata"]["annotations"]
            if any(annotations.get(key) != value for key, value in new.items()):
                annotations |= new
                self.changed_at = self.time.now
                self.touch()
        return answer or Answer(200, self.deployment)

    def touch(self) -> None:
        metadata = self.deployment["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)

    def _pods(self) -> list[dict[str, Any]]:
        found = []
        left = self.time.now - self.changed_at if self.changed_at is not None else -1.0
        if self.pod_there and left < self.gone_after:
            found.append(self._pod("web-1", "hot", "rs-uid", NOW - 600, "", ready=True))
        if self.changed_at is not None and self.lands_on is not None:
            stamp = self.deployment["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT]
            ready = left >= self.ready_after and bool(self.lands_on)
            found.append(self._pod("web-2", self.lands_on, "rs-new", self.changed_at, stamp, ready=ready))
        return found

    @staticmethod
    def _pod(
        name: str, node: str, controller: str, created: float, stamp: str, *, ready: bool
    ) -> dict[str, Any]:
        since = times.render(created)
        owner = {"kind": "ReplicaSet", "name": controller, "uid": controller, "controller": True}
        conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": since}]
        return {
            "metadata": {
                "namespace": "shop",
                "name": name,
                "uid": f"uid-{name}",
                "creationTimestamp": since,
                "ownerReferences": [owner],
                "annotations": {RESTARTED_AT: stamp} if stamp else {},
            },
            "spec": {"nodeName": node},
            "status": {"phase": "Running" if node else "Pending", "conditions": conditions},
        }


class Rolling:
    """A run that restarts, on such a cluster, and what it left."""

    def __init__(self) -> None:
        self.time = FakeTime(NOW)
        self.cluster = RollingCluster(self.time)
        self.stream = io.StringIO()
        self.checkpoints: list[Any] = []

    def __call__(self, *moves: Move, **changes: Any) -> Outcomes:
        api, self.transport = fake_api(self.cluster, self.time)
        journal = Journal(self.stream, "run-1", self.time.clock)
        given = {
            "execution": Execution(wave_timeout=TIMEOUT),
            "save": self.checkpoints.append,
            "patience": Patience(attempts=3, seconds=20),
            **changes,
        }
        context = a_context(api, journal, self.time.clock, self.time.sleep, **given)
        return carry_out(a_plan(*(moves or (a_restart(),))), context)

    def lines(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.stream.getvalue().splitlines()]


def test_the_template_gets_the_annotation_of_kubectl_and_nothing_else() -> None:
    run = Rolling()
    outcomes = run()
    (patch,) = run.cluster.patches
    assert patch.body == {
        "metadata": {"resourceVersion": "7"},
        "spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: times.render(NOW)}}}},
    }
    assert {request.method for request in run.transport.requests} == {"GET", "PATCH"}
    (outcome,) = outcomes.outcomes
    assert (outcome.result, outcome.node, outcome.replacement) == (Result.RESTARTED, "cool", "web-2")
    assert outcomes.exit_code == ExitCode.DONE
    assert run.time.now - NOW >= run.cluster.gone_after  # settled once the old pod is gone


def test_the_journal_names_it_as_an_action_of_its_own() -> None:
    run = Rolling()
    run()
    events = [line["event"] for line in run.lines() if line.get("pod")]
    assert events == ["restarting", "restarted", "outcome"]
    until_the_request = tuple(run.lines()[: [line["event"] for line in run.lines()].index("restarting") + 1])
    assert [line["event"] for line in in_flight(until_the_request)] == ["restarting"]


def test_a_dry_run_patches_nothing() -> None:
    run = Rolling()
    outcomes = run(dry_run=True)
    assert [patch.query["dryRun"] for patch in run.cluster.patches] == ["All"]
    assert run.cluster.changed_at is None
    assert outcomes.outcomes[0].result is Result.WOULD_RESTART
    assert "it would let Deployment/web be restarted" in outcomes.outcomes[0].because


@rows(
    "change, reason",
    [
        ({"spec": {"paused": True}}, "paused"),
        ({"spec": {"replicas": 2}}, "wants 2 replicas"),
        ({"status": {"updatedReplicas": 0}}, "0 updated pods"),
        ({"metadata": {"generation": 2}}, "older than its spec"),
        ({"spec": {"strategy": {"type": "Recreate"}}}, "Recreate"),
    ],
)
def test_a_deployment_that_changed_since_the_plan_is_not_restarted(change: Any, reason: str) -> None:
    run = Rolling()
    for section, values in change.items():
        run.cluster.deployment[section] |= values
    outcomes = run()
    assert run.cluster.patches == []
    assert [item.result for item in outcomes.outcomes] == [Result.SKIPPED]
    assert reason in outcomes.outcomes[0].because


def test_another_deployment_of_the_same_name_or_a_pod_that_is_gone_is_left_alone() -> None:
    run = Rolling()
    run.cluster.deployment["metadata"]["uid"] = "another"
    assert [item.result for item in run().outcomes] == [Result.GONE]
    gone = Rolling()
    gone.cluster.pod_there = False
    assert [item.result for item in gone().outcomes] == [Result.GONE]
    assert run.cluster.patches == gone.cluster.patches == []


def test_a_change_just_before_the_patch_makes_it_judge_anew() -> None:
    run = Rolling()

    def scaled() -> None:
        if len(run.cluster.patches) == 1:
            run.cluster.deployment["spec"]["replicas"] = 3
            run.cluster.touch()

    run.cluster.before_patch = scaled
    outcomes = run()
    assert len(run.cluster.patches) == 1
    assert [item.result for item in outcomes.outcomes] == [Result.SKIPPED]
    assert run.cluster.changed_at is None


@pytest.mark.parametrize("arrived", [True, False])
def test_a_restart_whose_answer_was_lost_is_made_once(arrived: bool) -> None:
    run = Rolling()
    run.cluster.answers = [LOST] if arrived else [refusal(503, "down")]
    outcomes = run()
    assert [item.result for item in outcomes.outcomes] == [Result.RESTARTED]
    stamps = {
        patch.body["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT]
        for patch in run.cluster.patches
    }
    assert len(stamps) == 1
    assert len(run.cluster.patches) == (1 if arrived else 2)


def test_what_cannot_be_found_out_is_unknown_and_ends_the_run() -> None:
    run = Rolling()
    run.cluster.answers = [refusal(500, "etcdserver: request timed out")] * 5
    outcomes = run()
    assert [item.result for item in outcomes.outcomes] == [Result.UNKNOWN]
    assert outcomes.stop is Stop.OUTCOME


def test_a_refusal_that_the_deployment_confirms_is_one() -> None:
    run = Rolling()
    run.cluster.answers = [refusal(500, "failed calling webhook")] * 5
    assert [item.result for item in run().outcomes] == [Result.REFUSED]


def test_a_404_is_not_believed_of_a_deployment_that_is_there() -> None:
    run = Rolling()
    run.cluster.answers = [refusal(404, 'namespaces "shop" not found')]
    outcomes = run()
    assert [item.result for item in outcomes.outcomes] == [Result.REFUSED]
    assert outcomes.stop is Stop.REJECTED


def test_a_pod_that_is_protected_by_now_is_not_restarted() -> None:
    run = Rolling()
    outcomes = run(seen=lambda _: False, validate=lambda moves: {moves[0].pod.uid: "protected"})
    assert [item.because for item in outcomes.outcomes] == ["protected"]
    assert run.cluster.patches == []


def test_a_missing_right_is_named_with_the_manifest_that_grants_it() -> None:
    run = Rolling()
    run.cluster.answers = [NO_RIGHT]
    outcomes = run()
    assert outcomes.exit_code == ExitCode.RIGHTS_MISSING
    assert 'cannot patch resource "deployments"' in outcomes.stopped
    assert "k8s/components/surge" in outcomes.stopped


def test_where_no_login_is_accepted_no_right_is_said_to_be_missing() -> None:
    run = Rolling()
    run.cluster.answers = [refusal(401, "Unauthorized")]
    outcomes = run()
    assert outcomes.exit_code == ExitCode.RIGHTS_MISSING
    assert "Unauthorized" in outcomes.stopped
    assert "k8s/components/surge" not in outcomes.stopped


@rows(
    "lands_on, ready_after, gone_after, words",
    [
        (None, 5.0, 1e9, "made no new pod"),
        ("", 5.0, 1e9, "not bound"),
        ("cool", 1e9, 1e9, "not ready yet"),
        ("cool", 5.0, 1e9, "the new pod is ready on cool"),
    ],
)
def test_a_rolling_update_that_does_not_end_stops_the_run_and_says_how_to_undo_it(
    lands_on: Any, ready_after: float, gone_after: float, words: str
) -> None:
    run = Rolling()
    run.cluster.lands_on, run.cluster.ready_after, run.cluster.gone_after = lands_on, ready_after, gone_after
    outcomes = run()
    (outcome,) = outcomes.outcomes
    assert outcome.result is Result.ROLLOUT_STALLED
    assert words in outcome.because
    assert "the old pod still serves on hot" in outcome.because
    assert "kubectl -n shop rollout undo deployment/web" in outcome.because
    assert outcomes.exit_code == ExitCode.STOPPED


def test_a_new_pod_on_a_node_that_is_no_better_is_unexpected() -> None:
    run = Rolling()
    run.cluster.lands_on = "hot"
    assert [item.result for item in run().outcomes] == [Result.UNEXPECTED]
    elsewhere = Rolling()
    elsewhere.cluster.lands_on = "other"
    assert [item.result for item in elsewhere().outcomes] == [Result.RESTARTED_ELSEWHERE]


def test_the_next_run_knows_the_new_replica_set_and_leaves_the_workload_alone() -> None:
    run = Rolling()
    run()
    state = after_outcomes(None, run.checkpoints[-1], run.time.now, 86_400.0, "run-1")
    (move,) = state.moves
    assert (move.result, move.controller_uid, move.to_node) == ("Restarted", "rs-new", "cool")
    history = MoveHistory(state.moves)
    assert history.in_cooldown(run.time.now, 3600, workload="shop/Deployment/web") == move


def test_nothing_is_requested_once_runs_are_paused() -> None:
    run = Rolling()

    def safety() -> Safety:
        return Safety(pause=run.stream.getvalue().count("restarting") > 0)

    outcomes = run(safety=safety)
    assert run.cluster.patches == []
    assert outcomes.stop is Stop.BRAKE
    assert [item.result for item in outcomes.outcomes] == [Result.SKIPPED]


def test_the_event_is_written_on_the_deployment() -> None:
    time, sent = FakeTime(NOW), []

    def handler(request: Request) -> Answer:
        sent.append(request.body)
        return Answer(201, {})

    api, _ = fake_api(handler, time)
    EventWriter(api, "rebalancer", time.clock).evicted(a_restart())
    [event] = [event for event in sent if event["regarding"]["kind"] == "Deployment"]
    assert event["regarding"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "namespace": "shop",
        "name": "web",
        "uid": "uid-web",
    }
    assert event["action"] == "Restart"
    assert event["note"].startswith("Restarted, to move pod web-1 from hot")
