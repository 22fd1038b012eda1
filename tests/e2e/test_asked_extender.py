"""A scheduler asks an extender of others, and so do we: its decisions and landings are as computed."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import loopback
from tests.conftest import SUMMARY
from tests.e2e import assets
from tests.e2e.clusters import deployment, node
from tests.e2e.command import Rebalancer
from tests.e2e.controlplane import ControlPlane
from tests.e2e.processes import wait_until

pytestmark = pytest.mark.safety  # what is agreed with is what is planned with

DECISIONS = 40
REJECTED = "n5"
SCORES = {"n0": 2, "n1": 9, "n2": 5, "n3": 9, "n4": 7, REJECTED: 10}  # n1 and n3 differ by what plugins score
APPS = [f"web-{number}" for number in range(4)]
PODS = "/api/v1/namespaces/default/pods"
Object = dict[str, object]


class Extender:
    """It rejects one node, scores the others by a table, and counts who asked."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, bool]] = Counter()  # by verb, and whether it was us

    def answer(self, request: loopback.Request) -> loopback.Answer:
        """What it says to the scheduler, and to whoever asks as the scheduler does."""
        body, verb = json.loads(request.body), request.path.rpartition("/")[2]
        self.asked[verb, body["Pod"]["metadata"]["name"].endswith("-asked-about")] += 1
        names = body["NodeNames"]
        said: object = {"NodeNames": [name for name in names if name != REJECTED]}
        if verb == "prioritize":
            said = [{"Host": name, "Score": SCORES[name]} for name in names]
        return loopback.Answer(json.dumps(said).encode(), headers={"Content-Type": "application/json"})


@pytest.fixture
def scene(control_plane: ControlPlane) -> Iterator[tuple[ControlPlane, Extender, str]]:
    """Six nodes, the extender behind the scheduler, and a policy that has it asked."""
    extender = Extender()
    with loopback.answering(extender.answer) as url:
        settings = {"urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize"}
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [{**settings, "weight": 2, "nodeCacheCapable": True}],
        }
        control_plane.start(scheduler=json.dumps(configuration))
        for name in SCORES:
            control_plane.api.create(node(name, cpu="4"))
        policy = {
            "apiVersion": "rebalancer/v1alpha1",
            "kind": "RebalancePolicy",
            "metadata": {"name": "asked"},
            "scheduler": {
                "version": assets.MINOR,
                "cores": 2,
                "inline": configuration,
                "extenders": [{"urlPrefix": url, "ask": True}],
            },
            "load": {"sources": [{"requests": {}}]},
            "hotNodes": {"forRuns": 1, "any": [{"utilization": {"cpu": 50}}]},
            "evictable": {"minAge": "0s"},
            "limits": {"perRun": 6, "perNode": 6, "perNamespace": 6, "perWorkload": "100%"},
            "safety": {"unknownScheduler": "proceed"},
        }
        yield control_plane, extender, json.dumps(policy)


def test_what_an_extender_of_others_answers_decides_as_computed_and_a_run_follows_it(
    scene: tuple[ControlPlane, Extender, str], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    control_plane, extender, policy = scene
    api = control_plane.api
    for app in APPS:
        api.create(deployment(app, 1, cpu="300m"))
    wait_until(lambda: len(api.list(PODS)) == len(APPS), "each Deployment has its pod")
    rebalancer = Rebalancer(tmp_path, control_plane.kubeconfig(), policy)

    with scaling(control_plane):
        process = rebalancer.start("agreement", "--for=120s", f"--decisions={DECISIONS}")
        stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    found = json.loads(stdout)
    assert (found["decisions"], found["landed"]) == (DECISIONS, DECISIONS), found["misses"]
    assert not found["unpredictable"], found["unpredictable"]

    only_schedulable(control_plane, "n0")
    api.create(deployment("late", 10, cpu="300m"))
    wait_until(lambda: on(control_plane, "late") == {"n0": 10}, "ten pods are on one node")
    for app in APPS:
        api.patch(f"/apis/apps/v1/namespaces/default/deployments/{app}", {"spec": {"replicas": 1}})
    wait_until(lambda: len(api.list(PODS)) == len(APPS) + 10, "the other Deployments are small again")
    control_plane.wait_for_pods(PODS)
    only_schedulable(control_plane, *SCORES)
    run = rebalancer.run("--lease=default/rebalancer")

    assert run.exit_code == 0, run.stderr
    outcomes = run.document["outcomes"]
    landed = Counter(item["node"] for item in outcomes)
    assert {(item["move"]["from"], item["result"]) for item in outcomes} == {("n0", "Landed")}
    predicted = [item["node"] in {at["node"] for at in item["move"]["landings"]} for item in outcomes]
    assert all(predicted), outcomes
    assert REJECTED not in landed
    assert min(extender.asked[verb, True] for verb in ("filter", "prioritize")) >= len(APPS)
    record_property(
        SUMMARY,
        f"e2e asked extender: {found['landed']} of {found['decisions']} decisions as computed,"
        f" {len(outcomes)} pods evicted, {sum(predicted)} landed as predicted, on {dict(landed)};"
        f" asked {extender.asked['filter', True]} times by us and {extender.asked['filter', False]} by it",
    )


@contextmanager
def scaling(control_plane: ControlPlane) -> Iterator[None]:
    """Deployments that grow and shrink within this block, four pods and none in turn."""
    stop = threading.Event()

    def scale() -> None:
        number = 0
        while not stop.wait(0.5):
            number += 1
            path = f"/apis/apps/v1/namespaces/default/deployments/{APPS[number % len(APPS)]}"
            control_plane.api.patch(path, {"spec": {"replicas": 5 if number // len(APPS) % 2 else 1}})

    thread = threading.Thread(target=scale)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def on(control_plane: ControlPlane, app: str) -> Counter[str]:
    """How many pods of an app are on each node."""
    return Counter(
        pod["spec"].get("nodeName", "")
        for pod in control_plane.api.list(PODS)
        if pod["metadata"]["labels"]["app"] == app
    )


def only_schedulable(control_plane: ControlPlane, *names: str) -> None:
    """Cordon the other nodes."""
    for name in SCORES:
        unschedulable = None if name in names else True
        control_plane.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": unschedulable}})
