"""The table of all metrics: name, meaning, labels and kind. The reference page is made from it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rebalancer.planning.strategies import STRATEGIES, label_of

_STRATEGIES = " or ".join(label_of(strategy.name) for strategy in STRATEGIES)
MAX_NAMESPACES = 200  # that have series of their own: some clusters make one for each change under review
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_REQUEST_SECONDS = (0.005, 0.025, 0.1, 0.5, 1, 5, 10, 60)  # fewer: there are many kinds of requests


class MetricKind(StrEnum):
    """What a figure means over time."""

    GAUGE = "gauge"  # of the last run
    COUNTER = "counter"  # since the process began
    HISTOGRAM = "histogram"  # since the process began


class Metric(msgspec.Struct, frozen=True):
    """One metric: its name, its help text, its labels, and its buckets if it is a histogram."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    kind: MetricKind = MetricKind.GAUGE
    buckets: tuple[float, ...] = ()


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, meaning, labels, MetricKind.COUNTER)


def _seconds(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, meaning, labels, MetricKind.HISTOGRAM, _SECONDS)


NODES = Metric("rebalancer_nodes", "Nodes in the snapshot.")
KNOWN_NODES = Metric("rebalancer_known_nodes", "Nodes with a fresh load figure.")
HOT_NODES = Metric("rebalancer_hot_nodes", "Nodes that are hot by the policy.")
UNSOLVED_NODES = Metric("rebalancer_unsolved_nodes", "Hot nodes that stay hot after the plan.")
UNSOLVED_NODE = Metric(
    "rebalancer_unsolved_node",
    "1 for a hot node that stays hot after the plan, with what keeps most of its pods, else NoPods.",
    ("node", "reason"),
)
HIGHEST_LOAD = Metric(
    "rebalancer_highest_load_percent",
    "Highest load of any reported node, percent of allocatable.",
    ("resource",),
)
HIGHEST_LOAD_AFTER = Metric(
    "rebalancer_highest_load_after_percent",
    "Highest load of any reported node expected after the plan, percent of allocatable.",
    ("resource",),
)
EXCESS = Metric(
    "rebalancer_excess_points", "Points above coolTo, as planning.overload counts them, over all hot nodes."
)
EXCESS_AFTER = Metric("rebalancer_excess_after_points", "The same, as expected after the plan.")
DEVIATION = Metric(
    "rebalancer_load_deviation_points",
    "Standard deviation of the load of nodes, in points.",
    ("resource",),
)
DEVIATION_AFTER = Metric(
    "rebalancer_load_deviation_after_points", "The same, as expected after the plan.", ("resource",)
)
MOVES_PLANNED = Metric("rebalancer_moves_planned", "Evictions in the plan.")
WAVES_PLANNED = Metric("rebalancer_waves_planned", "Waves in the plan.")
MOVES_QUEUED = Metric("rebalancer_moves_queued", "Moves of the run at work that have no outcome yet.")
PODS_KEPT = Metric("rebalancer_pods_kept", "Pods on hot nodes that are not moved, by reason.", ("reason",))
NEUTRAL_PLUGINS = Metric(
    "rebalancer_neutral_plugins", "Plugins of the scheduler that are taken to score all nodes alike."
)
VERIFIED = Metric(
    "rebalancer_scheduler_verified",
    "1 when the scheduler's version was compared with the model.",
)
UNVERIFIED_RULES = Metric(
    "rebalancer_unverified_rules",
    "Rules in which the scheduler's version differs from the nearest one that was compared.",
)
WARNINGS = Metric("rebalancer_plan_warnings", "Warnings of the plan.")
PLAN_TIME = Metric("rebalancer_plan_timestamp_seconds", "The clock the plan was made by, Unix seconds.")
MOVES = Metric("rebalancer_moves", "Moves of the run, by result.", ("result",))
STATE_BYTES = Metric("rebalancer_state_bytes", "Size of the state that the run left for later ones.")
STOPPED = Metric("rebalancer_run_stopped", "1 when the run stopped before the end of its plan.")
RUN_TIME = Metric("rebalancer_run_timestamp_seconds", "When the run ended, Unix seconds.")
SUCCESS_TIME = Metric(
    "rebalancer_last_success_timestamp_seconds", "When the last run ended with exit code 0, Unix seconds."
)
EXIT_CODE = Metric("rebalancer_run_exit_code", "What the run left with; see rebalancer --help.")
RUNS = _counter("rebalancer_runs_total", "Runs, by their exit code.", "exit_code")
STOPS = _counter(
    "rebalancer_stops_total", "Runs that stopped before the end of their plan, by the reason.", "stop"
)
EVICTIONS = _counter(
    "rebalancer_evictions_total",
    f"Evictions that were requested, by result, reason ({_STRATEGIES}) and namespace, for the "
    f"{MAX_NAMESPACES} namespaces that pods were evicted from last.",
    *("result", "reason", "namespace"),
)
LANDINGS = _counter(
    "rebalancer_landings_total",
    "Replacements that landed: on the node the plan held likeliest, on another it "
    "listed, on one it did not list but allows, or on one it does not allow.",
    "landing",
)
LANDINGS_EXPECTED = _counter(
    "rebalancer_landings_likeliest_expected_total",
    "How many of these should have landed on the likeliest node: the sum of the plan's chances for it.",
)
RUN_SECONDS = _seconds(
    "rebalancer_run_duration_seconds", "How long runs took, from reading to the last landing."
)
STAGE_SECONDS = _seconds(
    "rebalancer_stage_duration_seconds",
    "How long stages took: gather, plan, wave, eviction, and landing, until the replacement was ready; and "
    "check, the look at the load between two runs.",
    "stage",
)
REQUEST_SECONDS = Metric(
    "rebalancer_api_request_duration_seconds",
    "How long requests to the API server took, by what was asked and how that ended.",
    ("request", "result"),
    MetricKind.HISTOGRAM,
    _REQUEST_SECONDS,
)
LEADER = Metric("rebalancer_leader", "1 for the replica that acts; in plan mode, for each.")
POLICY_CURRENT = Metric(
    "rebalancer_policy_last_reload_successful",
    "0 while the policy file cannot be used and the one before it is in force.",
)
NEXT_RUN = Metric("rebalancer_next_run_timestamp_seconds", "When the next run is due, Unix seconds.")
CHECKS = _counter(
    "rebalancer_load_checks_total",
    "Looks at the load between two runs: NothingNew; EarlyRun, a node had turned hot since the last run, "
    "or had come or gone, and the next one began at once; Unknown, the load could not be read or too little "
    "of it is known.",
    "result",
)

COMPARISONS = _counter(
    "rebalancer_watch_comparisons_total",
    "Comparisons of what watches brought with a LIST, which follow an hour or a watch that was cut: Same; "
    "Differs, and the kind is read anew, as after a restore of etcd.",
    "result",
)

SERVICE_METRICS: tuple[Metric, ...] = (LEADER, POLICY_CURRENT, NEXT_RUN, CHECKS, COMPARISONS)
"""Those that only ``rebalancer serve`` has."""

METRICS: tuple[Metric, ...] = (
    *(NODES, KNOWN_NODES, HOT_NODES, UNSOLVED_NODES, UNSOLVED_NODE),
    *(HIGHEST_LOAD, HIGHEST_LOAD_AFTER, EXCESS, EXCESS_AFTER, DEVIATION, DEVIATION_AFTER),
    *(MOVES_PLANNED, WAVES_PLANNED, MOVES_QUEUED, PODS_KEPT),
    *(NEUTRAL_PLUGINS, VERIFIED, UNVERIFIED_RULES, WARNINGS, PLAN_TIME),
    *(MOVES, STATE_BYTES, STOPPED, RUN_TIME, SUCCESS_TIME, EXIT_CODE),
    *(RUNS, STOPS, EVICTIONS, LANDINGS, LANDINGS_EXPECTED),
    *(RUN_SECONDS, STAGE_SECONDS, REQUEST_SECONDS),
    *SERVICE_METRICS,
)
