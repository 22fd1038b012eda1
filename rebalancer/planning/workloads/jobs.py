"""What an eviction does to a Job: whether it fails it, whether it is replaced, and how long that takes.

The Job controller judges a failed pod by the first rule of ``podFailurePolicy`` that it matches. An evicted
pod has the condition DisruptionTarget. With which code its containers end is their own affair: 143 where
SIGTERM ends them, 137 where SIGKILL does, and any other where they end themselves. So a rule on exit codes
may match or may not, and so may one on conditions of the kubelet. The worst of what may happen counts:

    rules                                                          an eviction
    Ignore on DisruptionTarget                                     is no failure
    FailJob on exit code 42, then Ignore on DisruptionTarget       may fail the Job
    FailJob on exit code 42 of a container that the Job lacks      is a failure as any other
    FailJob on a condition that somebody sets on broken pods       is one too, unless the pod has it
    Count on DisruptionTarget, then FailJob on any exit code       is a failure as any other

A failure counts against ``backoffLimit``; where ``backoffLimitPerIndex`` is set also against that of the
pod's index, and a Job of which one index has failed for good ends as failed. The replacement is made 10 s
after the first failure, 20 s after the second, and at most 10 min after. With ``podReplacementPolicy:
Failed``, or a podFailurePolicy, that time begins when the pod has ended, else when it is evicted.

Source: kubernetes v1.36.3 pkg/controller/job job_controller.go (syncJob, manageJob, isPodFailed,
onlyReplaceFailedPods), pod_failure_policy.go, indexed_job_utils.go isIndexFailed and backoff_utils.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from rebalancer.cluster.pods import USUAL_CONDITIONS
from rebalancer.cluster.records import OnExitCodes, PodFailureRule, Workload
from rebalancer.counting import counted

_DISRUPTION = "DisruptionTarget"  # the condition that the API sets on a pod it evicts
_OF_THE_KUBELET = USUAL_CONDITIONS | {"PodResizePending", "PodResizeInProgress", "AllContainersRestarting"}
_IGNORE = "Ignore"
_COUNT = "Count"
_FAILS = {"FailJob": "fails the Job", "FailIndex": "fails the pod's index, and the Job with it"}
_ENDED = frozenset({"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"})
_CONTROLLER = "kubernetes.io/job-controller"
_INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
_INDEX_IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
_MOST_DIGITS = 10  # of a count in an annotation: 32 bits
_DEFAULT_BACKOFF_LIMIT = 6
_FIRST_DELAY_SECONDS = 10.0
_MAX_DELAY_SECONDS = 600.0
_MAX_DOUBLINGS = 6  # after so many the delay is at its most


def foreign_controller(job: Workload) -> str:
    """Who takes care of a Job in place of Kubernetes' own controller; empty when nobody does."""
    name = job.spec.managed_by
    return "" if name in (None, "", _CONTROLLER) else str(name)


def replaces_only_failed(job: Workload) -> bool:
    """Whether a pod that is being deleted is replaced only once it has ended."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def why_not_replaced(job: Workload, active: int, elapsed: float) -> str:
    """Why a Job would not replace a pod that is evicted; empty when it would.

    ``active`` pods of it are not being deleted, that one included; it started ``elapsed`` seconds ago.
    """
    spec = job.spec
    status = job.status
    if spec.suspend:
        return "is suspended and makes no pods"
    ended = next(
        (
            condition.type
            for condition in status.conditions or ()
            if condition.type in _ENDED and condition.status == "True"
        ),
        "",
    )
    if ended:
        return f"is over: {ended}"
    if spec.active_deadline_seconds is not None and elapsed >= spec.active_deadline_seconds:
        return "is past its activeDeadlineSeconds"
    uncounted = status.uncounted_terminated_pods
    succeeded = status.succeeded + len((uncounted.succeeded if uncounted else None) or ())
    pods_to_run = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        pods_to_run = min(pods_to_run, max(spec.completions - succeeded, 0))
    elif succeeded:
        return "makes no more pods, as one has succeeded"
    return f"wants {counted(pods_to_run, 'pod')} and has {active:,}" if active > pods_to_run else ""


def why_it_would_fail(
    job: Workload, annotations: Mapping[str, str], conditions: Collection[tuple[str, str]], uncounted: int
) -> str:
    """Why the eviction of one of its pods would fail a Job, or may do so; empty when it would not.

    ``annotations`` are those of the pod, and ``conditions`` types and statuses of its own. ``uncounted`` pods
    of the Job are being evicted beside it, which its status does not count yet.
    """
    actions = [(number, rule.action) for number, rule in _rules_that_may_match(job, conditions)]
    worst = next(((number, action) for number, action in actions if action in _FAILS), None)
    if worst is not None:
        return (
            f"rule {worst[0]} of its podFailurePolicy may match an evicted pod and {_FAILS[worst[1]]}: "
            f"a rule that ignores {_DISRUPTION} has to come first"
        )
    if actions and all(action == _IGNORE for _, action in actions):
        return ""
    spec = job.spec
    if spec.backoff_limit_per_index is not None:
        failed = _count(annotations, _INDEX_FAILURES)
        if failed is None:
            return "how often the pod's index has failed cannot be read"
        if failed >= spec.backoff_limit_per_index:
            return (
                f"the pod's index has failed {counted(failed, 'time')}, "
                f"backoffLimitPerIndex {spec.backoff_limit_per_index}"
            )
    limit = spec.backoff_limit
    if limit is None:
        limit = _DEFAULT_BACKOFF_LIMIT if spec.backoff_limit_per_index is None else None
    failed = _failed(job, uncounted)
    if limit is not None and failed + 1 > limit:
        words = f"it has failed {counted(job.status.failed, 'time')}"
        if failed > job.status.failed:
            more = counted(failed - job.status.failed, "more is", "more are")
            words += f", {more} not counted yet"
        return f"{words}, backoffLimit {limit}"
    return ""


def seconds_to_replacement(
    job: Workload, annotations: Mapping[str, str], uncounted: int, grace: float
) -> float:
    """How long after an eviction its replacement is expected to be made, at most.

    A success in between makes it shorter, and failures that were ignored make it longer: how many there were
    the Job does not say.
    """
    if job.spec.backoff_limit_per_index is None:
        failures = _failed(job, uncounted)
    else:
        failures = sum(_count(annotations, name) or 0 for name in (_INDEX_FAILURES, _INDEX_IGNORED))
    delay = min(_FIRST_DELAY_SECONDS * 2.0 ** min(failures, _MAX_DOUBLINGS), _MAX_DELAY_SECONDS)
    return delay + (grace if replaces_only_failed(job) else 0.0)


def _failed(job: Workload, uncounted: int) -> int:
    """How many pods have failed or are about to."""
    terminated = job.status.uncounted_terminated_pods
    return job.status.failed + len((terminated.failed if terminated else None) or ()) + uncounted


def _rules_that_may_match(
    job: Workload, conditions: Collection[tuple[str, str]]
) -> Iterator[tuple[int, PodFailureRule]]:
    """The rules, numbered from 1, of which an evicted pod may match one first; "Count" where none may be.

    The kubelet changes some conditions of a pod that ends; those that others set are as they are now.
    """
    policy = job.spec.pod_failure_policy
    for number, rule in enumerate((policy.rules if policy else None) or (), 1):
        if rule.on_exit_codes is not None:
            if _may_end_so(job, rule.on_exit_codes):
                yield number, rule
            continue
        patterns = {(pattern.type, pattern.status) for pattern in rule.on_pod_conditions or ()}
        if (_DISRUPTION, "True") in patterns:
            yield number, rule
            return
        if patterns & {*conditions} or any(kind in _OF_THE_KUBELET for kind, _ in patterns):
            yield number, rule
    yield 0, PodFailureRule(action=_COUNT)


def _may_end_so(job: Workload, codes: OnExitCodes) -> bool:
    """Whether a container of a Job may end with one of these codes when it is told to end.

    An init container that is no sidecar has succeeded when a pod runs, and one that succeeds matches nothing.
    """
    spec = job.spec.template.spec if job.spec.template else None
    if codes.container_name is not None and spec is not None:
        names = {container.name for container in spec.every_container}
        if codes.container_name not in names:
            return False
    return codes.operator == "NotIn" or (codes.operator == "In" and bool(codes.values))


def _count(annotations: Mapping[str, str], name: str) -> int | None:
    text = annotations.get(name, "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
