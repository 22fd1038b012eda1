"""Generates docs/outputs.md: exit codes, outcomes, metrics, annotations and events, each from its table."""

from __future__ import annotations

from collections.abc import Sequence

from rebalancer.cluster.pods import HONOURED_ANNOTATIONS
from rebalancer.errors import ExitCode
from rebalancer.execution.events import EVENT_KINDS
from rebalancer.reporting.metrics import METRICS, SERVICE_METRICS, Metric
from rebalancer.state.results import Result

_HEAD = """\
# What rebalancer returns, writes and honours
"""
_OUTCOMES = """\
## Outcomes of a run

Each move of a run ends in one of these (`outcomes[].result` in JSON). The exit code of the run is that of
the worst, unless something else stopped the run.
"""
_METRICS = """\
## Metrics

`rebalancer serve` answers them at `/metrics`. `rebalancer run --metrics-textfile FILE` writes them for the
textfile collector of the node exporter, and `--metrics-push URL` pushes them to a Pushgateway. Gauges are
of the last run. Counters and histograms add up over the runs of a process: `rebalancer run` begins them anew.
"""
_SERVICE = """\
Only `rebalancer serve` has these:
"""
_ANNOTATIONS = """\
## Annotations of pods that are honoured

rebalancer annotates no pod. It honours these, most of which Kubernetes and other tools have made known:
"""
_EVENTS = """\
## Events

Runs that act write events of the API group `events.k8s.io/v1`:

@EVENTS@
What is so in run after run is said once an hour.

Every eviction request carries the annotations `requester: rebalancer` and `reason`, for audit logs and for
admission webhooks.
"""
# What the annotations mean; a test holds this to the annotations that are read.
ANNOTATIONS = {
    "batch.kubernetes.io/job-index-failure-count": (
        "how often the index of an indexed Job has failed; see `backoffLimitPerIndex` (`JobWouldFail`)"
    ),
    "batch.kubernetes.io/job-index-ignored-failure-count": (
        "with the one before: how long the Job waits before it replaces the pod (`GracePeriod`)"
    ),
    "kubernetes.io/limit-ranger": (
        "what a LimitRange added to the pod: its replacement differs where none does so now (`Unpredictable`)"
    ),
    "cluster-autoscaler.kubernetes.io/safe-to-evict": (
        "`false`: the pod is never evicted (`Annotation`); `true`: it is not protected by `LocalStorage`"
    ),
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": (
        "names, separated by commas, of volumes that do not protect the pod by `LocalStorage`"
    ),
    "controller.kubernetes.io/pod-deletion-cost": ("of equally good pods the cheaper one is moved"),
    "rebalancer/evict": (
        "`false`, also as `False`, `no`, `off`, `never` or `0`: the pod is never evicted (`Annotation`);"
        " any other value lifts the protections of the policy, but none that always holds"
    ),
    "descheduler.alpha.kubernetes.io/evict": (
        "as `rebalancer/evict`; with `false` descheduler itself does the opposite"
    ),
    "descheduler.alpha.kubernetes.io/eviction-in-progress": (
        "somebody evicts the pod in the background already: it is leaving (`Terminating`)"
    ),
    "descheduler.alpha.kubernetes.io/prefer-no-eviction": "the pod is never evicted (`Annotation`)",
    "gang.scheduling.koordinator.sh/name": "the pod is placed together with others (`Unpredictable`)",
    "karpenter.sh/do-not-disrupt": (
        "a duration: the pod is not evicted before it is that old; any other value but `false`: never"
        " (`Annotation`)"
    ),
    "kubernetes.io/config.mirror": "marks the copy of a static pod, which is never evicted (`StaticPod`)",
    "kubernetes.io/config.source": "`file` or `http`: a static pod, which is never evicted (`StaticPod`)",
    "rebalancer/max-lifetime": (
        "a duration: how old the pod may become where `strategies.lifetime` is on; else: never too old"
    ),
    "scheduling.koordinator.sh/eviction-cost": "2147483647: the pod is never evicted (`Annotation`)",
}


def outputs_page() -> str:
    """The page as Markdown."""
    codes = [(str(int(code)), code.meaning) for code in ExitCode]
    results = [(f"`{item.value}`", item.meaning, str(int(item.exit_code))) for item in Result]
    ours = [metric for metric in METRICS if metric not in SERVICE_METRICS]
    events = [(kind.about, kind.type, f"`{kind.reason}`", kind.note) for kind in EVENT_KINDS]
    annotations = [(f"`{name}`", ANNOTATIONS.get(name, "")) for name in sorted(HONOURED_ANNOTATIONS)]
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
