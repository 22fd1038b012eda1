"""A first policy for a cluster: what is seen there decides thresholds, sources and limits, with reasons.

A policy that fits another cluster moves nothing here, or too much. So thresholds are tried on the cluster
itself, from the usual one downwards, and the first with which a plan moves a pod is taken:

    cpu: mean 43 %, highest 74 %    80 % makes no node hot; 70 % makes one hot, and its pods land nowhere
    65 %                            two nodes are hot, and a plan moves three pods: that is the threshold
    coolTo 50 %                     15 points below it, and above the mean

Nothing is weakened to get a plan: pods stay protected as they are by default. Where no threshold moves a pod,
the policy keeps the usual one and says what stands in the way.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.kinds import SERVICES
from rebalancer.cluster.records import Service
from rebalancer.planning.coverage import OF_THEIR_NODE
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import make_plan
from rebalancer.policy.policy_file import parse_policy
from rebalancer.policy.schedulers import ConfigMapKey
from rebalancer.questions.why_not import why_not

_USUAL, _LOWEST, _STEP = 80, 30, 5  # percent of allocatable cpu above which a node is hot
_ABOVE_MEAN = 10  # points that a threshold is above the mean at least
_MAX_CANDIDATES = 8
_COOLING_POINTS = 15
_SHARE_PER_RUN = 0.01  # of the pods that may move
_MAX_SERVICES = 2
_BESIDE_PROMETHEUS = ("adapter", "alert", "exporter", "operator", "push")  # in names of other services
_WIDTH = 80  # columns


class FirstPolicy(msgspec.Struct, frozen=True):
    """The text of a policy, and what a plan by it does now."""

    text: str
    moves: int


class _Facts(msgspec.Struct, frozen=True, eq=False):
    """What the policy is made from."""

    inputs: PlanningInputs
    measured: bool  # the load was measured, not taken from requests
    cpu: FloatArray  # (known nodes,) percent of allocatable
    memory: FloatArray
    movable: int  # pods that do not belong to their node
    schedulers: Counter[str]  # pods by schedulerName
    place: ConfigMapKey | None  # where the scheduler's configuration was found

    @classmethod
    def of(cls, inputs: PlanningInputs, place: ConfigMapKey | None, *, measured: bool) -> _Facts:
        percent, counts = inputs.load.percent[inputs.load.known], _schedulers(inputs)
        return cls(inputs, measured, percent[:, 0], percent[:, 1], counts.total(), counts, place)


def _schedulers(inputs: PlanningInputs) -> Counter[str]:
    """How many pods that do not belong to their node have each schedulerName."""
    pods, counts = inputs.snapshot.pods, Counter[str]()
    for index in pods.pod_class[pods.node >= 0].tolist():
        if pods.classes[index].owner.kind not in OF_THEIR_NODE:
            counts[pods.classes[index].scheduler_name] += 1
    return counts


def pods_with_a_profile(inputs: PlanningInputs) -> int:
    """How many pods that do not belong to their node have a profile in the scheduler's configuration."""
    configuration = inputs.scheduler.configuration
    return sum(count for name, count in _schedulers(inputs).items() if configuration.profile(name))


def first_policy(inputs: PlanningInputs, place: ConfigMapKey | None = None, *, measured: bool) -> FirstPolicy:
    """The policy for a cluster; ``measured`` is whether its load was measured or taken from requests.

    ``place`` is where in the cluster the scheduler's configuration was found, which the policy then names.
    """
    facts = _Facts.of(inputs, place, measured=measured)
    for threshold in _thresholds(facts):
        planned = _planned(facts, threshold)
        if planned[1].moves:
            return FirstPolicy(_with_header(facts, *planned), len(planned[1].moves))
    text, plan = _planned(facts, _USUAL)
    return FirstPolicy(_with_header(facts, text, plan), len(plan.moves))


def _planned(facts: _Facts, threshold: int) -> tuple[str, Plan]:
    """A policy with this threshold, and its plan."""
    text = "\n".join(_policy(facts, threshold)) + "\n"
    return text, make_plan(_by_policy(facts.inputs, text))


def _by_policy(inputs: PlanningInputs, text: str) -> PlanningInputs:
    policy = parse_policy(text, "the suggested policy").policy
    return replace(inputs, policy=policy, ignore_coverage=True)  # it is only looked at


def _thresholds(facts: _Facts) -> list[int]:
    """Percentages of cpu to try: the usual one, then those at which the busiest nodes are hot."""
    if not len(facts.cpu):
        return []
    highest, mean = float(facts.cpu.max()), float(facts.cpu.mean())
    lowest = max(_LOWEST, math.ceil((mean + _ABOVE_MEAN) / _STEP) * _STEP)
    first = min(math.ceil(highest / _STEP) * _STEP - _STEP, _USUAL - _STEP)
    return [_USUAL, *range(first, lowest - 1, -_STEP)][:_MAX_CANDIDATES]


def _policy(facts: _Facts, threshold: int) -> Iterator[str]:
    """The lines of the policy without its header."""
    yield from ("apiVersion: rebalancer/v1alpha1", "kind: RebalancePolicy", "metadata: {name: first}", "")
    yield from (*_scheduler(facts), "", *_load(facts), "", *_hot_nodes(facts, threshold), "")
    yield "evictable:"
    yield from _comment(2, "A pod that has just started shows no usual load yet.")
    yield "  minAge: 10m"
    yield from _comment(
        2, "These lose data, or their only replica. Take one out once you know that its pods may move."
    )
    yield "  protect: [LocalStorage, PersistentVolumes, SingleReplica]"
    yield from ("", *_limits(facts))


def _scheduler(facts: _Facts) -> Iterator[str]:
    configuration, version = facts.inputs.scheduler.configuration, facts.inputs.scheduler.version
    yield "scheduler:"
    if version:
        yield from _comment(2, f"Version {version} was seen; a run reads it again each time.")
    else:
        yield from _comment(
            2, "The version could not be seen, and without it a run refuses to act. State it:"
        )
        yield '  # version: "1.35"'
    if facts.place is not None:
        yield from _comment(
            2, "Found by its name, and it has a profile for more of the pods than the defaults have."
        )
        where = {"namespace": facts.place.namespace, "name": facts.place.name, "key": facts.place.key}
        yield f"  configMap: {json.dumps(where)}"
    elif not configuration.text:
        yield from _comment(
            2, "No configuration was read: the defaults of the version count. If yours differs, name it:"
        )
        yield "  # configMap:"
        yield "  #   {namespace: kube-system, name: scheduler-config, key: scheduler-config.yaml}"
    missing = sorted(name for name in facts.schedulers if configuration.profile(name) is None)
    for name in missing:
        yield from _comment(
            2,
            f"{facts.schedulers[name]} pods have schedulerName {name}, which the configuration lacks: none "
            "of them is moved before their scheduler's configuration is named here.",
        )
    names = sorted(facts.schedulers.keys() - set(missing))
    counts = ", ".join(f"{name} {facts.schedulers[name]}" for name in names)
    yield from _comment(2, f"Pods by profile: {counts or 'none'}. [] means all profiles.")
    yield "  profiles: []"


def _load(facts: _Facts) -> Iterator[str]:
    load, nodes = facts.inputs.load, len(facts.inputs.snapshot.nodes)
    yield from ("load:", "  sources:")
    for service in _prometheus_services(facts):
        yield from _comment(
            4,
            f"Service {service.metadata.namespace}/{service.metadata.name} is named like a Prometheus. With "
            "it add window: 15m and statistic: p95, so that a spike makes no node hot:",
        )
        address = f"http://{service.metadata.name}.{service.metadata.namespace}:9090"
        yield f"    # - prometheus: {{address: {json.dumps(address)}, preset: nodeExporter}}"
    if facts.measured:
        known = int(np.count_nonzero(load.known))
        yield from _comment(4, f"It has fresh figures of {known} of {nodes} nodes, each of a moment only.")
        yield "    - metricsServer: {}"
    else:
        yield from _comment(
            4,
            "No measured load was found, so the requests of the pods stand for it, which may be far from it. "
            "Install metrics-server, or name a Prometheus, and put it before this line.",
        )
        yield "    - requests: {}"


def _prometheus_services(facts: _Facts) -> list[Service]:
    """Services that are named like a Prometheus server."""
    services = [
        item
        for item in facts.inputs.snapshot.recording.records(SERVICES)
        if "prometheus" in item.metadata.name
        and not any(part in item.metadata.name for part in _BESIDE_PROMETHEUS)
    ]
    services.sort(key=lambda item: (item.metadata.namespace, item.metadata.name))
    return services[:_MAX_SERVICES]


def _hot_nodes(facts: _Facts, threshold: int) -> Iterator[str]:
    yield "hotNodes:"
    yield from _comment(2, "A node must be hot in two runs one after the other: a spike moves nothing.")
    yield from ("  forRuns: 2", "  any:")
    mean = 0.0
    if len(facts.cpu):
        mean = float(facts.cpu.mean())
        above = int(np.count_nonzero(facts.cpu > threshold))
        # A load that a node has, as in the summary of ``nodes``.
        p95 = float(np.percentile(facts.cpu, 95, method="inverted_cdf"))
        usual = "the usual threshold" if threshold == _USUAL else f"the usual {_USUAL} % would move nothing"
        yield from _comment(
            4,
            f"cpu: mean {mean:.0f} %, 95th percentile {p95:.0f} %, highest "
            f"{facts.cpu.max():.0f} %; {above} of {len(facts.cpu)} nodes are above {threshold} %, {usual}. "
            f"memory: mean {facts.memory.mean():.0f} %, highest {facts.memory.max():.0f} %; 85 % is the "
            "usual threshold.",
        )
    else:
        yield from _comment(4, "The load of no node is known: these are the usual thresholds.")
    cool_to = max(threshold - _COOLING_POINTS, min(threshold - _STEP, round(mean / _STEP) * _STEP + _STEP))
    yield f"    - utilization: {{cpu: {threshold}, memory: 85}}"
    yield f"      coolTo: {{cpu: {cool_to}, memory: 75}}"


def _limits(facts: _Facts) -> Iterator[str]:
    per_run = max(2, min(20, math.ceil(facts.movable * _SHARE_PER_RUN)))
    yield "limits:"
    yield from _comment(
        2, f"1 % of the {facts.movable} pods that do not belong to their node, at least 2 and at most 20."
    )
    yield f"  perRun: {per_run}"
    yield f"  perNode: {min(4, per_run)}"
    yield f"  perNamespace: {min(10, per_run)}"
    yield from _comment(
        2, "Of the desired replicas, rounded up: so one at a time of a workload of up to ten."
    )
    yield "  perWorkload: 10%"


def _with_header(facts: _Facts, text: str, plan: Plan) -> str:
    """The policy, preceded by what it was made from and what a plan by it does now."""
    inputs = facts.inputs
    after = sum(1 for node in plan.nodes if node.hot and (node.after is None or node.after.hot))
    now = f"{len(plan.moves)} pods move, and {after} of {plan.hot_count} hot nodes stay hot"
    if not plan.moves:
        now = why_not(_by_policy(inputs, text), None).verdict
    header = (
        *_comment(
            0,
            "A policy for rebalancer, suggested by what a cluster shows. Every key that is not here has its "
            "default: see rebalancer policy show. Check a change with rebalancer plan --diff.",
        ),
        *_comment(
            0,
            f"Seen: {len(inputs.snapshot.nodes)} nodes and {len(inputs.snapshot.pods)} pods of "
            f"{inputs.snapshot.source} at {times.render(inputs.now)}.",
        ),
        *_comment(0, f"A plan by it, now: {now}."),
    )
    return "\n".join((*header, text))


def _comment(indent: int, text: str) -> list[str]:
    """A comment in lines that fit a screen; names from the cluster in it stay on their lines."""
    safe = "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))
    lead = " " * indent + "# "
    return [lead + line for line in textwrap.wrap(safe, _WIDTH - len(lead), break_on_hyphens=False)]
