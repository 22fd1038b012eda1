"""The rights in k8s/ on a real API server with RBAC: enough for what its CronJobs start, each of them needed.

The commands are those of the CronJobs, as their service account. A right that nothing needs has no row in
the tables that it reads, and a row whose right may be missing without any effect fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rebalancer.cluster.kinds import KINDS, METRICS, PODS
from rebalancer.cluster.live import open_api
from rebalancer.cluster.live.watching import LiveCluster
from tests.conftest import SUMMARY
from tests.e2e.command import Finished
from tests.e2e.controlplane import ApiRefusedError
from tests.e2e.processes import wait_until
from tests.e2e.rights_cluster import HOT, SHOP
from tests.e2e.rights_of_plans import PLANS, Fails, Tells, settings_for
from tests.e2e.rights_of_runs import RUNS
from tests.e2e.rights_of_the_account import (
    ACCOUNT,
    READ,
    RIGHTS_MISSING,
    Cluster,
    Right,
    cluster,
    errors,
    fate,
    rights_of,
)

__all__ = ["cluster"]


def test_the_read_only_role_is_enough_to_plan(cluster: Cluster) -> None:
    finished = cluster.plan()

    assert (errors(finished), finished.exit_code) == ([], 0)
    assert finished.document["moves"]
    assert not [warning for warning in finished.document["warnings"] if "not read" in warning]


def test_a_run_with_the_read_only_role_evicts_nothing_and_says_which_right_is_missing(
    cluster: Cluster,
) -> None:
    cluster.grant(cluster.base)
    before = cluster.pods()

    finished = cluster.start_run()

    assert finished.exit_code == RIGHTS_MISSING
    assert [line for line in errors(finished) if 'cannot get resource "leases"' in line]
    assert "Traceback" not in finished.stderr
    assert cluster.pods() == before


@pytest.fixture(scope="module")
def informed(cluster: Cluster) -> Finished:
    """A plan with all rights to read."""
    finished = cluster.plan()
    assert finished.exit_code == 0
    return finished


@pytest.mark.parametrize("right", PLANS, ids=str)
def test_without_this_right_a_plan_fails_or_says_what_is_unknown(
    cluster: Cluster, informed: Finished, right: Right
) -> None:
    effect, settings = PLANS[right], settings_for(right)
    if settings:
        assert cluster.plan(**settings).exit_code == 0

    finished = cluster.plan(without=right, **settings)

    assert "Traceback" not in finished.stderr
    if isinstance(effect, Fails):
        assert finished.exit_code == RIGHTS_MISSING
        assert len(errors(finished)) == 1
        assert effect.text in errors(finished)[0]
        return
    assert finished.exit_code == 0
    if isinstance(effect, Tells):
        assert fate(finished, effect.app)
        assert [text for text in fate(finished, effect.app) if not text.startswith(effect.text)] == []
        assert not [text for text in fate(informed, effect.app) if text.startswith(effect.text)]
        return
    assert [text for text in finished.document["warnings"] if text.startswith(effect.text)]
    assert {move["loadMethods"]["cpu"] for move in finished.document["moves"]} == {effect.method}
    assert {move["loadMethods"]["cpu"] for move in informed.document["moves"]} == {"measured"}


def test_every_right_of_the_manifests_is_shown_to_be_needed(cluster: Cluster) -> None:
    watching = {right for right in cluster.rights if right.verb == "watch"}
    assert {(right.group, right.resource) for right in watching} == {
        (kind.group, kind.resource or kind.plural) for kind in KINDS if kind not in METRICS
    }
    # Asked where nodes say that they are AKS's, which alone serves the kind: test_configuration_of_aks.py.
    of_aks = {right for right in cluster.rights if right.group == "aks.azure.com"}
    assert {(right.resource, right.verb, right.name) for right in of_aks} == {
        ("schedulerconfigurations", "get", "upstream")
    }
    assert cluster.rights - watching - of_aks == set(PLANS) | set(RUNS)


def watched_by_the_account(cluster: Cluster) -> set[str]:
    """The kinds that our account reads by watches the second time, however few objects they have."""
    kubeconfig = cluster.control_plane.kubeconfig(cluster.token)
    with LiveCluster(open_api(kubeconfig), watch_above=-1) as live:
        live.current()
        wait_until(
            lambda: all(feed.over or feed.connected for feed in live.feeds.values()),
            "every watch is answered, or was refused",
        )
        assert len(live.current().listings[PODS.plural])
        return {kind.plural for kind in live.feeds}


def test_the_rights_to_watch_are_enough_to_watch_and_without_them_everything_is_listed(
    cluster: Cluster,
) -> None:
    cluster.grant(cluster.base)
    assert watched_by_the_account(cluster) >= {
        kind.plural for kind in KINDS if kind not in METRICS and not kind.optional
    }
    watch = {right for right in cluster.rights if right.verb == "watch"}
    for role in cluster.roles:
        if role["metadata"]["name"] == READ:
            rules = [right.rule for right in sorted(rights_of(role) - watch)]
            cluster.control_plane.api.apply({**role, "rules": rules})
    wait_until(lambda: not any(map(cluster.allows, watch)), "no right to watch")
    cluster.granted = cluster.granted - watch
    assert watched_by_the_account(cluster) == set()


@pytest.mark.parametrize("right", RUNS, ids=str)
def test_without_this_right_a_run_stops_or_says_what_is_unknown(cluster: Cluster, right: Right) -> None:
    cluster.forget()
    RUNS[right](cluster, right)


FORBIDDEN: tuple[tuple[str, str, object], ...] = (
    ("GET", "/api/v1/secrets", None),
    ("GET", "/api/v1/namespaces/rebalancer/secrets/any", None),
    ("GET", f"/api/v1/namespaces/{SHOP}/configmaps", None),
    ("GET", "/api/v1/namespaces/kube-system/configmaps/kubeadm-config", None),
    ("DELETE", f"/api/v1/namespaces/{SHOP}/pods/any", None),
    ("DELETE", f"/api/v1/namespaces/{SHOP}/pods", None),
    ("POST", f"/api/v1/namespaces/{SHOP}/pods", {}),
    ("PATCH", f"/api/v1/namespaces/{SHOP}/pods/any", {}),
    ("POST", f"/api/v1/namespaces/{SHOP}/pods/any/exec?command=id", None),
    ("POST", f"/api/v1/namespaces/{SHOP}/pods/any/binding", {}),
    ("GET", f"/api/v1/namespaces/{SHOP}/pods/any/log", None),
    ("PATCH", f"/api/v1/nodes/{HOT}", {"spec": {"unschedulable": True}}),
    ("PATCH", f"/apis/apps/v1/namespaces/{SHOP}/deployments/web", {"spec": {"replicas": 0}}),
    ("PATCH", f"/apis/apps/v1/namespaces/{SHOP}/deployments/web/scale", {"spec": {"replicas": 0}}),
    ("DELETE", f"/apis/policy/v1/namespaces/{SHOP}/poddisruptionbudgets/any", None),
    ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", None),
    ("DELETE", "/apis/coordination.k8s.io/v1/namespaces/rebalancer/leases/rebalancer", None),
    ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler", {}),
    ("DELETE", "/api/v1/namespaces/rebalancer/configmaps/rebalancer-state", None),
    ("POST", "/api/v1/namespaces/rebalancer/serviceaccounts/rebalancer/token", {}),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {}),
    ("GET", "/api/v1/secrets?watch=1", None),
)


@pytest.mark.parametrize(
    ("method", "path", "body"), FORBIDDEN, ids=[f"{row[0]} {row[1]}" for row in FORBIDDEN]
)
def test_even_the_account_that_acts_may_not(cluster: Cluster, method: str, path: str, body: object) -> None:
    cluster.grant(cluster.active)
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"

    with pytest.raises(ApiRefusedError) as refused:
        cluster.account.request(method, path, body, content_type=content_type)

    assert refused.value.status == 403


def test_the_cron_job_of_the_overlay_cools_the_hot_node(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    cluster.forget()
    known = len(cluster.events())
    before = cluster.pods()

    finished = cluster.run()

    outcomes = finished.document["outcomes"]
    after = cluster.pods()
    api = cluster.control_plane.api
    assert (finished.exit_code, errors(finished)) == (0, [])
    assert outcomes
    assert {item["result"] for item in outcomes} == {"Landed"}
    assert len(set(before) - set(after)) == len(outcomes)
    assert HOT not in {after[uid] for uid in set(after) - set(before)}
    assert len(cluster.events()) == known + 2 * len(outcomes)  # on the ReplicaSet, and on the Deployment
    evicted = [line for line in finished.journal if line.get("event") == "evicted"]
    assert len(evicted) == len(outcomes)
    lease = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{ACCOUNT[0]}/leases/rebalancer")
    assert not lease["spec"].get("holderIdentity")
    state = api.get(f"/api/v1/namespaces/{ACCOUNT[0]}/configmaps/rebalancer-state")
    assert len(json.loads(state["data"]["state.json"])["moves"]) == len(outcomes)
    cooled = cluster.plan().document
    assert not [node for node in cooled["nodes"] if node["hot"]]
    record_property(
        SUMMARY,
        f"e2e rights: {len(PLANS) + len(RUNS)} of {len(cluster.rights)} rights of k8s/ shown to be needed, "
        f"{len(FORBIDDEN)} other requests answered with 403, {len(outcomes)} pods moved with no more",
    )
