"""Generates docs/outputs.md: exit codes, outcomes, metrics, annotations and events, each from its table."""

from __future__ import annotations

from collections.abc import Sequence

from rebalancer.errors import ExitCode
from rebalancer.execution.events import EVENT_KINDS
from rebalancer.reporting.metrics import METRICS, SERVICE_METRICS, Metric
from rebalancer.state.results import Result

_HEAD = """\
# Exit codes, metrics, annotations
"""
_OUTCOMES = """\
## Outcomes of a run

Each move of a run ends in one of these (`outcomes[].result` in JSON). The worst decides the exit code; what
was `Skipped` before the run planned again does not count.
"""
_METRICS = """\
## Metrics

`rebalancer serve` answers them at `/metrics`. `rebalancer run --metrics-textfile FILE` writes them for the
node exporter, and `--metrics-push URL` pushes them to a Pushgateway. Gauges are of the last run.
"""
_SERVICE = """\
Only `rebalancer serve` has these:
"""
_ANNOTATIONS = """\
## Annotations of pods that are honoured

rebalancer annotates no pod. You may set these:
"""
_EVENTS = """\
## Events

Runs that act write events of the API group `events.k8s.io/v1`:

@EVENTS@
An event that repeats from run to run is written once an hour. Where events cannot be written, a run waits
some 20 s for them in all, and then writes no more. Every eviction request has the annotations
`requester: rebalancer` and `reason`, for audit logs and webhooks.
"""
SET_BY_KUBERNETES = frozenset(
    {
        "batch.kubernetes.io/job-index-failure-count",
        "batch.kubernetes.io/job-index-ignored-failure-count",
        "kubernetes.io/config.mirror",
        "kubernetes.io/config.source",
        "kubernetes.io/limit-ranger",
    }
)
# What the others mean; a test holds both to the annotations that rebalancer reads.
ANNOTATIONS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": (
        "`false`: the pod is never evicted (`Annotation`); `true`: it is not protected by `LocalStorage`"
    ),
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": (
        "names, separated by commas, of volumes that do not protect the pod by `LocalStorage`"
    ),
    "controller.kubernetes.io/pod-deletion-cost": ("of equally good pods the cheaper one is moved"),
    "rebalancer/evict": (
        "`false`: the pod is never evicted (`Annotation`); `true`: the protections of the policy do "
        "not count,"
        " but those of Kubernetes do"
    ),
    "descheduler.alpha.kubernetes.io/evict": (
        "as `rebalancer/evict`; to the descheduler `false` means the opposite"
    ),
    "descheduler.alpha.kubernetes.io/eviction-in-progress": (
        "somebody else evicts the pod already (`Terminating`)"
    ),
    "descheduler.alpha.kubernetes.io/prefer-no-eviction": "the pod is never evicted (`Annotation`)",
    "gang.scheduling.koordinator.sh/name": "the pod is placed together with others (`Unpredictable`)",
    "karpenter.sh/do-not-disrupt": (
        "a duration: the pod is not evicted before it is that old; `true`: never (`Annotation`)"
    ),
    "rebalancer/max-lifetime": (
        "a duration: how old `strategies.lifetime` lets the pod become; `never`: it stays"
    ),
    "scheduling.koordinator.sh/eviction-cost": "2147483647: the pod is never evicted (`Annotation`)",
}


def outputs_page() -> str:
    """The page as Markdown."""
    codes = [(str(int(code)), code.meaning) for code in ExitCode]
    results = [(f"`{result.value}`", result.meaning, str(int(result.exit_code))) for result in Result]
    ours = [metric for metric in METRICS if metric not in SERVICE_METRICS]
    events = [(kind.about, kind.type, f"`{kind.reason}`", kind.note) for kind in EVENT_KINDS]
    annotations = [(f"`{name}`", meaning) for name, meaning in sorted(ANNOTATIONS.items())]
    parts = (
        _HEAD,
        "## Exit codes\n\n" + _table(("code", "meaning"), codes),
        _OUTCOMES + "\n" + _table(("result", "how the move ended", "exit code"), results),
        _METRICS + "\n" + _metrics(ours),
        _SERVICE + "\n" + _metrics(SERVICE_METRICS),
        _ANNOTATIONS + "\n" + _table(("annotation", "meaning"), annotations),
        _EVENTS.replace("@EVENTS@\n", _table(("on", "type", "reason", "note"), events) + "\n"),
    )
    return "\n".join(parts)


def _metrics(metrics: Sequence[Metric]) -> str:
    rows = []
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append((f"`{metric.name}`", metric.kind.value, labels, metric.meaning))
    return _table(("metric", "kind", "labels", "meaning"), rows)


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "".join(map(_line, lines))


def _line(cells: tuple[str, ...]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |\n"
