"""Why nothing is moved: for the whole cluster, for one node or for one pod, in as few words as possible.

The answer is what ``plan`` and ``explain`` know already, put in the order in which it helps: is anything hot
at all, and how far from it; which settings hold the load that could leave, the heaviest first; and of a pod
every rule that keeps it, not only the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.counting import counted
from rebalancer.errors import InputError
from rebalancer.planning.explanation import MOVED, NODE_NOT_HOT, PodExplainer, Refusal
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import (
    API_VERSION,
    PERCENT_DIGITS,
    Answer,
    Move,
    Obstacle,
    Plan,
    UnmovedPod,
    Value,
)
from rebalancer.planning.planner import make_plan, prepare_to_plan, search
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.report import build_plan
from rebalancer.planning.strategies.hot_nodes.relief import LIFTED
from rebalancer.planning.strategies.hot_nodes.report import find_obstacles
from rebalancer.planning.subjects import Subject
from rebalancer.policy.schema import Limits

_MAX_NEAREST = 3


class Distance(Value, frozen=True):
    """How far a node is from being hot, in the resource in which it is nearest."""

    node: str
    resource: str
    load: float  # percent of allocatable
    hot_above: float


class WhyNot(Answer, frozen=True):
    """Why nothing is moved, or no more than is."""

    subject: str = ""  # node/NAME or pod/NAMESPACE/NAME; empty for the whole cluster
    moves: int = 0  # of the plan, from the subject
    verdict: str = ""
    obstacles: tuple[Obstacle, ...] = ()  # what holds load on nodes above coolTo, the heaviest first
    refusals: tuple[Refusal, ...] = ()  # of a pod: every rule that keeps it
    nearest: tuple[Distance, ...] = ()  # nodes nearest to being hot, where none is
    warnings: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()  # commands that tell more
    api_version: str = API_VERSION
    kind: str = "WhyNot"


def why_not(inputs: PlanningInputs, subject: Subject | None) -> WhyNot:
    """Why nothing is moved, of a node, of a pod or of the whole cluster; InputError for a workload."""
    if subject is not None and subject.kind not in ("node", "pod"):
        name = f"{subject.kind.lower()}/{subject.namespace}/{subject.name}"
        raise InputError(
            "why-not asks about a node or a pod",
            hint=f"of a workload, with the same options: rebalancer explain {name}",
        )
    prepared = prepare_to_plan(inputs)
    searched = search(prepared)
    plan = build_plan(prepared, searched)
    answer = WhyNot(**plan.of_same(), warnings=plan.warnings)
    if subject is None:
        return _of_the_cluster(prepared, plan, answer)
    if subject.kind == "pod":
        return _of_a_pod(inputs, prepared, plan, PodRow(subject.row), answer)
    row = NodeRow(subject.row)
    held = replace(answer, obstacles=find_obstacles(prepared, searched, {row}))
    return _of_a_node(prepared, plan, row, held)


def _of_the_cluster(prepared: PreparedInputs, plan: Plan, answer: WhyNot) -> WhyNot:
    nearest: tuple[Distance, ...] = ()
    if not plan.hot_count:
        nearest = _nearest(prepared, range(plan.node_count))
        verdict = f"no node is hot{_how_far(nearest)}"
        if plan.moves:
            verdict = f"{_moved(plan.moves)}: see rebalancer plan; {verdict}"
        elif plan.kept:
            verdict = f"{_kept(plan.kept)}; {verdict}"
    elif not plan.moves:
        verdict = f"nothing is moved from {counted(plan.hot_count, 'hot node')}: {_most(plan.obstacles)}"
    elif plan.unsolved:
        verdict = (
            f"{counted(len(plan.moves), 'pod')} would be moved; {len(plan.unsolved):,} of "
            f"{counted(plan.hot_count, 'hot node stays', 'hot nodes stay')} above coolTo: "
            f"{_most(plan.obstacles)}"
        )
    else:
        verdict = (
            f"{counted(len(plan.moves), 'pod')} would be moved, and every hot node cools: see rebalancer plan"
        )
    changeable = any(item.setting for item in plan.obstacles)
    steps = ["rebalancer plan --diff OTHER_POLICY.yaml"] if changeable else []
    steps += ["rebalancer plan --advise"] if any(item.remedy for item in plan.obstacles) else []
    steps += [f"rebalancer why-not pod/{plan.obstacles[0].example}"] if plan.obstacles else []
    steps += ["rebalancer plan"] if plan.kept and not (plan.hot_count or plan.moves) else []
    steps += ["rebalancer nodes"] if nearest else []
    return replace(
        answer,
        moves=len(plan.moves),
        verdict=verdict,
        obstacles=plan.obstacles,
        nearest=nearest,
        next_steps=tuple(steps),
    )


def _of_a_node(prepared: PreparedInputs, plan: Plan, row: NodeRow, answer: WhyNot) -> WhyNot:
    name = prepared.inputs.snapshot.nodes.names[row]
    moves = sum(1 for move in plan.moves if move.from_node == name)
    nearest: tuple[Distance, ...] = ()
    if not prepared.inputs.load.known[row]:
        verdict = "its load is not known: it counts neither as hot nor as a landing"
    elif not prepared.hotness.hot[row]:
        nearest = _nearest(prepared, [row])
        verdict = f"it is not hot{_how_far(nearest)}"
        if moves:
            leaving = [move for move in plan.moves if move.from_node == name]
            verdict = f"{_moved(leaving)}: see rebalancer plan; {verdict}"
        elif kept := [item for item in plan.kept if item.node == name]:
            verdict = f"{_kept(kept)}; {verdict}"
    elif name in plan.unsolved:
        lead = f"{counted(moves, 'pod')} would leave it, but it" if moves else "it"
        verdict = f"{lead} {plan.unsolved[name]}"
    else:
        verdict = f"{counted(moves, 'pod')} would leave it, and it cools: see rebalancer plan"
    steps = (f"rebalancer explain node/{name}",)
    subject = f"node/{name}"
    return replace(answer, subject=subject, moves=moves, verdict=verdict, nearest=nearest, next_steps=steps)


def _of_a_pod(
    inputs: PlanningInputs, prepared: PreparedInputs, plan: Plan, row: PodRow, answer: WhyNot
) -> WhyNot:
    pod = PodExplainer(prepared, row).explanation()
    name, node = prepared.table_of(row).full_name(row), prepared.node_of(row)
    at_rest = node < 0 or prepared.has_finished(row) or prepared.hotness.hot[node]
    nearest = () if at_rest or not inputs.load.known[node] else _nearest(prepared, [node])
    verdict = pod.verdict_because
    if pod.verdict == MOVED:
        verdict = f"it would be moved, {verdict}"
    elif kept := next((item for item in plan.kept if item.pod.uid == pod.pod.uid and item.setting), None):
        verdict += _with_higher_limits(inputs, kept)
    elif nearest and pod.verdict == NODE_NOT_HOT:  # no strategy wishes to move it either
        verdict = f"its node is not hot{_how_far(nearest)}"
    return replace(
        answer,
        subject=f"pod/{name}",
        moves=int(pod.verdict == MOVED),
        verdict=verdict,
        refusals=pod.refusals,
        nearest=nearest,
        next_steps=(f"rebalancer explain pod/{name}",),
    )


def _moved(moves: Sequence[Move]) -> str:
    """How many pods would be moved, and by which strategies."""
    return (
        f"{counted(len(moves), 'pod')} would be moved by {', '.join(sorted({it.strategy for it in moves}))}"
    )


def _kept(kept: Sequence[UnmovedPod]) -> str:
    """How many pods strategies wish to move and do not, and what keeps most of them."""
    reason, number = Counter(item.reason for item in kept).most_common(1)[0]
    first = next(item for item in kept if item.reason == reason)
    who = counted(len(kept), "pod that a strategy would move stays", "pods that strategies would move stay")
    return f"{who}, {number:,} by {reason}, e.g. {first.pod.namespace}/{first.pod.name}: {first.because}"


def _with_higher_limits(inputs: PlanningInputs, kept: UnmovedPod) -> str:
    """Whether the pod would move if the limits that keep it were none; empty where others do."""
    aliases = {f"limits.{field.alias}": name for name, field in Limits.model_fields.items()}
    names = [aliases.get(setting, "") for setting in kept.setting.split(" and ")]
    if not LIFTED.keys() >= set(names):
        return ""
    limits = inputs.policy.limits.model_copy(update={name: LIFTED[name] for name in names})
    policy = inputs.policy.model_copy(update={"limits": limits})
    found = make_plan(replace(inputs, policy=policy, explains=False))
    moved, uid = {move.pod.uid for move in found.moves}, kept.pod.uid
    because = next((item.because for item in found.kept if item.pod.uid == uid), "its node cools without it")
    would = "the plan would move it" if uid in moved else f"it would stay all the same: {because}"
    return f"; without {kept.setting} {would}"


def _nearest(prepared: PreparedInputs, rows: range | list[NodeRow] | list[int]) -> tuple[Distance, ...]:
    """The nodes whose load is nearest to a threshold, each in its nearest resource."""
    hotness, percent = prepared.hotness, prepared.inputs.load.percent
    names = prepared.inputs.snapshot.nodes.names
    distances: list[tuple[float, Distance]] = []
    for row in rows:
        missing = hotness.hot_above[row] - percent[row]
        missing = np.where(np.isnan(missing), np.inf, missing)
        column = int(np.argmin(missing))
        if np.isfinite(missing[column]):
            distance = Distance(
                node=names[row],
                resource=hotness.names[column],
                load=round(float(percent[row, column]), PERCENT_DIGITS),
                hot_above=round(float(hotness.hot_above[row, column]), PERCENT_DIGITS),
            )
            distances.append((float(missing[column]), distance))
    distances.sort(key=lambda item: (item[0], item[1].node))
    return tuple(distance for _, distance in distances[:_MAX_NEAREST])


def _how_far(nearest: tuple[Distance, ...]) -> str:
    if not nearest:
        return ", and no rule of the policy could make it so"
    first = nearest[0]
    missing = first.hot_above - first.load
    if missing <= 0:  # above the level, and not hot all the same: another condition of the rule is not met
        return f": {first.node} is at {first.load:.1f} % {first.resource}, but nothing there has to wait"
    return (
        f": {first.node} is at {first.load:.1f} % {first.resource}, hot above {first.hot_above:.1f} %, "
        f"{missing:.1f} points more"
    )


def _most(obstacles: tuple[Obstacle, ...]) -> str:
    if not obstacles:
        return "no pod there could ever move: they belong to their nodes, or to what plans rely on"
    return obstacles[0].sentence
