"""Each way a pod may be protected, as a table: a pod of a hot node, and the code it gets."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.cluster.arrays import PodRow
from rebalancer.planning.eviction.rules import every_refusal, why_protected
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import prepare
from rebalancer.planning.reasons import Reason
from rebalancer.state.run_state import RunState
from tests.builders import a_budget, a_node
from tests.rows import rows
from tests.unit.planning.builders import (
    NOW,
    a_past_move,
    a_policy,
    a_workload,
    at,
    because,
    kept,
    moved,
    plan_of,
    planning_inputs,
    with_scheduler,
)
from tests.unit.planning.eviction.pod_protections import (
    ALWAYS,
    BY_POLICY,
    IN_TEAM,
    NOT_BEING_EVICTED,
    UNKNOWN_OR_NOT_NOW,
    asked_for,
)
from tests.unit.planning.eviction.protected_pods import (
    EVICT,
    LEAVING,
    Case,
    a_taint,
    case,
    inputs_of,
    plan_for,
    the_pod,
)
from tests.unit.planning.eviction.unmade_replacements import (
    ADMITTED_OTHERWISE,
    JOBS_THAT_WOULD_FAIL,
    NOT_REPLACED,
    REPLACED,
    job,
)
from tests.unit.planning.eviction.workload_protections import (
    CLONE_SETS,
    FACTS_OF_THE_WORKLOAD,
    NOT_PROTECTED,
    PROTECTED_BY_POLICY,
    PROTECTED_NOW,
    of_another_kind,
    of_deployment,
    of_rollout,
    stateful,
)

UNMADE = [*JOBS_THAT_WOULD_FAIL, *NOT_REPLACED, *ADMITTED_OTHERWISE]
LIFTED_BY_ANNOTATION = [*BY_POLICY, *PROTECTED_BY_POLICY]
NOT_LIFTED = [*ALWAYS, *UNKNOWN_OR_NOT_NOW, *FACTS_OF_THE_WORKLOAD, *PROTECTED_NOW, *UNMADE]
EVERY = [*LIFTED_BY_ANNOTATION, *NOT_LIFTED]


def why_kept(given: Case, **annotations: str) -> Reason | None:
    """Why the pod of a case stays: what protects it, or else what the search finds. None where it moves."""
    planner = Planner(inputs_of(given, **annotations))
    context = planner.prepared.eviction
    row = PodRow(context.pods.row["default", "web-0"])
    why = why_protected(context, row) or planner.decided.staying.get(row)
    return None if why is None else why.reason


@rows("given", [given for name, given in NOT_BEING_EVICTED])
def test_an_eviction_that_is_over_or_meant_for_another_protects_nothing(given: Case) -> None:
    assert moved(plan_for(given)) == {"web-0": "cool"}


def test_who_asks_for_the_eviction_is_named() -> None:
    given = asked_for(intent="Eviction", requester="example.com/drain")
    assert because(plan_for(given), "web-0") == (
        "is being evicted already: EvictionRequest drain asks for its eviction by example.com/drain"
    )


def test_the_controller_with_pods_of_two_replica_sets_is_named() -> None:
    assert because(plan_for(of_rollout(canary=1)), "web-0") == (
        "Rollout/web has pods of ReplicaSet/web-2 as well"
    )


def test_the_pod_of_the_table_moves_when_nothing_protects_it() -> None:
    assert moved(plan_for(case())) == {"web-0": "cool"}


@rows("reason, given", [(reason, given) for reason, _, given in EVERY])
def test_a_protected_pod_gets_its_code_and_a_sentence_of_its_own(reason: Reason, given: Case) -> None:
    plan = plan_for(given)

    assert kept(plan)["web-0"] == reason
    assert len(because(plan, "web-0").split()) >= 4


@rows("reason, given", [(reason, given) for reason, _, given in LIFTED_BY_ANNOTATION])
def test_an_annotation_lifts_what_the_policy_protects(reason: Reason, given: Case) -> None:
    assert moved(plan_for(given, **{EVICT: "true"})) == {"web-0": "cool"}


@rows("reason, given", [(reason, given) for reason, name, given in NOT_LIFTED if name != "none"])
def test_an_annotation_lifts_nothing_else(reason: Reason, given: Case) -> None:
    assert why_kept(given, **{EVICT: "true"}) is reason


def test_the_annotation_said_to_be_false_lifts_nothing() -> None:
    assert kept(plan_for(case(the_pod(kind="Job")), **{EVICT: "false"})) == {"web-0": "Job"}


def test_every_reason_says_what_it_means() -> None:
    assert all(len(reason.meaning) > 10 for reason in Reason)


def test_the_annotation_evict_false_keeps_a_pod_and_any_other_value_lifts_protections() -> None:
    assert kept(plan_for(case(), **{EVICT: "false"})) == {"web-0": "Annotation"}
    assert because(plan_for(case(), **{EVICT: "false"}), "web-0") == f'has the annotation {EVICT}: "false"'
    assert moved(plan_for(case(), **{EVICT: ""})) == {"web-0": "cool"}


def test_what_the_policy_asks_of_namespaces_and_budgets_lets_other_pods_move() -> None:
    selector = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}
    policy = a_policy(evictable={"namespaceSelector": selector, "protect": ["WithoutBudget"]})
    given = case(
        policy=policy,
        namespaces=[{"metadata": {"name": "default", "labels": {"team": "a"}}}],
        poddisruptionbudgets=[a_budget("web", labels={"app": "web"}, allowed=1)],
    )
    assert moved(plan_for(given)) == {"web-0": "cool"}


def test_every_reason_has_a_row_in_a_table() -> None:
    # See tests/unit/planning/strategies and test_builder.
    of_searches = {Reason.GROUP, Reason.SIBLINGS, Reason.SEARCH_ENDED}
    assert set(Reason) == {reason for reason, _, _ in EVERY} | of_searches


@pytest.mark.parametrize(
    "annotations",
    [
        {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
        {"karpenter.sh/do-not-disrupt": "false"},
        {"karpenter.sh/do-not-disrupt": "1h"},
    ],
    ids=str,
)
def test_an_annotation_that_does_not_ask_to_stay_protects_nothing(annotations: dict[str, str]) -> None:
    assert moved(plan_for(case(the_pod(annotations=annotations)))) == {"web-0": "cool"}


def test_a_cordoned_hot_node_is_cooled_as_any_other() -> None:
    given = case(nodes=[a_node("hot", unschedulable=True), a_node("cool", cpu=8)])
    assert moved(plan_for(given)) == {"web-0": "cool"}


def test_a_hot_node_under_memory_pressure_is_cooled_as_any_other() -> None:
    taint = a_taint("node.kubernetes.io/memory-pressure", "NoSchedule")
    given = case(nodes=[a_node("hot", taints=[taint]), a_node("cool", cpu=8)])
    assert moved(plan_for(given)) == {"web-0": "cool"}


@rows("key", LEAVING)
def test_no_landing_counts_on_a_node_that_is_about_to_be_removed(key: str) -> None:
    given = case(nodes=[a_node("hot"), a_node("cool", cpu=8, taints=[a_taint(key)])])
    assert kept(plan_for(given)) == {"web-0": "NoBetterLanding"}
    assert f"is about to be removed ({key})" in because(plan_for(given), "web-0")


OF_VOLCANO = the_pod(spec={"schedulerName": "volcano"})
ELSEWHERE = {"windows": [{"from": "22:00", "to": "05:00"}]}


@rows(
    "given, words",
    [
        (case(policy=a_policy(evictable=ELSEWHERE)), "the next window opens at 2026-06-01T22:00:00Z"),
        (
            case(policy=a_policy(evictable={"blackouts": [{"from": "01-01", "to": "12-31"}]})),
            "none opens soon",
        ),
        (case(policy=IN_TEAM), "the labels of namespace default were not read, and are asked for by"),
        (
            case(policy=IN_TEAM, namespaces=[{"metadata": {"name": "default"}}]),
            "the labels of namespace default are not those of namespaceSelector",
        ),
        (case(OF_VOLCANO), "configuration, which was not given: name it in scheduler.configMap"),
        *(
            (
                case(OF_VOLCANO, policy=a_policy(scheduler={key: given})),
                "volcano is not in the scheduler's conf",
            )
            for key, given in (("file", "c.yaml"), ("configMap", {"namespace": "a", "name": "c"}))
        ),
        (
            case(the_pod(created=at(3000)), policy=a_policy(evictable={"minAge": "0s"})),
            "was created 3,000 s ahead of our clock: check the clocks",
        ),
        (case(the_pod(template={"nodeName": "hot"})), "its template names node hot (spec.nodeName)"),
    ],
)
def test_a_pod_that_stays_is_told_what_stands_against_it(given: Case, words: str) -> None:
    said = because(plan_for(given), "web-0")
    assert words in said
    assert ("not given" in said) == ("not given" in words)


def test_a_claim_that_was_not_read_may_be_of_a_class_that_the_policy_protects() -> None:
    pod = the_pod(spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "gone"}}]})
    given = case(pod, policy=a_policy(evictable={"protectStorageClasses": ["fast"]}))
    assert because(plan_for(given), "web-0") == "claim gone was not read: its storage class is unknown"


def test_a_reason_that_was_lifted_once_is_still_a_reason_for_who_asks_again() -> None:
    workload = the_pod()
    workload.pods[0]["metadata"]["creationTimestamp"] = at(-60)
    policy = a_policy(evictable={"minAge": 600})
    workload.pods[0]["status"]["conditions"] = []
    inputs = planning_inputs([a_node("hot")], [workload], policy=policy)
    context = prepare(inputs).eviction
    assert why_protected(context, PodRow(0), lifted=[Reason.TOO_YOUNG]) is None
    assert [item.reason for item in every_refusal(context, PodRow(0))] == [Reason.TOO_YOUNG]


def test_a_pod_of_which_nothing_is_known_names_the_resources() -> None:
    unknown = float("nan")
    inputs = planning_inputs(
        [a_node("hot")], [the_pod()], pod_load={"web-0": unknown}, load={"hot": (unknown, unknown)}
    )
    context = prepare(inputs).eviction
    (found,) = (item for item in every_refusal(context, PodRow(0)) if item.reason is Reason.UNKNOWN_LOAD)
    assert found.message == "no load source reports what it uses of cpu and memory, nor what its node uses"


def test_jobs_may_be_moved_where_the_policy_says_so() -> None:
    assert moved(plan_for(case(the_pod(kind="Job"), policy=a_policy(evictable={"jobs": True}))))


def test_a_cooldown_ends() -> None:
    past = a_past_move(from_node="x", to_node="y")
    given = case(state=RunState(moves=(past,)), policy=a_policy(planning={"cooldown": "9m"}))
    assert moved(plan_for(given)) == {"web-0": "cool"}


def test_pods_whose_verdict_needs_a_kind_that_was_not_read_stay_and_say_which() -> None:
    nodes = [a_node("a", cpu="4"), a_node("b", cpu="8")]
    own = {"maxSkew": 5, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    plan = plan_of(
        planning_inputs(
            nodes,
            [
                a_workload("spread", ["a", "a"], cpu="900m", spec={"topologySpreadConstraints": [own]}),
                a_workload("web", ["a", "a"], cpu="900m"),
            ],
            unread={"services"},
        )
    )
    assert kept(plan)["web-0"] == "Unpredictable"
    assert because(plan, "web-0") == "where it would land depends on what was not read: services"
    assert any(name.startswith("spread") for name in moved(plan))


@rows("given", [given for name, given in [*NOT_PROTECTED, *REPLACED]])
def test_what_is_no_protection_keeps_no_pod(given: Case) -> None:
    assert why_kept(given) is None


def test_a_kind_that_the_policy_does_not_name_stays_and_the_words_lead_to_the_setting() -> None:
    plan = plan_for(of_another_kind(policy={}))
    assert kept(plan)["web-0"] == "NoController"
    assert "evictable.controllers can name it" in because(plan, "web-0")


def test_the_only_pod_of_another_kind_is_a_single_replica() -> None:
    given = of_another_kind(policy={**CLONE_SETS, "protect": ["SingleReplica"], "minReplicas": 1})
    del given["workloads"][0].pods[1]
    assert kept(plan_for(given))["web-0"] == "SingleReplica"


DISK_OR_MEMORY = [{"name": "proxy", "emptyDir": {"medium": "Memory"}}, {"name": "cache", "emptyDir": {}}]
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


@rows(
    "volumes, annotations, stays",
    [
        (DISK_OR_MEMORY[:1], {}, False),
        (DISK_OR_MEMORY, {}, True),
        (DISK_OR_MEMORY, {SAFE: "true"}, False),
        (DISK_OR_MEMORY, {SAFE: "yes"}, True),
        (DISK_OR_MEMORY, {f"{SAFE}-local-volumes": "proxy, cache"}, False),
        (DISK_OR_MEMORY, {f"{SAFE}-local-volumes": "proxy"}, True),
        (DISK_OR_MEMORY, {f"{SAFE}-local-volumes": ""}, True),
        ([{"name": "host", "hostPath": {"path": "/x"}}], {SAFE: "true"}, False),
        ([{"name": "host", "hostPath": {"path": "/x"}}], {f"{SAFE}-local-volumes": "host"}, False),
    ],
)
def test_only_data_that_would_be_lost_and_missed_keeps_a_pod(
    volumes: list[Any], annotations: dict[str, str], stays: bool
) -> None:
    given = case(
        the_pod(spec={"volumes": volumes}, annotations=annotations),
        policy=a_policy(evictable={"protect": ["LocalStorage"]}),
    )
    plan = plan_for(given)
    assert (kept(plan) == {"web-0": "LocalStorage"}) if stays else (moved(plan) == {"web-0": "cool"})


@pytest.mark.parametrize(("cost", "stays"), [("2147483647", True), ("2147483646", False), ("much", False)])
def test_the_highest_eviction_cost_of_koordinator_means_never(cost: str, stays: bool) -> None:
    given = case(the_pod(annotations={"scheduling.koordinator.sh/eviction-cost": cost}))
    assert kept(plan_for(given)) == ({"web-0": "Annotation"} if stays else {})


def test_a_good_landing_does_not_end_the_cooldown_after_a_bad_one() -> None:
    bad = a_past_move(uid="1", result="Unexpected", evicted_at=NOW - 8000, landed_at=None)
    good = a_past_move(uid="2", result="Landed", evicted_at=NOW - 7900, landed_at=NOW - 7890)
    plan = plan_for(case(state=RunState(moves=(bad, good))))
    assert kept(plan) == {"web-0": "LandedBadly"}
    assert "2 h ago (Unexpected)" in because(plan, "web-0")


@rows(
    "ours, descheduler, moves",
    [("false", None, False), ("false", "true", False), ("true", "false", False), ("true", None, True)],
)
def test_our_own_annotation_opts_out_and_lifts_as_the_deschedulers_does(
    ours: str, descheduler: str | None, moves: bool
) -> None:
    both = {"rebalancer/evict": ours} | ({EVICT: descheduler} if descheduler else {})
    plan = plan_for(case(policy=a_policy(evictable={"priorityBelow": -5})), **both)
    assert bool(moved(plan)) is moves


@rows("name", ["rebalancer/evict", EVICT, "cluster-autoscaler.kubernetes.io/safe-to-evict"])
@rows("no", ["False", " FALSE ", "no", "off", "0", "never"])
def test_whoever_says_no_in_other_words_is_not_evicted(name: str, no: str) -> None:
    plan = plan_for(case(), **{name: no})

    assert kept(plan) == {"web-0": "Annotation"}
    assert f'{name}: "{no}"' in because(plan, "web-0")


@rows(
    "given, words",
    [
        (of_deployment(updatedReplicas=1), "Deployment/web has updated 1 of 2 replicas"),
        (of_deployment(replicas=3), "still has pods of an older revision"),
        (stateful("v1", currentRevision="v2", updateRevision="v2"), "is at v2"),
        ({**job(), "unread": ["jobs"]}, "was not read: how many failures it has left is unknown"),
    ],
)
def test_a_pod_that_its_controller_replaces_says_how_far_that_is(given: Case, words: str) -> None:
    assert words in because(plan_for(given), "web-0")


def test_a_configuration_that_was_given_is_named_where_it_lacks_the_scheduler_of_a_pod() -> None:
    inputs = planning_inputs([a_node("hot"), a_node("cool", cpu=8)], **case(OF_VOLCANO))
    configuration = replace(inputs.schedulers[0].configuration, source="dump/scheduler-config.yaml")
    inputs = with_scheduler(inputs, configuration=configuration)
    said = because(plan_of(inputs), "web-0")
    assert said == "schedulerName volcano is not in the scheduler's configuration dump/scheduler-config.yaml"
