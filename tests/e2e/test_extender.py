"""A stock kube-scheduler that is scored for by ``rebalancer extender``, as shipped, and a run over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.conftest import SUMMARY
from tests.e2e import assets
from tests.e2e.api import Api, Object
from tests.e2e.clusters import deployment
from tests.e2e.command import Rebalancer
from tests.e2e.controlplane import ControlPlane
from tests.e2e.extender_stacks import EXAMPLES, SECOND, place_one, placed, prepare, started
from tests.e2e.processes import wait_until

RecordProperty = Callable[[str, object], None]


@pytest.fixture
def stack(control_plane: ControlPlane) -> ControlPlane:
    """The article's three nodes with 21, 17 and 25 pods, and the manifests applied."""
    control_plane.start()
    prepare(control_plane)
    return control_plane


def test_pods_land_where_the_articles_scores_say_and_a_run_follows_them(
    stack: ControlPlane, tmp_path: Path, record_property: RecordProperty
) -> None:
    api = stack.api
    assert place_one(stack, "pods-per-node") == ("node2", {"node1": 80, "node2": 84, "node3": 77})
    # The others do not count pods: what was placed before changes nothing.
    assert place_one(stack, "network-traffic") == ("node2", {"node1": 0, "node2": 30, "node3": 10})
    where, scores = place_one(stack, "trimaran")
    assert where == "node2"
    assert scores["node2"] > scores["node1"] > scores["node3"] == 0

    with started(stack, "pods-per-node") as (extender, configuration):
        _keep(api, configuration, extender.file.read_text())
        stack.start_scheduler(configuration, SECOND)
        _only_schedulable(api, "node3")
        for number in range(8):
            api.create(deployment(f"web-{number}", 5, scheduler=SECOND))
        wait_until(lambda: len(_web(api)) == 40 and all(_web(api).values()), "40 pods fill one node")
        stack.wait_for_pods("/api/v1/namespaces/default/pods")
        _only_schedulable(api, "node1", "node2", "node3")
        policy = _policy(extender.url)
        rebalancer = Rebalancer(tmp_path, stack.kubeconfig(), yaml.safe_dump(policy))

        run = rebalancer.run("--lease=default/rebalancer")

        assert run.exit_code == 0, run.stderr
        outcomes = run.document["outcomes"]
        assert len(outcomes) == policy["limits"]["perNode"]
        assert {(item["move"]["from"], item["result"]) for item in outcomes} == {("node3", "Landed")}
        predicted = [item["node"] in {at["node"] for at in item["move"]["landings"]} for item in outcomes]
        assert all(predicted), outcomes
        landed = Counter(item["node"] for item in outcomes)

        # A file that cannot be used changes nothing; one that can is in force within moments.
        good = extender.file.read_text()
        extender.file.write_text(good.replace("PodCapacityOfNode", "PodCapacityOfNodes"))
        wait_until(lambda: extender.metric("rebalancer_extender_scores_current") == 0, "the file is refused")
        assert "did you mean PodCapacityOfNode?" in extender.program.log.read_text()
        extender.file.write_text(good)
        wait_until(lambda: extender.metric("rebalancer_extender_scores_current") == 1, "it is in force")
        assert extender.metric("rebalancer_extender_refused_total") == 0
        record_property(
            SUMMARY,
            f"e2e extender: the three stacks of the articles score 80/84/77, 0/30/10 and"
            f" {scores['node1']}/{scores['node2']}/{scores['node3']} through a stock kube-scheduler;"
            f" {len(outcomes)} pods evicted, {sum(predicted)} landed as predicted, on {dict(landed)}",
        )


def _policy(url: str) -> Object:
    """The example's policy for pods that are minutes old, and for a scheduler outside the cluster."""
    policy: Object = yaml.safe_load((EXAMPLES / "pods-per-node" / "policy.yaml").read_text())
    policy["scheduler"] |= {"version": assets.MINOR}
    policy["scheduler"]["extenders"][0]["urlPrefix"] = url
    policy["load"]["sources"] = [{"requests": {}}]
    policy["evictable"] |= {"minAge": "0s"}
    policy["limits"] |= {"perWorkload": "100%", "perNode": 6, "perNamespace": 6}
    policy["safety"] = {"unknownScheduler": "proceed"}
    return policy


def _keep(api: Api, configuration: str, scores: str) -> None:
    path = "/api/v1/namespaces/scheduler-plugins/configmaps/scheduler-config"
    api.patch(path, {"data": {"scheduler-config.yaml": configuration, "scores.yaml": scores}})


def _web(api: Api) -> dict[str, str]:
    return {name: where for name, where in placed(api, SECOND).items() if name.startswith("web-")}


def _only_schedulable(api: Api, *names: str) -> None:
    for item in api.list("/api/v1/nodes"):
        name = item["metadata"]["name"]
        api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None if name in names else True}})
