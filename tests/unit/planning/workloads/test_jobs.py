"""What an eviction does to a Job, held against its controller for each way in which the pod may end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster.records import Workload
from rebalancer.planning.workloads.jobs import (
    foreign_controller,
    replaces_only_failed,
    seconds_to_replacement,
    why_it_would_fail,
    why_not_replaced,
)
from tests.rows import rows

CONTAINERS = ("main", "side")
CODES = (0, 1, 42, 137, 143)
CONDITIONS = ("DisruptionTarget", "Ready", "Config")


def a_job(spec: dict[str, Any] | None = None, **status: Any) -> Workload:
    template = {"spec": {"containers": [{"name": name} for name in CONTAINERS]}}
    item = {"spec": {"parallelism": 2, "template": template, **(spec or {})}, "status": status}
    return msgspec.convert(item, Workload)


def rules() -> st.SearchStrategy[list[dict[str, Any]]]:
    actions = st.sampled_from(("Ignore", "Count", "FailIndex", "FailJob"))
    codes = st.fixed_dictionaries(
        {
            "operator": st.sampled_from(("In", "NotIn")),
            "values": st.lists(st.sampled_from(CODES), min_size=1, max_size=3),
        },
        optional={"containerName": st.sampled_from((*CONTAINERS, "absent"))},
    )
    pattern = st.fixed_dictionaries(
        {"type": st.sampled_from(CONDITIONS), "status": st.sampled_from(("True", "False"))}
    )
    conditions = st.lists(pattern, min_size=1, max_size=2)
    return st.lists(
        st.one_of(
            st.fixed_dictionaries({"action": actions, "onExitCodes": codes}),
            st.fixed_dictionaries({"action": actions, "onPodConditions": conditions}),
        ),
        max_size=4,
    )


def action_of(given_rules: list[dict[str, Any]], ended: dict[str, int], conditions: dict[str, str]) -> str:
    """What the Job controller makes of a failed pod: matchPodFailurePolicy, line by line."""
    for rule in given_rules:
        codes = rule.get("onExitCodes")
        if codes is not None:
            for name, code in ended.items():
                if codes.get("containerName", name) != name or code == 0:
                    continue
                if (code in codes["values"]) == (codes["operator"] == "In"):
                    return str(rule["action"])
        elif any(conditions.get(item["type"]) == item["status"] for item in rule["onPodConditions"]):
            return str(rule["action"])
    return "Count"


@given(
    rules(),
    st.fixed_dictionaries(dict.fromkeys(CONTAINERS, st.sampled_from(CODES))),
    st.sampled_from(({}, {"Config": "True"}, {"Config": "False"})),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(0, 3),
    st.none() | st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_a_job_that_its_controller_would_fail_is_never_called_safe(
    given_rules: list[dict[str, Any]],
    ended: dict[str, int],
    own: dict[str, str],
    failed: int,
    uncounted: int,
    limit: int,
    index: tuple[int, int] | None,
) -> None:
    """However its containers end, whatever the rules: the promise is that no eviction fails a Job."""
    spec: dict[str, Any] = {"podFailurePolicy": {"rules": given_rules}, "backoffLimit": limit}
    annotations = {}
    if index is not None:
        spec["backoffLimitPerIndex"] = index[0]
        annotations["batch.kubernetes.io/job-index-failure-count"] = str(index[1])
    why = why_it_would_fail(a_job(spec, failed=failed), annotations, set(own.items()), uncounted)
    action = action_of(given_rules, ended, {**own, "DisruptionTarget": "True", "Ready": "False"})
    fails = action in ("FailJob", "FailIndex") or (
        action == "Count" and (failed + uncounted + 1 > limit or (index is not None and index[1] >= index[0]))
    )
    assert why or not fails


@given(st.integers(0, 20), st.integers(1, 5))
def test_of_the_pods_of_a_job_only_as_many_are_evicted_as_it_has_failures_left(
    failed: int, limit: int
) -> None:
    job = a_job({"backoffLimit": limit}, failed=failed)
    evicted = 0
    while not why_it_would_fail(job, {}, (), evicted):
        evicted += 1
    assert failed + evicted == max(limit, failed)


def test_a_rule_that_ignores_disruptions_first_makes_an_eviction_no_failure() -> None:
    disruption = [{"type": "DisruptionTarget", "status": "True"}]
    first = {"action": "Ignore", "onPodConditions": disruption}
    job = a_job({"backoffLimit": 0, "podFailurePolicy": {"rules": [first]}}, failed=3)
    assert why_it_would_fail(job, {}, (), 5) == ""


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_wait_for_a_replacement_is_as_the_controller_backs_off(failed: int, uncounted: int) -> None:
    waits, seconds = [], 10.0
    for _ in range(failed + uncounted + 1):
        waits.append(min(seconds, 600.0))
        seconds *= 2
    assert seconds_to_replacement(a_job(failed=failed), {}, uncounted, 30.0) == waits[-1]


def test_a_job_that_replaces_only_failed_pods_begins_to_wait_when_the_pod_has_ended() -> None:
    job = a_job({"podReplacementPolicy": "Failed"})
    assert replaces_only_failed(job)
    assert seconds_to_replacement(job, {}, 0, 30.0) == 40.0


def test_a_job_with_a_pod_failure_policy_replaces_only_failed_pods_by_default() -> None:
    assert replaces_only_failed(a_job({"podFailurePolicy": {"rules": []}}))
    assert not replaces_only_failed(a_job({"podReplacementPolicy": "TerminatingOrFailed"}))


def test_each_index_waits_for_its_own_failures_those_that_were_ignored_too() -> None:
    job = a_job({"backoffLimitPerIndex": 9}, failed=50)
    annotations = {
        "batch.kubernetes.io/job-index-failure-count": "1",
        "batch.kubernetes.io/job-index-ignored-failure-count": "2",
    }
    assert seconds_to_replacement(job, annotations, 50, 0.0) == 80.0


def test_a_count_that_nobody_can_read_is_none_and_its_index_may_have_no_failures_left() -> None:
    job = a_job({"backoffLimitPerIndex": 9})
    annotations = {"batch.kubernetes.io/job-index-failure-count": "9" * 5000}
    assert seconds_to_replacement(job, annotations, 0, 0.0) == seconds_to_replacement(job, {}, 0, 0.0)
    assert why_it_would_fail(job, annotations, set(), 0)


@given(st.integers(0, 6), st.integers(0, 6), st.none() | st.integers(0, 6), st.integers(1, 6))
def test_a_job_replaces_a_pod_exactly_when_it_then_has_fewer_than_it_wants(
    parallelism: int, succeeded: int, completions: int | None, active: int
) -> None:
    """As manageJob computes wantActive."""
    if completions is not None:
        wanted = min(max(completions - succeeded, 0), parallelism)
    else:
        wanted = active - 1 if succeeded else parallelism
    job = a_job({"parallelism": parallelism, "completions": completions}, succeeded=succeeded)
    assert (why_not_replaced(job, active, 0.0) == "") == (active - 1 < wanted)


@pytest.mark.parametrize(("elapsed", "replaced"), [(59.0, True), (60.0, False), (float("nan"), True)])
def test_a_job_past_its_deadline_replaces_nothing(elapsed: float, replaced: bool) -> None:
    assert (why_not_replaced(a_job({"activeDeadlineSeconds": 60}), 1, elapsed) == "") == replaced


@rows(
    "managed_by, name",
    [(None, ""), ("", ""), ("kubernetes.io/job-controller", ""), ("example.com/queue", "example.com/queue")],
)
def test_a_job_that_another_controller_manages_names_it(managed_by: str | None, name: str) -> None:
    assert foreign_controller(a_job({"managedBy": managed_by})) == name
