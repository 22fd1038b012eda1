"""What is said to free a pod frees it: each row of the table is done to a small cluster."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning import builder
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.planner import Planner
from rebalancer.planning.reasons import NotMoved, Reason, Remedy, set_policy
from rebalancer.planning.remedies import WHAT_FREES, freed_in_the_api, remedies
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.scheduling.registry import MODELLED
from rebalancer.state.run_state import RunState
from tests.builders import a_budget, a_node, a_pod
from tests.rows import rows
from tests.unit.planning.builders import NOW, a_past_move, a_policy, a_workload, at, planning_inputs
from tests.unit.planning.eviction.pod_protections import (
    ALWAYS,
    BY_POLICY,
    UNKNOWN_OR_NOT_NOW,
)
from tests.unit.planning.eviction.protected_pods import EVICT, Case, inputs_of, the_pod
from tests.unit.planning.eviction.unmade_replacements import (
    ADMITTED_OTHERWISE,
    JOBS_THAT_WOULD_FAIL,
    NOT_REPLACED,
)
from tests.unit.planning.eviction.workload_protections import (
    DISRUPTION,
    FACTS_OF_THE_WORKLOAD,
    PROTECTED_BY_POLICY,
    PROTECTED_NOW,
)

ROWS: list[tuple[Reason, str, Case]] = [
    *ALWAYS,
    *BY_POLICY,
    *UNKNOWN_OR_NOT_NOW,
    *PROTECTED_BY_POLICY,
    *FACTS_OF_THE_WORKLOAD,
    *PROTECTED_NOW,
    *JOBS_THAT_WOULD_FAIL,
    *NOT_REPLACED,
    *ADMITTED_OTHERWISE,
]
Values = dict[str, Any]
Lift = Callable[[Values], None]


def row_of(reason: Reason, name: str = "") -> Case:
    return next(given for other, known, given in ROWS if other == reason and known.startswith(name))


def kept_in(inputs: PlanningInputs, name: str = "web-0") -> tuple[NotMoved | None, tuple[Remedy, ...]]:
    """Why a pod stays, and what is said to free it."""
    planner = Planner(inputs)
    prepared = planner.prepared
    row = PodRow(prepared.pods.row["default", name])
    why = planner.decided.staying.get(row)
    return why, remedies(prepared.eviction, row, why) if why is not None else ()


def with_changes(policy: RebalancePolicy, changes: Mapping[str, Any]) -> RebalancePolicy:
    """A policy with values put at its keys, as somebody would write them."""
    document: Any = policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    for key, value in changes.items():
        *sections, last = re.findall(r"[^.\[\]]+", key)
        place = document
        for section in sections:
            place = place[int(section)] if section.isdigit() else place.setdefault(section, {})
        place[last] = value
    return RebalancePolicy.model_validate(document)


def pod_of(values: Values) -> dict[str, Any]:
    pod: dict[str, Any] = values["workloads"][0].pods[0]
    return pod


def spec_of(values: Values) -> dict[str, Any]:
    """The spec of the workload."""
    spec: dict[str, Any] = values["workloads"][0].item["spec"]
    return spec


def without_annotations(values: Values) -> None:
    pod_of(values)["metadata"]["annotations"] = {}


def annotated(values: Values) -> None:
    pod_of(values)["metadata"]["annotations"][EVICT] = "true"


def with_nodes(*nodes: Any) -> Lift:
    return lambda values: values.update(nodes=list(nodes))


def of_a_deployment(values: Values) -> None:
    values.update(pods=[], workloads=[the_pod()])


def withdrawn(values: Values) -> None:
    values["evictionrequests"][0]["spec"]["intent"] = "Withdrawn"


def one_budget(values: Values) -> None:
    values["poddisruptionbudgets"][1]["spec"]["selector"] = {"matchLabels": {"app": "other"}}


def labelled_namespace(values: Values) -> None:
    values["namespaces"][0]["metadata"]["labels"] = {"team": "a"}


def with_the_labels(values: Values) -> None:
    workload = values["workloads"][0]
    for item in (workload.pods[0], workload.item["spec"]["template"]):
        item["metadata"]["labels"]["app"] = "chosen"


def ignoring_disruptions(values: Values) -> None:
    spec_of(values)["podFailurePolicy"] = {"rules": [DISRUPTION]}


def wanted(values: Values) -> None:
    spec_of(values)["replicas"] = 2


def shared_claim(values: Values) -> None:
    values["persistentvolumeclaims"][0]["spec"]["accessModes"] = ["ReadWriteMany"]


def rolled_out(values: Values) -> None:
    values["deployments"][0]["status"]["updatedReplicas"] = 2


def ready(values: Values) -> None:
    values["workloads"][0].item["status"]["readyReplicas"] = 2


def read(values: Values) -> None:
    values["unread"] = []


def measured(values: Values) -> None:
    del values["pod_load"], values["load"]


def settled(values: Values) -> None:
    long_ago = a_past_move(
        from_node="hot", workload="Job/other", controller_uid="other", result="Unknown", evicted_at=NOW - 7200
    )
    values["state"] = RunState(moves=(long_ago,))


def not_partitioned(values: Values) -> None:
    pod_of(values)["metadata"]["labels"]["controller-revision-hash"] = "v2"


def scaled_long_ago(values: Values) -> None:
    values["horizontalpodautoscalers"][0]["status"]["lastScaleTime"] = at(-300)


def only_recommended(values: Values) -> None:
    values["verticalpodautoscalers"][0]["spec"]["updatePolicy"] = {"updateMode": "Off"}


def larger_quota(values: Values) -> None:
    for part in ("spec", "status"):
        values["resourcequotas"][0][part]["hard"] = {"requests.cpu": "80", "pods": "100", "services": "1"}


def with_limits(values: Values) -> None:
    workload = values["workloads"][0]
    for item in (workload.pods[0], workload.item["spec"]["template"]):
        item["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1", "memory": "1Gi"}


def with_a_status(values: Values) -> None:
    values["resourcequotas"][0]["status"] = {"hard": {"pods": "10"}, "used": {"pods": "1"}}


def with_more_memory(values: Values) -> None:
    workload = values["workloads"][0]
    for item in (workload.pods[0], workload.item["spec"]["template"]):
        item["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1Gi"}}


def namespaces_read(values: Values) -> None:
    del values["unread"], values["left_out"]
    values["namespaces"] = [{"metadata": {"name": "default", "labels": {"team": "a"}}}]


def budget_allows(values: Values) -> None:
    values["poddisruptionbudgets"] = [a_budget("web", labels={"app": "web"}, allowed=1)]


def with_room(values: Values) -> None:
    values["nodes"] = [*values.get("nodes", ()), a_node("new", cpu=8)]


def room_for_the_other(values: Values) -> None:
    values["pods"] = [a_pod("waiting", cpu="4", nodeSelector={"kubernetes.io/hostname": "roomy"})]
    values["nodes"] = [a_node("hot"), a_node("cool", cpu=8), a_node("roomy", cpu=8)]


def cooler(values: Values) -> None:
    rule = {"utilization": {"cpu": 80}, "coolTo": {"cpu": 10}}
    values["policy"] = a_policy(hotNodes={"forRuns": 1, "any": [rule]})


def a_rule_for_what_it_uses(values: Values) -> None:
    rules = [{"utilization": {"cpu": 80}, "coolTo": {"cpu": 65}}, {"utilization": {"pods": 1}}]
    values["policy"] = a_policy(hotNodes={"forRuns": 1, "any": rules})


def alive(values: Values) -> None:
    values["not_alive"] = ""


# What the table says in words, done by hand: the reason, a row of its cases, and what is done.
BY_HAND: list[tuple[Reason, str, Lift]] = [
    (Reason.STATIC_POD, "mirror", without_annotations),
    (Reason.DAEMON_SET, "", lambda values: values.update(workloads=[the_pod()])),
    (Reason.TERMINATING, "moved in the background", without_annotations),
    (Reason.TERMINATING, "asked for", withdrawn),
    (Reason.NO_CONTROLLER, "none", of_a_deployment),
    (Reason.OVERLAPPING_BUDGETS, "", one_budget),
    (Reason.NODE_NOT_READY, "", with_nodes(a_node("hot"), a_node("cool", cpu=8))),
    (Reason.NODE_LEAVING, "", with_nodes(a_node("hot"), a_node("cool", cpu=8))),
    (Reason.SYSTEM_COMPONENT, "this program", lambda values: values.update(own_pod="elsewhere/web-0")),
    (Reason.NAMESPACE, "by its labels, which are others", labelled_namespace),
    (Reason.NAMESPACE, "by its labels, which were not read", namespaces_read),
    (Reason.LOCAL_STORAGE, "emptyDir", annotated),
    (Reason.WITHOUT_BUDGET, "", budget_allows),
    (Reason.ENDS_SOON, "at its deadline", annotated),
    (Reason.LABELS, "", with_the_labels),
    (Reason.ANNOTATION, "", without_annotations),
    (Reason.DEBUGGED, "", annotated),
    (Reason.RESTARTS_TOGETHER, "", annotated),
    (Reason.JOB_WOULD_FAIL, "failed too often", ignoring_disruptions),
    (Reason.JOB_WOULD_FAIL, "failed too often", lambda values: spec_of(values).update(backoffLimit=9)),
    (Reason.NO_REPLACEMENT, "ReplicaSet scaled down", wanted),
    (Reason.NO_REPLACEMENT, "suspended", lambda values: spec_of(values).update(suspend=False)),
    (Reason.NO_REPLACEMENT, "all but", lambda values: spec_of(values).update(completions=5)),
    (Reason.NO_REPLACEMENT, "below the LimitRange's min", with_more_memory),
    (Reason.READ_WRITE_ONCE, "", shared_claim),
    (Reason.ROLLOUT, "some are not updated", rolled_out),
    (Reason.UNREADY_REPLICAS, "", ready),
    (Reason.SCHEDULER_NOT_ALIVE, "", alive),
    (Reason.UNPREDICTABLE, "budgets not read", read),
    (Reason.UNKNOWN_LOAD, "", measured),
    (Reason.SETTLING, "", settled),
    (Reason.OLDER_REVISION, "", not_partitioned),
    (Reason.AUTOSCALING, "has just scaled", scaled_long_ago),
    (Reason.VERTICAL_AUTOSCALING, "Auto", only_recommended),
    (Reason.QUOTA, "cpu", larger_quota),
    (Reason.QUOTA, "no limit where it must have one", with_limits),
    (Reason.QUOTA, "no figure yet", with_a_status),
    (Reason.BUDGET, "", budget_allows),
    (Reason.NO_LANDING, "", with_room),
    (Reason.NO_BETTER_LANDING, "", with_room),
    (Reason.ROOM_TAKEN, "", room_for_the_other),
    (Reason.NOT_NEEDED, "", cooler),
    (Reason.NO_RELIEF, "", a_rule_for_what_it_uses),
]


def changed(given: Case, lift: Lift) -> Case:
    """A copy of a case, in which something is done."""
    values = copy.deepcopy(dict(given))
    values.setdefault("workloads", [])
    values.setdefault("policy", a_policy())
    lift(values)
    return values


@rows("reason, given, lift", [(reason, row_of(reason, name), lift) for reason, name, lift in BY_HAND])
def test_what_is_said_in_words_frees_the_pod(reason: Reason, given: Case, lift: Lift) -> None:
    before, said = kept_in(inputs_of(given))
    assert before is not None
    assert before.reason is reason
    assert all(len(item.text) > 5 for item in said)

    after, _ = kept_in(inputs_of(changed(given, lift)))

    assert after is None or after.reason is not reason, after


@rows("reason, given", [(reason, given) for reason, _, given in ROWS])
def test_the_policys_key_with_its_value_frees_the_pod(reason: Reason, given: Case) -> None:
    inputs = inputs_of(given)
    before, said = kept_in(inputs)
    assert before is not None
    assert before.reason is reason
    assert said

    for item in said:
        for key, value in item.changes.items():
            assert f"{key}: " in item.text
            assert str(value).lower() in item.text.lower() or isinstance(value, list | dict)
        if item.changes and reason not in NOT_ALONE:
            policy = with_changes(inputs.policy, item.changes)
            after, _ = kept_in(inputs_of(changed(given, lambda values: values.update(policy=policy))))  # noqa: B023
            assert after is None or after.reason is not reason, item.text


@rows(
    "value",
    [
        *("surge", "15m", "1h30m", "0s", "team-a", "Local", "apps.kruise.io/v1alpha1"),
        *(
            "*",
            "team-*",
            "off",
            "NO",
            "true",
            "123",
            "1e3",
            "0x1f",
            "",
            "a, b",
            "a: b",
            "#",
            "- x",
            "[x]",
            "ä",
        ),
        *(True, False, 3, 0.5, [], ["*", "kube-system"], {"cpu": 100}, [{"kind": "A", "apiVersion": "b/v1"}]),
    ],
)
def test_what_a_remedy_says_is_read_as_that_value_where_it_is_put_into_a_policy(value: object) -> None:
    said = set_policy("some.key", value).text
    assert yaml.safe_load(said) == {"some.key": value}


# Of these the key makes room for another pod, or shows that a scheduler lives: nothing of this pod changes.
NOT_ALONE = {Reason.NODE_NOT_READY, Reason.SCHEDULER_NOT_ALIVE}


def test_reasons_of_searches_are_freed_by_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run goes on: with the placements of its own, and with what the earlier one moved gone."""
    nodes = [a_node("a", cpu=10), a_node("b", cpu=10), a_node("cool", cpu=100)]
    inputs = planning_inputs(nodes, [a_workload("web", ["a"] * 9 + ["b"] * 9)])
    with monkeypatch.context() as bounded:
        bounded.setattr(builder, "MAX_PLACEMENTS", 2)
        (before, said) = kept_in(inputs, "web-1")
    assert before is not None
    assert before.reason is Reason.SEARCH_ENDED
    assert said[0].text.startswith("the next run")
    after, _ = kept_in(inputs, "web-1")
    assert after is None or after.reason is not Reason.SEARCH_ENDED


@rows("reason", Reason)
def test_every_reason_says_what_frees_its_pods_and_that_is_tried(reason: Reason) -> None:
    assert len(WHAT_FREES[reason].documented) > 10
    by_hand = {other for other, _, _ in BY_HAND}
    # Group, Siblings: see tests/unit/planning/strategies. SearchEnded: above.
    of_searches = {Reason.GROUP, Reason.SIBLINGS, Reason.SEARCH_ENDED}
    if reason not in by_hand | of_searches:
        cases = [given for other, _, given in ROWS if other is reason]
        assert any(way.changes for given in cases for way in kept_in(inputs_of(given))[1]), (
            "tried by the policy"
        )


def test_the_table_has_no_row_but_for_reasons() -> None:
    assert set(WHAT_FREES) == set(Reason)


def test_whatever_a_filter_says_leads_to_a_field_of_the_api() -> None:
    reasons = {text for plugin in MODELLED.values() for text in plugin.reasons.values() if "node(s)" in text}
    assert len(reasons) > 10
    assert [text for text in reasons if len(freed_in_the_api(text)) != 1] == []


@rows(
    "rejections, field",
    [
        ("1 Insufficient cpu", "resources.requests"),
        ("3 node(s) had untolerated taint(s)", "spec.tolerations"),
        ("2 node(s) didn't match pod topology spread constraints", "spec.topologySpreadConstraints"),
        ("1 node(s) didn't match Pod's node affinity/selector", "spec.nodeSelector"),
        ("1 node(s) were unschedulable", "kubectl uncordon"),
    ],
)
def test_a_pod_without_a_landing_is_told_the_field_that_the_filter_reads(rejections: str, field: str) -> None:
    assert field in freed_in_the_api(rejections)[0]
