"""The rights in k8s/ on a real API server with RBAC: enough for what its CronJobs start, each of them needed.

The commands are those of the CronJobs, as their service account. A right that nothing needs has no row in
the tables of this file, and a row whose right may be missing without any effect fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from rebalancer.cluster.kinds import KINDS, METRICS, PODS
from rebalancer.cluster.live import open_api
from rebalancer.cluster.live.watching import LiveCluster
from tests.conftest import SUMMARY
from tests.e2e import rights_cluster
from tests.e2e.api import Object, path_of
from tests.e2e.command import Finished
from tests.e2e.controlplane import ApiRefusedError
from tests.e2e.processes import wait_until
from tests.e2e.rights_cluster import HOT, SHOP
from tests.e2e.rights_of_the_account import (
    ACCOUNT,
    EVICT,
    OWN,
    READ,
    RIGHTS_MISSING,
    STOPPED,
    Cluster,
    Right,
    cluster,
    errors,
    fate,
    rights_of,
)

__all__ = ["cluster"]


# What the base grants


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


# What each right is needed for


@dataclass(frozen=True)
class Fails:
    """The command fails for want of rights, and one line says which."""

    text: str


@dataclass(frozen=True)
class Tells:
    """Of an app's pods on the hot node the plan says this, which it does not with the right."""

    app: str
    text: str


@dataclass(frozen=True)
class Warns:
    """The plan warns so, and says other things of what moves measure."""

    text: str
    method: str


def cannot(verb: str, resource: str, group: str = "") -> Fails:
    return Fails(f'cannot {verb} resource "{resource}" in API group "{group}"')


def unpredictable(app: str, *unread: str) -> Tells:
    return Tells(app, f"Unpredictable: where it would land depends on what was not read: {', '.join(unread)}")


def not_read(app: str, kinds: str) -> Tells:
    return Tells(app, f"Unpredictable: {kinds} were not read")


STORAGE = "storage.k8s.io"
# What a plan says, or does not say any more, without a right.
PLANS: dict[Right, Fails | Tells | Warns] = {
    Right(READ, group, resource, verb, name): effect
    for group, resource, verb, name, effect in (
        ("", "nodes", "list", "", cannot("list", "nodes")),
        ("", "pods", "list", "", cannot("list", "pods")),
        ("", "namespaces", "list", "", unpredictable("affine", "namespaces")),
        ("", "services", "list", "", unpredictable("web", "services")),
        ("", "replicationcontrollers", "list", "", not_read("legacy", "ReplicationControllers")),
        ("", "persistentvolumeclaims", "list", "", unpredictable("stored", "persistentvolumeclaims")),
        ("", "persistentvolumes", "list", "", unpredictable("stored", "persistentvolumes")),
        ("", "resourcequotas", "list", "", not_read("web", "quotas")),
        ("autoscaling", "horizontalpodautoscalers", "list", "", not_read("web", "HorizontalPodAutoscalers")),
        (
            "autoscaling.k8s.io",
            "verticalpodautoscalers",
            "list",
            "",
            not_read("web", "VerticalPodAutoscalers"),
        ),
        ("lifecycle.k8s.io", "evictionrequests", "list", "", not_read("web", "EvictionRequests")),
        ("lifecycle.k8s.io", "evictions", "list", "", not_read("web", "Evictions")),
        ("policy", "poddisruptionbudgets", "list", "", not_read("web", "disruption budgets")),
        ("apps", "replicasets", "list", "", not_read("web", "ReplicaSets")),
        ("apps", "statefulsets", "list", "", not_read("database", "StatefulSets")),
        ("apps", "deployments", "list", "", not_read("web", "Deployments")),
        ("batch", "jobs", "list", "", Tells("report", "JobWouldFail: Job report was not read")),
        ("scheduling.k8s.io", "priorityclasses", "list", "", not_read("urgent", "PriorityClasses")),
        (STORAGE, "storageclasses", "list", "", unpredictable("stored", "storageclasses")),
        (STORAGE, "csinodes", "list", "", unpredictable("stored", "csinodes")),
        (STORAGE, "volumeattachments", "list", "", unpredictable("stored", "volumeattachments")),
        (STORAGE, "csidrivers", "list", "", unpredictable("claiming", "csidrivers")),
        (STORAGE, "csistoragecapacities", "list", "", unpredictable("claiming", "csistoragecapacities")),
        ("metrics.k8s.io", "nodes", "list", "", cannot("list", "nodes", group="metrics.k8s.io")),
        ("metrics.k8s.io", "pods", "list", "", Warns("not read: podmetrics (list pods.metrics", "share")),
        ("", "configmaps", "get", "scheduler-config", cannot("get", "configmaps")),
        ("", "configmaps", "get", "custom-scheduler", cannot("get", "configmaps")),
    )
}


def settings_for(right: Right) -> Object:
    """A policy that makes use of a right."""
    if right.resource != "configmaps":
        return {}
    place = {"namespace": "scheduling", "name": right.name, "key": "scheduler-config.yaml"}
    return {"scheduler": {"version": "1.34", "allowUnverifiedVersion": True, "configMap": place}}


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


Shown = Callable[[Cluster, Right], None]


def _stops(verb: str, resource: str, group: str = "", *, again: bool = True) -> Shown:
    """Without the right a run ends before it evicts anything; ``again``: an earlier run left its traces."""

    def shown(cluster: Cluster, right: Right) -> None:
        if again:
            cluster.leave_traces()
        before = cluster.pods()

        finished = cluster.run(without=right)

        assert finished.exit_code == RIGHTS_MISSING
        assert len(errors(finished)) == 1, finished.stderr + finished.stdout
        assert cannot(verb, resource, group).text in errors(finished)[0]
        assert "Traceback" not in finished.stderr
        assert cluster.pods() == before

    return shown


def _evictions_are_refused(cluster: Cluster, right: Right) -> None:
    before = cluster.pods()

    finished = cluster.run(without=right)

    outcomes = finished.document
    assert finished.exit_code == RIGHTS_MISSING
    assert outcomes["stop"] == "Rights"
    assert 'cannot create resource "pods/eviction"' in outcomes["stopped"]
    assert {item["result"] for item in outcomes["outcomes"]} == {"Refused", "Skipped"}
    assert cluster.pods() == before


def _what_a_lost_answer_did_is_unknown(cluster: Cluster, right: Right) -> None:
    """A webhook that is out of reach makes the API server answer evictions with 500: was the pod evicted?"""
    api, before = cluster.control_plane.api, cluster.pods()
    api.create(rights_cluster.UNREACHABLE_WEBHOOK)
    try:
        with_right = cluster.run(limits=ONE)
        without = cluster.run(limits=ONE, without=right)
    finally:
        api.delete(path_of(rights_cluster.UNREACHABLE_WEBHOOK))

    (refused,), (unknown,) = with_right.document["outcomes"], without.document["outcomes"]
    assert refused["result"] == "Refused"
    assert refused["because"].endswith("the pod is still there")
    assert unknown["result"] == "Unknown"
    assert "the pod cannot be read: " in unknown["because"]
    assert 'cannot get resource "pods"' in unknown["because"]
    assert cluster.pods() == before


def _whether_the_scheduler_lives_is_unknown(cluster: Cluster, right: Right) -> None:
    with_right = cluster.run("--dry-run")
    without = cluster.run("--dry-run", without=right)

    assert (with_right.exit_code, without.exit_code) == (0, STOPPED)
    assert without.document["stop"] == "Brake"
    stopped = without.document["stopped"]
    assert stopped.startswith("whether the scheduler default-scheduler is alive is not known: ")
    assert cannot("list", *reversed(LEASES)).text in stopped
    assert "safety.unknownScheduler: proceed" in stopped


def _whether_runs_are_paused_is_unknown(cluster: Cluster, right: Right) -> None:
    before = cluster.pods()

    finished = cluster.run(without=right)

    assert finished.exit_code == RIGHTS_MISSING
    assert finished.document["stop"] == "Rights"
    assert cannot("get", *reversed(CONFIG_MAPS)).text in finished.document["stopped"]
    assert cluster.pods() == before


def _no_event_says_why_a_pod_went(cluster: Cluster, right: Right) -> None:
    before = len(cluster.events())

    finished = cluster.run(limits=ONE, without=right)

    assert finished.exit_code == 0
    assert [item["result"] for item in finished.document["outcomes"]] == ["Landed"]
    assert len(cluster.events()) == before


def _hot_nodes_recorded(cluster: Cluster) -> int:
    """How often a node was recorded that cannot be cooled, by the series of the events."""
    found = cluster.control_plane.api.list("/apis/events.k8s.io/v1/namespaces/default/events")
    events = [item for item in found if item.get("reason") == "CannotBeCooled"]
    return sum((item.get("series") or {}).get("count", 1) for item in events)


def _the_series_of_a_hot_node_does_not_grow(cluster: Cluster, right: Right) -> None:
    before = _hot_nodes_recorded(cluster)
    for _ in range(2):
        assert cluster.run(limits=NOTHING).exit_code == 0
    recorded = _hot_nodes_recorded(cluster)
    assert recorded == before + 2

    assert cluster.run(limits=NOTHING, without=right).exit_code == 0
    assert _hot_nodes_recorded(cluster) == recorded


ONE = {"perRun": 1, "perNode": 1, "perNamespace": 1, "perWorkload": "100%"}
NOTHING = ONE | {"perRun": 0}
LEASES, CONFIG_MAPS = ("coordination.k8s.io", "leases"), ("", "configmaps")
# What a run does, or does not do any more, without a right.
RUNS: dict[Right, Shown] = {
    Right(EVICT, "", "pods/eviction", "create"): _evictions_are_refused,
    Right(EVICT, "", "pods", "get"): _what_a_lost_answer_did_is_unknown,
    Right(READ, *LEASES, "list", "kube-scheduler"): _whether_the_scheduler_lives_is_unknown,
    Right(OWN, *LEASES, "get", "rebalancer"): _stops("get", "leases", LEASES[0]),
    Right(OWN, *LEASES, "update", "rebalancer"): _stops("update", "leases", LEASES[0]),
    Right(OWN, *LEASES, "create"): _stops("create", "leases", LEASES[0], again=False),
    Right(OWN, *CONFIG_MAPS, "get", "rebalancer-state"): _stops("get", "configmaps"),
    Right(OWN, *CONFIG_MAPS, "get", "rebalancer-pause"): _whether_runs_are_paused_is_unknown,
    Right(OWN, *CONFIG_MAPS, "update", "rebalancer-state"): _stops("update", "configmaps"),
    Right(OWN, *CONFIG_MAPS, "create"): _stops("create", "configmaps", again=False),
    Right(EVICT, "events.k8s.io", "events", "create"): _no_event_says_why_a_pod_went,
    Right(EVICT, "events.k8s.io", "events", "get"): _the_series_of_a_hot_node_does_not_grow,
    Right(EVICT, "events.k8s.io", "events", "update"): _the_series_of_a_hot_node_does_not_grow,
}


def test_every_right_of_the_manifests_is_shown_to_be_needed(cluster: Cluster) -> None:
    watching = {right for right in cluster.rights if right.verb == "watch"}
    assert {(right.group, right.resource) for right in watching} == {
        (kind.group, kind.resource or kind.plural) for kind in KINDS if kind not in METRICS
    }
    assert cluster.rights - watching == set(PLANS) | set(RUNS)


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
        return set(live.watched)


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


# What nothing grants

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
    ("DELETE", "/api/v1/namespaces/rebalancer/configmaps/rebalancer-pause", None),
    ("PUT", "/api/v1/namespaces/rebalancer/configmaps/rebalancer-pause", {}),
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


# What the overlay grants is enough


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
    assert len(cluster.events()) == known + len(outcomes)
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
