"""What changed between Kubernetes minors: what older schedulers do not see, and what reports say of it."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.load.raw_figures import RawFigures
from rebalancer.planning.inputs import Observation
from rebalancer.planning.scheduler_facts import scheduler_facts
from rebalancer.planning.scheduler_pods import pods_of_schedulers, versions_of
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.scheduling.registry import default_configuration
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions import verified
from rebalancer.scheduling.versions.release import REFERENCE, FeatureGates, Release, major_minor
from rebalancer.scheduling.versions.rules import RULES, as_seen_by
from rebalancer.scheduling.versions.verified import (
    COMPARED,
    VERIFIED,
    compared_prerelease,
    unpredictable_rule,
    verified_in_words,
    version_warnings,
    why_unverified,
    why_versions_differ,
)
from tests.builders import a_node, a_pod, a_snapshot, owned_by
from tests.rows import rows

V1 = "kubescheduler.config.k8s.io/v1"
SIDECAR = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
CONSTRAINT = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "minDomains": 3,
    "nodeTaintsPolicy": "Honor",
    "matchLabelKeys": ["hash"],
}


def requested_cpu(version: str, **pod: Any) -> int:
    snapshot = a_snapshot(nodes=[a_node("n")], pods=[a_pod("p", cpu="1", **pod)])
    return ClusterState.of(snapshot, Release.of(version)).classes.requests[0].incoming["cpu"]


@rows("version, milli", [("1.28", 1000), ("1.29", 1500), (REFERENCE, 1500), ("", 1500)])
def test_sidecars_count_beside_the_containers_since_1_29(version: str, milli: int) -> None:
    assert requested_cpu(version, initContainers=[SIDECAR]) == milli


@pytest.mark.parametrize(("version", "milli"), [("1.33", 100), ("1.37", 100), ("1.38", 3000)])
def test_pod_level_requests_of_the_incoming_pod_are_scored_since_1_38(version: str, milli: int) -> None:
    snapshot = a_snapshot(nodes=[a_node("n")], pods=[a_pod("p", resources={"requests": {"cpu": "3"}})])
    scored = ClusterState.of(snapshot, Release.of(version)).classes.requests[0].incoming_scored
    assert (scored["cpu"], scored["memory"]) == (milli, 200 << 20)


@pytest.mark.parametrize(("version", "milli"), [("1.33", 1000), ("1.34", 3000), (REFERENCE, 3000)])
def test_pod_level_resources_count_since_1_34(version: str, milli: int) -> None:
    assert requested_cpu(version, resources={"requests": {"cpu": "3"}}) == milli


@rows(
    "version, seen",
    [
        ("1.25", (None, None, None)),
        ("1.26", (None, "Honor", None)),
        ("1.27", (3, "Honor", ["hash"])),
        (REFERENCE, (3, "Honor", ["hash"])),
    ],
)
def test_fields_of_spread_constraints_are_seen_from_their_version_on(version: str, seen: Any) -> None:
    snapshot = a_snapshot(nodes=[a_node("n")], pods=[a_pod("p", topologySpreadConstraints=[CONSTRAINT])])
    (item,) = as_seen_by(Release.of(version), snapshot.pods.classes[0]).spec.topology_spread_constraints or []
    assert (item.min_domains, item.node_taints_policy, item.match_label_keys) == seen


RESIZED: dict[str, Any] = {
    "containers": [
        {"name": name, "resources": {"requests": {"cpu": "1"}}} for name in ("grows", "shrinks", "unseen")
    ]
}


def present_cpu(version: str, resize: str, statuses: list[dict[str, Any]], **of_pod: Any) -> int:
    pod = a_pod("p", node="n", **RESIZED)
    pod["status"] |= {"containerStatuses": statuses, **of_pod}
    pod["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": resize}]
    snapshot = a_snapshot(nodes=[a_node("n")], pods=[pod])
    return ClusterState.of(snapshot, Release.of(version)).classes.requests[0].present["cpu"]


@rows(
    "version, resize, milli",
    [
        ("1.36", "Deferred", 1000 + 3000 + 1000),  # of each container the larger
        ("1.37", "Deferred", 500 + 3000 + 1000),  # of all containers: actual; by spec they request 3000
        ("1.36", "Infeasible", 500 + 3000 + 1000),
        ("1.37", "Infeasible", 500 + 3000 + 0),  # of the container without a status nothing is known
    ],
)
def test_the_sums_over_all_containers_are_compared_since_1_37(version: str, resize: str, milli: int) -> None:
    statuses = [
        {"name": "grows", "resources": {"requests": {"cpu": "500m"}}},
        {"name": "shrinks", "resources": {"requests": {"cpu": "3"}}},
    ]
    assert present_cpu(version, resize, statuses) == milli


def test_what_the_pod_s_own_status_says_counts_instead_of_its_containers_since_1_37() -> None:
    of_pod = {"resources": {"requests": {"cpu": "6"}}, "allocatedResources": {"cpu": "7"}}
    assert present_cpu("1.37", "Deferred", [], **of_pod) == 7000
    assert present_cpu("1.36", "Deferred", [], **of_pod) == 3000


def test_the_pod_s_own_status_counts_instead_of_its_containers_also_where_it_is_as_its_spec_says() -> None:
    """It is not resized itself, but a container of it is: its status holds what all of them may have."""
    requests = {"cpu": "4"}
    pod = a_pod("p", node="n", **RESIZED, resources={"requests": requests})
    grown = {"name": "grows", "resources": {"requests": {"cpu": "1", "memory": "3Gi"}}}
    pod["status"] |= {
        "containerStatuses": [grown],
        "resources": {"requests": requests},
        "allocatedResources": requests,
    }
    snapshot = a_snapshot(nodes=[a_node("n")], pods=[pod])
    present = {
        version: ClusterState.of(snapshot, Release.of(version)).classes.requests[0].present
        for version in ("1.36", "1.37", "1.38")
    }
    assert present["1.36"] == {"cpu": 4000, "memory": 3 << 30}
    assert present["1.37"] == present["1.38"] == {"cpu": 4000}


def test_the_version_of_reference_sees_pods_as_they_are() -> None:
    pods = [a_pod("p", initContainers=[SIDECAR], topologySpreadConstraints=[CONSTRAINT])]
    pod = a_snapshot(nodes=[a_node("n")], pods=pods).pods.classes[0]
    assert as_seen_by(Release.of(REFERENCE), pod) is pod


def test_only_verified_versions_go_without_a_warning() -> None:
    for version in VERIFIED:
        own = default_configuration(version).api_version
        assert bool(version_warnings(version, own)) == bool(compared_prerelease(version))
    assert version_warnings("", V1) == (
        f"the scheduler's version is not known: the rules of {REFERENCE} are used, and run refuses to act; "
        "state it in scheduler.version",
    )
    (unread,) = version_warnings("1.99", V1)
    assert unread.startswith("scheduler 1.99: what changed after 1.38 is not known; run refuses to act on it")
    (alike,) = version_warnings("1.30", V1)
    assert alike.endswith("it decides alike")
    (old,) = version_warnings("1.27", V1)
    assert old.endswith("and 1 other")


def test_no_warning_says_that_a_run_refuses_what_the_policy_allows() -> None:
    for version in ("", "1.99", "1.27", "1.38"):
        refused = " ".join(version_warnings(version, V1))
        allowed = " ".join(version_warnings(version, V1, is_allowed=True))

        assert ("run refuses" in refused) == bool(refused)
        assert "refuses" not in allowed
        assert bool(allowed) == bool(refused)


def test_verified_minors_are_named_in_spans() -> None:
    named = verified_in_words().replace(" and ", ", ").split(", ")
    minors: list[int] = []
    for span in named:
        first, _, last = span.removeprefix("1.").partition(" to 1.")
        minors += range(int(first), int(last or first) + 1)
    assert [f"1.{minor}" for minor in minors] == list(VERIFIED)
    assert len(named) > 1


def a_class(**pod: Any) -> Any:
    return a_snapshot(nodes=[a_node("n")], pods=[a_pod("p", **pod)]).pods.classes[0]


CLAIMED = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
HUGE_PAGES = {"containers": [{"name": "c", "resources": {"requests": {"hugepages-2Mi": "2Mi"}}}]}
DEVICE = {
    "containers": [
        {"name": "c", "resources": {"requests": {"deviceclass.resource.kubernetes.io/large": "1"}}}
    ]
}
SPREAD_KEYS = "MatchLabelKeysInPodTopologySpread"
BY_LABEL = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"tier": "front"}},
    "matchLabelKeys": ["app"],
}
MERGED = {
    **BY_LABEL,
    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
}
GPU = {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]}


def test_an_unverified_version_is_acted_on_where_no_rule_that_differs_is_in_use() -> None:
    assert why_unverified("1.37", [a_class(**CLAIMED)]) == ""
    assert why_unverified("1.30", [a_class()]) == ""
    assert "sidecars" in why_unverified("1.28", [a_class(initContainers=[SIDECAR])])


PROVISIONAL: dict[str, dict[str, Any]] = {
    "scored pod-level requests": {"resources": {"requests": {"cpu": "2"}}},
    "empty spread selector": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ]
    },
}


@pytest.mark.parametrize("rule", PROVISIONAL)
def test_a_version_compared_before_its_release_is_acted_on_where_nothing_new_is_in_use(
    monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    new = a_class(**PROVISIONAL[rule])
    plain = a_class()

    monkeypatch.setattr(verified, "COMPARED", {**COMPARED, "1.38": "1.38.0-beta.0"})
    assert why_unverified("1.38", [plain]) == ""
    assert why_unverified("1.38", [plain, new]) == (
        f"1.38.0-beta.0 was compared, and {rule} may change until the release"
    )
    (warning,) = version_warnings("1.38", V1)
    assert "was compared as of 1.38.0-beta.0" in warning
    assert rule in warning
    assert why_unverified("1.37", [new]) == ""

    monkeypatch.setattr(verified, "COMPARED", {**COMPARED, "1.38": "1.38.0"})
    assert why_unverified("1.38", [plain, new]) == ""
    assert version_warnings("1.38", V1) == ()


def test_pods_of_several_versions_are_one_scheduler_where_all_decide_alike() -> None:
    new = a_class(**PROVISIONAL["scored pod-level requests"])
    assert why_versions_differ("1.37", (), [new]) == ""
    assert why_versions_differ("1.37", ("1.38",), [a_class()]) == ""
    assert why_versions_differ("1.37", ("1.38",), [a_class(), new]) == (
        "its pods have versions 1.37 and 1.38, which differ in scored pod-level requests"
    )
    assert "1.38 and 1.99: what changed after 1.38" in why_versions_differ("1.38", ("1.99",), [a_class()])


@pytest.mark.parametrize("version", ["", "1.39", "1.99"])
def test_a_version_of_which_nothing_was_read_is_never_acted_on(version: str) -> None:
    assert why_unverified(version, [])


@rows(
    "version, pod, unknown",
    [
        ("1.33", {"resources": {"requests": {"cpu": "1"}}}, ""),
        ("1.34", {"resources": {"requests": {"cpu": "1"}}}, "PodLevelResources"),
        ("1.35", GPU, ""),
        ("1.36", GPU, "DRAExtendedResource"),
        ("1.36", DEVICE, "DRAExtendedResource"),
        ("1.36", HUGE_PAGES, ""),
        ("1.36", {"hostNetwork": True, "hostUsers": False}, "NodeDeclaredFeatures"),
        ("1.36", CLAIMED, ""),
        ("1.37", CLAIMED, "StorageCapacityScoring"),
        ("1.33", {"labels": {"app": "web"}, "topologySpreadConstraints": [BY_LABEL]}, SPREAD_KEYS),
        ("1.36", {"labels": {"app": "web"}, "topologySpreadConstraints": [MERGED]}, ""),
        ("1.36", {"labels": {"app": "db"}, "topologySpreadConstraints": [MERGED]}, SPREAD_KEYS),
        ("1.36", {"topologySpreadConstraints": [BY_LABEL]}, ""),
        ("1.36", {}, ""),
    ],
)
def test_an_unknown_gate_makes_the_pods_it_concerns_unpredictable_and_no_others(
    version: str, pod: dict[str, Any], unknown: str
) -> None:
    release = Release.of(version, FeatureGates({}, others_are_default=False))
    reason = unpredictable_rule(release, a_class(**pod))
    assert unknown in reason
    assert bool(reason) is bool(unknown)
    if unknown:
        assert "scheduler.featureGates" in reason
        stated = Release.of(
            version, FeatureGates({unknown: False, "VolumeLimitScaling": False}, others_are_default=False)
        )
        assert unpredictable_rule(stated, a_class(**pod)) == ""


@rows(
    "version, gate, known",
    [
        ("1.31", "InPlacePodVerticalScaling", False),
        ("1.32", "InPlacePodVerticalScaling", False),
        ("1.33", "InPlacePodVerticalScaling", True),
        ("1.31", "PodLevelResources", True),
        ("1.32", "PodLevelResources", False),
        ("1.33", "PodLevelResources", True),
    ],
)
def test_a_gate_that_did_something_else_when_it_was_new_makes_every_pod_unpredictable(
    version: str, gate: str, known: bool
) -> None:
    on, off = (Release.of(version, FeatureGates({gate: state})) for state in (True, False))
    assert (unpredictable_rule(on, a_class()) == "") == known
    assert unpredictable_rule(off, a_class()) == ""


@pytest.mark.parametrize(
    ("version", "gate", "milli"), [("1.33", True, 3000), ("1.34", False, 1000), ("1.31", True, 1000)]
)
def test_a_stated_gate_decides_where_the_version_has_it(version: str, gate: bool, milli: int) -> None:
    pods = [a_pod("p", cpu="1", resources={"requests": {"cpu": "3"}})]
    release = Release.of(version, FeatureGates({"PodLevelResources": gate}))
    state = ClusterState.of(a_snapshot(nodes=[a_node("n")], pods=pods), release)
    assert state.classes.requests[0].incoming["cpu"] == milli


def test_label_keys_of_a_spread_constraint_are_not_looked_at_where_their_gate_is_closed() -> None:
    pod = a_class(labels={"app": "web"}, topologySpreadConstraints=[BY_LABEL])
    for state, keys in ((True, ["app"]), (False, None)):
        seen = as_seen_by(Release.of("1.36", FeatureGates({SPREAD_KEYS: state})), pod)
        assert [item.match_label_keys for item in seen.spec.topology_spread_constraints or ()] == [keys]


@rows(
    "api, version, readable",
    [
        ("v1beta2", "1.27", True),
        ("v1beta2", "1.28", False),
        ("v1", "1.24", False),
        ("v1beta3", REFERENCE, False),
    ],
)
def test_a_configuration_that_a_version_does_not_read_is_a_warning(
    api: str, version: str, readable: bool
) -> None:
    said = version_warnings(version, f"kubescheduler.config.k8s.io/{api}")
    assert any(f"does not read configurations of {api}" in line for line in said) is not readable


def test_every_rule_has_a_range_of_its_own_and_a_sentence() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.what and rule.range.count("1.") in (1, 2) for rule in RULES)


@rows(
    "text, version",
    [("v1.35.4", "1.35"), ("1.9", "1.9"), ("v1.31.2+k3s1", "1.31"), ("latest", ""), ("v1", ""), ("", "")],
)
def test_versions_are_read_as_kubernetes_writes_them(text: str, version: str) -> None:
    assert major_minor(text) == version


@rows(
    "image, versions",
    [
        ("registry.k8s.io/kube-scheduler:v1.34.2", ("1.34",)),
        ("registry.k8s.io/kube-scheduler:v1.34.2@sha256:0123", ("1.34",)),
        ("localhost:5000/scheduler-plugins/kube-scheduler:v0.31.8", ("1.31",)),
        ("registry.k8s.io/kube-scheduler:latest", ()),
        ("localhost:5000/kube-scheduler", ()),
        ("registry.k8s.io/kube-proxy:v1.34.2", ()),
    ],
)
def test_the_version_is_read_from_the_schedulers_pod(image: str, versions: tuple[str, ...]) -> None:
    snapshot = a_snapshot(
        nodes=[a_node("n")], pods=[a_pod("scheduler", node="n", containers=[{"name": "c", "image": image}])]
    )
    assert versions_of(pods_of_schedulers(snapshot)) == versions


def test_what_the_policy_states_goes_before_what_runs() -> None:
    image = "registry.k8s.io/kube-scheduler:v1.34.2"
    snapshot = a_snapshot(
        nodes=[a_node("n")],
        pods=[
            a_pod(
                "scheduler",
                node="n",
                owner=owned_by("Node", "n"),
                containers=[{"name": "c", "image": image}],
            )
        ],
    )

    def found(**scheduler: str) -> str:
        policy = RebalancePolicy.model_validate({"scheduler": scheduler})
        observation = Observation(snapshot, RawFigures(), 0.0, configurations={"": None})
        (facts,) = scheduler_facts(observation, LoadedPolicy(policy, "p.yaml", ""))
        return facts.version

    assert found() == "1.34"
    assert found(version="v1.35.1") == "1.35"
