"""Every field of a pod's spec has a verdict: what it means when a template has it and its pods do not."""

from __future__ import annotations

from typing import Any

import msgspec

from rebalancer.cluster.pod_classes import NO_OWNER, PodClass
from rebalancer.cluster.records import LabelSelector, Metadata, PodSpec, PodTemplate
from rebalancer.cluster.wire.known_fields import NOT_READ
from rebalancer.planning.plan import Plan
from rebalancer.planning.workloads.templates import Verdict, differences
from tests.builders import a_node
from tests.kubernetes_api.fields import fields_of
from tests.rows import rows
from tests.unit.planning.builders import a_workload, because, kept, moved, plan_of, planning_inputs

EDITED, OUTSIDE, BOUND, LEFT = "differs from its template", "of its template", "names node", ""
CONTAINER: dict[str, Any] = {"name": "side", "image": "s"}
TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
# A value that a template may have, and what the plan says of pods that are without it.
VERDICTS: dict[str, tuple[Any, str]] = {
    "nodeName": ("hot", BOUND),
    "schedulingGates": ([{"name": "x"}], OUTSIDE),
    "resourceClaims": ([{"name": "g", "resourceClaimTemplateName": "t"}], OUTSIDE),
    "schedulingGroup": ({"podGroupName": "g"}, OUTSIDE),
    "workloadRef": ({"name": "w", "podGroup": "g"}, OUTSIDE),
    "runtimeClassName": ("kata", OUTSIDE),
    "nodeSelector": ({"pool": "x"}, EDITED),
    "tolerations": ([{"key": "k", "operator": "Exists"}], EDITED),
    "affinity": ({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}, EDITED),
    "topologySpreadConstraints": (
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        EDITED,
    ),
    "schedulerName": ("other", EDITED),
    "overhead": ({"cpu": "5"}, EDITED),
    "priority": (7, EDITED),
    "priorityClassName": ("high", "PriorityClass high"),
    "preemptionPolicy": ("Never", EDITED),
    "hostNetwork": (True, EDITED),
    "hostUsers": (False, EDITED),
    "resources": ({"requests": {"cpu": "9"}}, EDITED),
    "restartPolicy": ("OnFailure", EDITED),
    "containers": ([{**CONTAINER, "name": "other"}], EDITED),
    "initContainers": ([CONTAINER], EDITED),
    "volumes": ([{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}], EDITED),
    # Where the next pod runs does not depend on how long this one takes to stop.
    "terminationGracePeriodSeconds": (4000, LEFT),
    "activeDeadlineSeconds": (4000, LEFT),
}
FIELDS = sorted(fields_of("core/v1.PodSpec"))
LEFT_UNREAD = {name for _, fields in NOT_READ["PodSpec"] for name in fields}


def plan_with(field: str, value: Any) -> Plan:
    workload = a_workload("web", ["hot", "hot", "cold"], cpu="3", template={field: value})
    nodes = [a_node("hot", cpu=7), a_node("cold", cpu=100)]
    classes = [{"metadata": {"name": "high"}, "value": 7}]
    return plan_of(planning_inputs(nodes, [workload], priorityclasses=classes))


def test_each_field_of_a_spec_has_one_verdict() -> None:
    assert {*VERDICTS, *LEFT_UNREAD} == set(FIELDS)


@rows("field", FIELDS)
def test_a_template_with_a_field_that_its_pods_lack_moves_none_unless_it_decides_nothing(field: str) -> None:
    value, said = VERDICTS.get(field, ("x", LEFT))
    plan = plan_with(field, value)

    if said == LEFT:
        assert moved(plan) == {"web-0": "cold"}
    else:
        assert moved(plan) == {}
        assert said in because(plan, "web-0")
        expected = "NoBetterLanding" if field == "nodeName" else "Unpredictable"
        assert set(kept(plan).values()) == {expected}


def test_a_field_that_a_newer_api_server_writes_into_a_template_makes_it_unpredictable() -> None:
    plan = plan_with("gpuShare", 0)

    assert moved(plan) == {}
    assert "its spec has gpuShare, which this version of rebalancer does not know" in because(plan, "web-0")


def verdict(field: str, wanted: Any, actual: Any, known: tuple[str, ...] = ()) -> Verdict:
    """What a field of pods that have ``actual`` says of a template that has ``wanted``."""
    specs = [msgspec.convert({} if value is None else {field: value}, PodSpec) for value in (wanted, actual)]
    pod = PodClass("default", {}, NO_OWNER, specs[1], (), False)
    return differences(PodTemplate(Metadata(), specs[0]), pod, known).get(field, Verdict.ALIKE)


def containers(*more: dict[str, Any], **main: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "image": "docker.io/library/app:v1", **main}, *more]


def affinity(*keys: str, required: bool = True) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}
    if not required:
        return {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]
            }
        }
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


REQUESTS = {"resources": {"requests": {"cpu": "1"}}}
LIMITS = {"resources": {"limits": {"cpu": "1"}}}
BOTH = {**LIMITS["resources"], **REQUESTS["resources"]}
MORE = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}}


@rows(
    "field, wanted, actual, expected",
    [
        ("hostNetwork", None, False, Verdict.ALIKE),
        ("hostUsers", None, False, Verdict.EDITED),
        ("priority", None, 7, Verdict.ALIKE),
        ("preemptionPolicy", None, "Never", Verdict.ALIKE),
        ("priorityClassName", None, "standard", Verdict.ADDED),
        ("priorityClassName", "high", "standard", Verdict.EDITED),
        ("schedulerName", None, "default-scheduler", Verdict.ALIKE),
        ("schedulerName", "default-scheduler", "yunikorn", Verdict.ADDED),
        ("schedulerName", "batch", "yunikorn", Verdict.EDITED),
        ("overhead", None, {"cpu": "1"}, Verdict.ADDED),
        ("runtimeClassName", None, "kata", Verdict.ADDED),
        ("restartPolicy", None, "Always", Verdict.ALIKE),
        ("nodeSelector", {"a": "1"}, {"a": "1", "b": "2"}, Verdict.ADDED),
        ("nodeSelector", {"a": "1"}, {"a": "2"}, Verdict.EDITED),
        ("containers", containers(), containers(CONTAINER), Verdict.ADDED),
        ("containers", containers(CONTAINER), containers(), Verdict.EDITED),
        ("containers", containers(**LIMITS), containers(resources=BOTH), Verdict.ALIKE),
        ("containers", containers(**REQUESTS), containers(**MORE), Verdict.ADDED),
        ("containers", containers(**MORE), containers(**REQUESTS), Verdict.EDITED),
        ("containers", containers(), containers(image="mirror:5000/app:v1"), Verdict.ADDED),
        ("containers", containers(), containers(image="docker.io/library/app:v1@sha256:0a"), Verdict.ADDED),
        ("containers", containers(), containers(image="docker.io/library/app:v2"), Verdict.EDITED),
        ("containers", containers(), containers(ports=[{"hostPort": 80}]), Verdict.ADDED),
        ("initContainers", [CONTAINER], [{**CONTAINER, "restartPolicy": "Always"}], Verdict.EDITED),
        ("resources", LIMITS["resources"], BOTH, Verdict.ADDED),
        ("affinity", None, affinity("a"), Verdict.ADDED),
        ("affinity", affinity("a"), affinity("a", "b"), Verdict.ADDED),
        ("affinity", affinity("a", "b"), affinity("a"), Verdict.EDITED),
        ("affinity", affinity("a", required=False), affinity("b", required=False), Verdict.EDITED),
        ("affinity", affinity("a"), None, Verdict.EDITED),
    ],
)  # fmt: skip
def test_what_admission_adds_is_told_from_what_it_never_does(
    field: str, wanted: Any, actual: Any, expected: Verdict
) -> None:
    assert verdict(field, wanted, actual) is expected


def test_what_all_of_admission_is_known_of_must_be_equal() -> None:
    assert verdict("overhead", None, {"cpu": "1"}, ("overhead",)) is Verdict.EDITED


def selector(*keys: str) -> LabelSelector:
    return msgspec.convert(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": key, "operator": "In", "values": ["5d4f"]} for key in keys],
        },
        LabelSelector,
    )


@rows("field", ["topologySpreadConstraints", "affinity"])
@rows("merged, expected", [("pod-template-hash", Verdict.ALIKE), ("track", Verdict.EDITED)])
def test_what_the_api_server_merges_for_match_label_keys_is_no_difference(
    field: str, merged: str, expected: Verdict
) -> None:
    def value(*keys: str) -> Any:
        item = {
            "topologyKey": "zone",
            "matchLabelKeys": ["pod-template-hash"],
            "labelSelector": msgspec.to_builtins(selector(*keys)),
        }
        if field == "affinity":
            return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [item]}}
        return [item]

    assert verdict(field, value(), value(merged)) is expected


KATA: dict[str, Any] = {
    "metadata": {"name": "kata"},
    "overhead": {"podFixed": {"cpu": "1"}},
    "scheduling": {
        "nodeSelector": {"runtime": "kata"},
        "tolerations": [{"key": "kata", "operator": "Exists"}],
    },
}


def plan_of_kata(runtime_class: dict[str, Any] | None, *, unread: bool = False, **pod: Any) -> Plan:
    """Plan a single replica that admission gave what RuntimeClass kata says."""
    given: dict[str, Any] = {
        "overhead": {"cpu": "1"},
        "nodeSelector": {"runtime": "kata"},
        "tolerations": [{"key": "kata", "operator": "Exists"}],
        **pod,
    }
    workload = a_workload("web", ["hot"], cpu="3", spec={"runtimeClassName": "kata"}, **given)
    nodes = [a_node("hot", cpu=4), a_node("small", cpu=6), a_node("cold", cpu=40, labels={"runtime": "kata"})]
    found = [] if runtime_class is None else [runtime_class]
    return plan_of(
        planning_inputs(
            nodes,
            [workload],
            runtimeclasses=found,
            unread=["runtimeclasses"] if unread else [],
            load={"hot": 90.0},
        )
    )


def test_a_single_replica_moves_with_what_its_runtime_class_says_that_admission_adds() -> None:
    assert moved(plan_of_kata(KATA)) == {"web-0": "cold"}


@rows(
    "runtime_class, said",
    [
        (None, "RuntimeClass kata does not exist any more"),
        ({**KATA, "overhead": {"podFixed": {"cpu": "2"}}}, "differs from its template in overhead"),
        ({"metadata": {"name": "kata"}}, "differs from its template in overhead"),
        ({**KATA, "scheduling": {"nodeSelector": {"runtime": "other"}}}, "in nodeSelector"),
    ],
)
def test_a_runtime_class_that_was_edited_or_is_gone_makes_the_replacement_unpredictable(
    runtime_class: dict[str, Any] | None, said: str
) -> None:
    plan = plan_of_kata(runtime_class)
    assert kept(plan) == {"web-0": "Unpredictable"}
    assert said in because(plan, "web-0")


def test_where_no_runtime_class_was_read_a_sibling_must_show_what_admission_adds() -> None:
    plan = plan_of_kata(None, unread=True)
    assert kept(plan) == {"web-0": "Unpredictable"}
    assert "no ready sibling shows what comes back" in because(plan, "web-0")
