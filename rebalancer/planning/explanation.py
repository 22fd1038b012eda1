"""Explains a pod, a node or a workload: by the same rules, model and plan as a run.

Of a pod: whether it may be evicted, where its replacement would run, and what staying costs. Of a node: why
it is hot or not. Of nodes and workloads: what the plan does with each of their pods, and why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

import numpy as np

from rebalancer.cluster.arrays import FloatArray, NodeRow, PodClassIndex, PodRow, weighted_sum
from rebalancer.planning.builder import AcceptedMove, PartialPlan, PlanBuilder, PlannedMove
from rebalancer.planning.cleanups import FinishedPods
from rebalancer.planning.eviction import every_refusal, why_protected
from rebalancer.planning.hotness import short_level
from rebalancer.planning.landing.evaluation import Evaluation
from rebalancer.planning.landing.purpose import Landings, Purpose
from rebalancer.planning.landing.scenarios import LandingDistribution, Scenarios
from rebalancer.planning.plan import (
    API_VERSION,
    CHANCE_DIGITS,
    Answer,
    Landing,
    Obstacle,
    Plan,
    PodReference,
    Value,
    by_resource,
)
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.remedies import remedy, remove_finished
from rebalancer.planning.report import possible_landings
from rebalancer.planning.strategies import strategies_of
from rebalancer.planning.strategies.hot_nodes.relief import LIFTED
from rebalancer.planning.strategies.hot_nodes.report import find_obstacles
from rebalancer.planning.strategies.strategy import Strategy
from rebalancer.policy.schema import Limits, RebalancePolicy
from rebalancer.scheduling.framework.cycle import Placement
from rebalancer.scheduling.resources import requested_amounts
from rebalancer.scheduling.state.cluster_state import ClusterState


class ScoredNode(Value, frozen=True):
    """A feasible node: how the scheduler scores it, and whether a landing there would be acceptable."""

    node: str
    total: int
    scores: dict[str, int]  # weighted, by plugin
    probability: float  # of landing there, over all courses of the moves before, and once the pod is gone
    in_course: float  # of landing there in the course whose scores these are
    after: dict[str, float]  # percent of allocatable expected after the landing
    unacceptable: str = ""  # why a landing there is not acceptable; empty when it is where it happens


class RejectedNodes(Value, frozen=True):
    """Nodes that the scheduler rejects for the same reason."""

    reason: str  # Plugin: reason, as the scheduler words it
    count: int
    nodes: tuple[str, ...]  # the first few by name


class SchedulingTable(Value, frozen=True):
    """What one scheduling cycle would do with the pod that replaces this one."""

    profile: str
    feasible: int
    nodes: tuple[ScoredNode, ...]  # by chance, then total, then name
    rejected: tuple[RejectedNodes, ...]  # the most frequent first
    because: str = ""  # why no node was looked at, or the cycle fails
    notes: tuple[str, ...] = ()

    @property
    def differing(self) -> list[str]:
        """The plugins that score the feasible nodes differently."""
        names = self.nodes[0].scores if self.nodes else ()

        def differs(name: str) -> bool:
            return len({node.scores[name] for node in self.nodes}) > 1

        return [name for name in names if differs(name)]

    @property
    def chances_differ(self) -> bool:
        """Whether a chance, in tenths of a percent, is another one with these scores than over all.

        The moves before may turn out in several ways, and the scores are those of one while the evicted pod
        terminates: once it is gone, its replacement may land elsewhere.
        """
        return any(round(node.in_course, 3) != round(node.probability, 3) for node in self.nodes)


class Staying(Value, frozen=True):
    """What it costs to leave the pod where it is."""

    load: dict[str, float]  # percent of allocatable of its node
    hot: bool
    above: dict[str, float]  # points above the level to cool to
    share: dict[str, float]  # points of allocatable that would leave with the pod
    forgone: dict[str, float]  # expected gain, in points, over the landings
    because: str


class Refusal(Value, frozen=True):
    """One reason why a pod may not be evicted."""

    reason: str  # a code of planning.reasons
    because: str
    setting: str = ""  # of the policy; empty where the cluster and no setting is the reason
    remedy: str = ""  # what would free it: a key of the policy with its value, a field of the API, or time


class PodExplanation(Answer, frozen=True):
    """Why a pod may (not) be evicted, where it would land and why there, and what the plan does with it."""

    pod: PodReference
    node: str  # empty while Pending
    evictable: bool
    reason: str  # a code of planning.reasons; empty when evictable
    because: str
    verdict: str  # what the plan does: Moved, a code of planning.reasons, or NodeNotHot
    verdict_because: str
    landings: tuple[Landing, ...]  # expected, over terminating and gone
    unacceptable: float  # chance of an unacceptable landing
    after_moves: bool = False  # whether figures and scores are those after the moves before it in the plan
    staying: Staying | None = None  # None while Pending
    table: SchedulingTable | None = None  # None where no profile places it
    wishes: dict[str, str] = {}  # by strategy that wishes to move it: why
    refusals: tuple[Refusal, ...] = ()  # every reason, the first of which is ``reason``
    remedy: str = ""  # what would have the plan move it, where another reason than these keeps it
    api_version: str = API_VERSION
    kind: str = "PodExplanation"


class PodOnNode(Value, frozen=True):
    """A pod of a node: its share and what the plan does with it."""

    pod: PodReference
    share: dict[str, float]  # points of the node's allocatable
    verdict: str  # Moved, Evictable, or a code of planning.reasons
    because: str


class PodOfWorkload(Value, frozen=True):
    """A pod of a workload: where it runs, and what the plan does with it."""

    pod: PodReference
    node: str  # empty while Pending
    hot: bool  # whether that node is hot
    share: dict[str, float]  # points of the node's allocatable
    verdict: str  # one of VERDICTS, or a code of planning.reasons
    because: str


class WorkloadExplanation(Answer, frozen=True):
    """What the plan does with each pod of a workload."""

    namespace: str
    workload: str  # Kind/name
    pods: tuple[PodOfWorkload, ...]  # moved ones first, then those on hot nodes, then by name
    api_version: str = API_VERSION
    kind: str = "WorkloadExplanation"


class NodeExplanation(Answer, frozen=True):
    """Why a node is hot or not, and each of its pods."""

    node: str
    load: dict[str, float]
    after: dict[str, float]  # expected after the plan
    hot: bool
    because: tuple[str, ...]
    levels: dict[str, str]  # by resource: hot above and cool at
    of_no_pod: dict[str, float]  # percent of allocatable that processes outside pods use, where known
    score: float | None  # 0..100, the scheduler's own view for a plain pod
    uncounted: str  # why no landing counts on it; empty when one may
    unsolved: str  # why it stays hot after the plan
    pods: tuple[PodOnNode, ...]  # the largest share first
    obstacles: tuple[Obstacle, ...] = ()  # what holds its load above coolTo, the heaviest first
    api_version: str = API_VERSION
    kind: str = "NodeExplanation"


Explanation = PodExplanation | NodeExplanation | WorkloadExplanation


# What a verdict may be besides a code of planning.reasons.
MOVED = "Moved"
REMOVED = "Removed"  # a finished pod
EVICTABLE = "Evictable"
NODE_NOT_HOT = "NodeNotHot"
_PENDING = "Pending"
VERDICTS = (MOVED, REMOVED, EVICTABLE, NODE_NOT_HOT, _PENDING)
LOAD_NOT_KNOWN = "nothing protects it, and the load of its node is not known"
_MAX_NAMES = 5
_NEGLIGIBLE = 1e-9


def grouped(rejections: Mapping[int, str], names: tuple[str, ...]) -> tuple[RejectedNodes, ...]:
    """Rejected nodes by reason, the most frequent first."""
    by_reason: defaultdict[str, list[int]] = defaultdict(list)
    for row, reason in sorted(rejections.items()):
        by_reason[reason].append(row)
    groups = []
    for reason in sorted(by_reason, key=lambda reason: (-len(by_reason[reason]), reason)):
        rows = by_reason[reason]
        first_nodes = tuple(names[row] for row in rows[:_MAX_NAMES])
        groups.append(RejectedNodes(reason=reason, count=len(rows), nodes=first_nodes))
    return tuple(groups)


_STAYS_ANYWAY = "it would stay all the same"


class PodExplainer:
    """The explanation of one pod."""

    def __init__(
        self,
        prepared: PreparedInputs,
        strategies: Sequence[Strategy],
        row: PodRow,
        scenarios: Scenarios | None = None,
    ) -> None:
        """``strategies`` have searched for nothing yet.

        ``scenarios`` are those in which a plan moves the pod; None: it moves before any other.
        """
        self._prepared = prepared
        self._scenarios = prepared.start.copy() if scenarios is None else scenarios
        self._purpose: Purpose = prepared.cooler_node  # that of its move, where it has one
        self._strategies = strategies
        self._check = prepared.landing_check.beside(self._strategies)
        self._evaluator = prepared.evaluator(self._strategies)
        self._row = row
        self._node = prepared.node_of(row)  # -1 while Pending
        table = prepared.pods
        self._names = prepared.inputs.snapshot.nodes.names
        own = PodClassIndex(int(table.pod_class[row]))
        comes_back = bool(table.class_of(row).owner.kind) and self._node >= 0
        self._candidate = prepared.candidate(row) if comes_back else None
        self._class = self._candidate.replacement if self._candidate else own

    def explanation(
        self, decided: PartialPlan, plan: Plan, plan_by: Callable[[RebalancePolicy], Plan]
    ) -> PodExplanation:
        """The explanation, with what the plan does with the pod; ``plan_by`` plans by another policy."""
        prepared = self._prepared
        row = self._row
        pods = prepared.pods
        evaluation = None
        for move, scenarios in moments(prepared, decided):
            if move.candidate.row == row:
                self._scenarios = scenarios
                evaluation = move.evaluation
                self._purpose = evaluation.candidate.wish.purpose
                break
        after_moves = evaluation is not None
        verdict, verdict_because = verdict_of(plan, pods.uids[row], self._name())
        refusals = tuple(every_refusal(prepared.eviction, row))
        unprotected = "nothing protects it"
        if refusals and verdict == MOVED:  # its strategy lifts what protects it from others
            strategy = next(move.strategy for move in plan.moves if move.pod.uid == pods.uids[row])
            unprotected = f"nothing protects it from the strategy {strategy}"
            refusals = ()
        refusal = next(iter(refusals), None)
        movable = self.is_placed and self._node >= 0 and not pods.terminating[row]
        if movable and evaluation is None:
            evaluation = self._evaluator.evaluate(prepared.candidate(row), self._scenarios, complete=True)
        expected = evaluation.landings() if evaluation is not None else None
        placement, table = self.cycle(expected) if self.is_placed else (None, None)
        landings = self._landings(evaluation if self._node >= 0 else placement)
        staying = self._staying(evaluation) if self._node >= 0 else None
        wishes = self._wishes()
        if wishes and verdict == NODE_NOT_HOT:
            name, why = next(iter(wishes.items()))
            verdict = str(Reason.LIMIT)
            limit = prepared.policy.limits.per_run
            verdict_because = f"perRun {limit} is reached before its turn ({name}: {why})"
        without_limits = self._with_higher_limits(plan, plan_by)
        return PodExplanation(
            **plan.of_same(),
            pod=prepared.eviction.pod_reference(row),
            node=self._name(),
            evictable=refusal is None,
            reason=str(refusal.reason) if refusal else "",
            because=refusal.message if refusal else unprotected,
            refusals=_in_words(refusals, partial(remedy, prepared.eviction, row)),
            verdict=verdict,
            verdict_because=verdict_because + without_limits,
            # Higher limits free no pod that would stay without them: the verdict says what else keeps it.
            remedy="" if refusals or _STAYS_ANYWAY in without_limits else _remedy_of(plan, pods.uids[row]),
            landings=landings,
            after_moves=after_moves,
            unacceptable=round(evaluation.unacceptable, CHANCE_DIGITS) if evaluation else 0.0,
            staying=staying,
            table=table,
            wishes=wishes,
        )

    def _with_higher_limits(self, plan: Plan, plan_by: Callable[[RebalancePolicy], Plan]) -> str:
        """Whether the pod would move if the limits that keep it were none; empty where others do."""
        uid = self._prepared.pods.uids[self._row]
        setting = next((unmoved.setting for unmoved in plan.kept if unmoved.pod.uid == uid), "")
        aliases = {f"limits.{field.alias}": name for name, field in Limits.model_fields.items()}
        names = [aliases.get(name, "") for name in setting.split(" and ")]
        if not LIFTED.keys() >= set(names):
            return ""
        policy = self._prepared.policy
        limits = policy.limits.model_copy(update={name: LIFTED[name] for name in names})
        larger = plan_by(policy.model_copy(update={"limits": limits}))
        if any(move.pod.uid == uid for move in larger.moves):
            return f"; without {setting} the plan would move it"
        because = next(
            (unmoved.because for unmoved in larger.kept if unmoved.pod.uid == uid),
            "its node cools without it",
        )
        return f"; without {setting} {_STAYS_ANYWAY}: {because}"

    def _wishes(self) -> dict[str, str]:
        if self._node < 0:
            return {}
        plan = PlanBuilder(self._prepared, self._strategies)
        strategies = (strategy for strategy in self._strategies if self._row in strategy.pods(plan))
        wishes = {strategy.name: strategy.why(self._row, plan) for strategy in strategies}
        return {name: message for name, message in wishes.items() if message}

    @property
    def is_placed(self) -> bool:
        """Whether a profile places the replacement."""
        name = self._prepared.schedulers.state.classes[self._class].scheduler_name
        return name in self._prepared.inputs.scheduler_of

    def _name(self) -> str:
        return self._names[self._node] if self._node >= 0 else ""

    def _landings(self, evaluated: Evaluation | Placement | None) -> tuple[Landing, ...]:
        """Where the replacement may land; for a Pending pod, where the pod itself may."""
        if isinstance(evaluated, Placement):
            return possible_landings(
                self._prepared, LandingDistribution(evaluated.feasible, evaluated.chance)
            )
        if evaluated is None or not evaluated.by_scenario:
            return ()
        return possible_landings(self._prepared, evaluated.landings())

    def _percent(self) -> FloatArray:
        """(resources,) percent of its node's allocatable expected before any move."""
        return self._scenarios.expected_percent(self._node)

    def cycle(self, landings: LandingDistribution | None = None) -> tuple[Placement, SchedulingTable]:
        """The cycle of the replacement, the pod itself on its way out; of a Pending pod, its own cycle.

        The chances are those of the ``landings`` where they are given: those of a plan are of all courses
        that the moves before may take, and the scores of the likeliest.
        """
        state, usage, own = self._without_it()
        scheduler = self._prepared.schedulers.scheduler(self._class)
        placement = scheduler.place(state, self._class)
        rejections = scheduler.rejections(state, self._class)
        because = placement.rejected
        if not because and not len(placement.feasible):
            because = self._evaluator.no_landing.why(self._class)
        after = self._prepared.landing_check.percent_after(placement.feasible, usage, state.pod_count, own)
        table = SchedulingTable(
            profile=scheduler.profile.scheduler_name,
            feasible=len(placement.feasible),
            nodes=self._scored(placement, after, _chances(placement, landings)),
            rejected=grouped(rejections, self._names),
            because=because,
            notes=(*placement.notes, *self._courses()),
        )
        return placement, table

    def _courses(self) -> Iterable[str]:
        """That the scores are those of one of several courses of the moves before."""
        courses = len(self._scenarios.all)
        if courses > 1:
            yield f"scores are of the likeliest of {courses} courses of the moves before it, chances of all"

    def _without_it(self) -> tuple[ClusterState, FloatArray, FloatArray]:
        """The state that the cycle meets, what nodes use in it, and what the placed pod will use."""
        scenario = self._scenarios.likeliest
        state = scenario.while_terminating.copy()
        if self._node < 0:
            # Pending pods have been placed already; where is what this cycle is to show.
            requests = state.classes.requests[self._class].incoming
            own = requested_amounts(requests, self._prepared.inputs.load.resources)
            placed = int(state.node[self._row])
            usage = scenario.usage.copy()
            if placed >= 0:
                usage[placed] -= own
                state.remove(self._row)
            return state, usage, own
        if self._prepared.eviction.workload(self._row).replaced_late:
            state.remove(self._row)
        elif self._candidate is None or not self._candidate.restarted:
            state.evict(self._row)
        own = np.nan_to_num(self._prepared.inputs.load.pod_usage[self._row], nan=0.0)
        return state, scenario.usage, own

    def _scored(self, placement: Placement, after: FloatArray, chance: FloatArray) -> tuple[ScoredNode, ...]:
        prepared = self._prepared
        rows = placement.feasible
        before = self._percent() if self._node >= 0 else None
        scores = {name: values.tolist() for name, values in placement.scores.items()}
        order = sorted(
            range(len(rows)),
            key=lambda at: (-chance[at], -placement.totals[at], self._names[rows[at]]),
        )
        unacceptable = [""] * len(rows)
        if before is not None:
            after[rows == self._node] = before  # back where it was, it uses what it did
            state = self._scenarios.likeliest.after_termination
            candidate = prepared.candidate(self._row)
            landings = Landings(
                pod=self._row,
                source=self._node,
                rows=rows,
                before=before,
                after=after,
                points=candidate.points,
                state=state,
                placement=placement,
                replacement=self._class,
                once_gone=partial(self._evaluator.once_gone, candidate, state),
            )
            # A landing that happens in other courses only is judged in those.
            elsewhere = (chance > _NEGLIGIBLE) & (placement.chance <= _NEGLIGIBLE)
            unacceptable = [
                "" if elsewhere[at] else self._check.why_not(landings, at, self._purpose)
                for at in range(len(rows))
            ]

        def scored(at: int) -> ScoredNode:
            return ScoredNode(
                node=self._names[rows[at]],
                total=int(placement.totals[at]),
                scores={name: int(values[at]) for name, values in scores.items()},
                probability=round(float(chance[at]), CHANCE_DIGITS),
                in_course=round(float(placement.chance[at]), CHANCE_DIGITS),
                after=by_resource(prepared.hotness.names, after[at]),
                unacceptable=unacceptable[at],
            )

        return tuple(scored(at) for at in order)

    def _staying(self, evaluation: Evaluation | None) -> Staying:
        prepared = self._prepared
        node = self._node
        percent = self._percent()
        hot = bool(prepared.hotness.hot[node])
        above = percent - prepared.hotness.cool_to[node]
        forgone: Mapping[str, float] = {}
        if evaluation is not None and evaluation.by_scenario:
            forgone = self._expected_gain(evaluation)
        share = prepared.inputs.load.points[self._row]
        name = self._name()
        if not hot:
            because = f"nothing: {_not_hot(name, is_known=bool(prepared.inputs.load.known[node]))}"
        else:
            columns = [column for column in range(len(above)) if above[column] > 0]
            points = ", ".join(
                f"{above[column]:.1f} points of {prepared.hotness.names[column]} above its coolTo "
                f"(this pod takes {share[column]:.1f})"
                for column in columns
            )
            because = f"{name} is now {points}" if points else f"nothing: {name} is at its coolTo"
        return Staying(
            load=by_resource(prepared.hotness.names, percent),
            hot=hot,
            above={
                key: value for key, value in by_resource(prepared.hotness.names, above).items() if value > 0
            },
            share=by_resource(prepared.hotness.names, share),
            forgone=dict(forgone),
            because=because,
        )

    def _expected_gain(self, evaluation: Evaluation) -> Mapping[str, float]:
        """Points by resource that a move wins on average over its landings, in all courses before it."""
        prepared = self._prepared
        courses = self._scenarios.all
        before = self._scenarios.percents(self._node)
        gain = np.zeros(before.shape[1])
        placed = 0.0
        for scenario, percent, landings in zip(courses, before, evaluation.by_scenario, strict=True):
            after = prepared.landing_check.percent_after(
                landings.rows,
                scenario.usage,
                scenario.after_termination.pod_count,
                evaluation.candidate.usage,
            )
            after[landings.rows == self._node] = percent  # back where it was: nothing is won
            chance = scenario.chance * landings.chance
            gain += weighted_sum(chance, percent - after)
            placed += float(chance.sum())
        gain /= max(placed, _NEGLIGIBLE)
        return {
            key: value for key, value in by_resource(prepared.hotness.names, gain).items() if key != "pods"
        }


def _in_words(refusals: Iterable[NotMoved], remedy_of: Callable[[NotMoved], str]) -> tuple[Refusal, ...]:
    return tuple(
        Refusal(
            reason=str(refusal.reason),
            because=refusal.message,
            setting=refusal.setting,
            remedy=remedy_of(refusal),
        )
        for refusal in refusals
    )


def _remedy_of(plan: Plan, uid: str) -> str:
    """What would free a pod that a strategy wished to move and that stays; empty for others."""
    return next((not_moved.remedy for not_moved in plan.kept if not_moved.pod.uid == uid), "")


def explain_finished(
    prepared: PreparedInputs, strategies: Sequence[Strategy], plan: Plan, row: PodRow
) -> PodExplanation:
    """Whether a pod that has finished may be removed, and what the plan does with it."""
    finished = FinishedPods(prepared.eviction, strategies)
    pod = finished.reference(row)
    wishes = finished.wishes(row)
    refusals = finished.refusals(row, next(iter(wishes), None))
    verdict = NODE_NOT_HOT
    verdict_because = "it has finished, and no strategy of the policy wishes to remove it"
    way = "" if wishes else remove_finished(prepared.eviction, row).text
    for cleanup in plan.cleanups:
        if cleanup.pod.uid == pod.uid:
            verdict = REMOVED
            verdict_because = f"{cleanup.strategy}: {cleanup.because}"
    for stays in plan.kept:
        if stays.pod.uid == pod.uid:
            verdict = stays.reason
            verdict_because = stays.because
            way = stays.remedy
    return PodExplanation(
        **plan.of_same(),
        pod=pod,
        node=finished.node(row),
        evictable=not refusals,
        reason=str(refusals[0].reason) if refusals else "",
        because=refusals[0].message if refusals else "nothing protects it",
        refusals=_in_words(refusals, partial(finished.remedy, row)),
        verdict=verdict,
        verdict_because=verdict_because,
        remedy="" if refusals else way,
        landings=(),
        unacceptable=0.0,
        wishes={strategy.name: why for strategy, why in wishes.items()},
    )


def verdict_of(plan: Plan, uid: str, node: str) -> tuple[str, str]:
    """What the plan does with a pod, and why."""
    if uid in (decided := _decided(plan)):
        return decided[uid]
    if not node:
        return NODE_NOT_HOT, "it is Pending: it runs on no node"
    is_known = not any(report.name == node and report.is_unknown for report in plan.nodes)
    return NODE_NOT_HOT, f"{_not_hot(node, is_known=is_known)}: nothing needs to leave it"


def _not_hot(node: str, *, is_known: bool) -> str:
    """That a node is not hot; that nobody can say whether it is, where its load is not known."""
    if not is_known:
        return f"the load of {node} is not known, so it is not taken for hot"
    return f"{node} is not hot"


def _decided(plan: Plan) -> dict[str, tuple[str, str]]:
    """By uid of each pod that some strategy wished to move: what the plan does with it, and why."""
    staying = {unmoved.pod.uid: (unmoved.reason, unmoved.because) for unmoved in plan.kept}
    return staying | {move.pod.uid: (MOVED, f"wave {move.wave}: {move.because}") for move in plan.moves}


def _chances(placement: Placement, landings: LandingDistribution | None) -> FloatArray:
    """(feasible,) the chance of each node."""
    if landings is None:
        return placement.chance
    chance = np.zeros(len(placement.feasible))
    there = np.isin(placement.feasible, landings.rows)
    chance[there] = landings.chance[landings.rows.searchsorted(placement.feasible[there])]
    return chance


def moments(prepared: PreparedInputs, decided: PartialPlan) -> Iterator[tuple[PlannedMove, Scenarios]]:
    """Each move of a plan, and the scenarios in which it is made: those before it are.

    Nothing of a plan that taints nodes on its way: its moves do not lead there by themselves.
    """
    if decided.builder.has_tainted:
        return
    builder = PlanBuilder(prepared, ())
    builder.scenarios.max_scenarios = decided.scenarios.max_scenarios
    for move in decided.moves:
        if move.wave > builder.wave:
            builder.next_wave()
        yield move, builder.scenarios.copy()
        builder.add(AcceptedMove(move.evaluation, later=False))


def scheduling_tables(
    prepared: PreparedInputs, decided: PartialPlan, max_moves: int
) -> dict[str, SchedulingTable]:
    """By pod uid, the scheduler's cycle for the replacements of the first moves, each at its moment."""
    strategies = strategies_of(prepared)
    tables = {}
    for move, scenarios in islice(moments(prepared, decided), max_moves):
        pod = move.candidate.row
        explainer = PodExplainer(prepared, strategies, pod, scenarios)
        if explainer.is_placed:
            tables[prepared.pods.uids[pod]] = explainer.cycle(move.evaluation.landings())[1]
    return tables


def explain_node(prepared: PreparedInputs, decided: PartialPlan, plan: Plan, row: NodeRow) -> NodeExplanation:
    """Why the node is hot or not, and what the plan does with each of its pods."""
    report = next(node for node in plan.nodes if node.name == prepared.nodes.names[row])
    verdict_on = verdicts(prepared, plan)
    pods = []
    for pod in prepared.pods_on(row):
        verdict, because = verdict_on(pod)
        share = by_resource(prepared.hotness.names, prepared.inputs.load.points[pod])
        pods.append(
            PodOnNode(pod=prepared.eviction.pod_reference(pod), share=share, verdict=verdict, because=because)
        )

    def largest_share(pod: PodOnNode) -> float:
        return max((points for name, points in pod.share.items() if name != "pods"), default=0.0)

    pods.sort(key=lambda pod: (-largest_share(pod), pod.pod.full_name))
    hotness = prepared.hotness
    return NodeExplanation(
        **plan.of_same(),
        node=report.name,
        load=report.load,
        after=report.after.load if report.after else report.load,
        hot=report.hot,
        because=report.because,
        levels={
            resource: f"hot above {short_level(hotness.hot_above[row, column])} %, "
            f"cool at {short_level(hotness.cool_to[row, column])} %"
            for column, resource in enumerate(hotness.names)
            if np.isfinite(hotness.hot_above[row, column])
        },
        of_no_pod=report.of_no_pod,
        score=report.score,
        uncounted=prepared.landing_check.excluded.get(row, ""),
        unsolved=plan.unsolved.get(report.name, ""),
        pods=tuple(pods),
        obstacles=find_obstacles(prepared, decided, {row}),
    )


def verdicts(prepared: PreparedInputs, plan: Plan) -> Callable[[PodRow], tuple[str, str]]:
    """What the plan does with each pod, as a code and a sentence."""
    decided = _decided(plan)
    unknown = {report.name for report in plan.nodes if report.is_unknown}

    def verdict(pod: PodRow) -> tuple[str, str]:
        node = prepared.node_of(pod)
        uid = prepared.pods.uids[pod]
        if node < 0:
            return _PENDING, "it is not bound to a node that was read"
        if uid in decided:
            return decided[uid]
        refusal = None if prepared.hotness.hot[node] else why_protected(prepared.eviction, pod)
        if refusal is not None:
            return str(refusal.reason), refusal.message
        if prepared.nodes.names[node] in unknown:
            return EVICTABLE, LOAD_NOT_KNOWN
        return EVICTABLE, "nothing protects it, and its node is not hot"

    return verdict


def explain_workload(
    prepared: PreparedInputs, plan: Plan, kind: str, namespace: str, name: str
) -> WorkloadExplanation:
    """Every pod that the workload controls, itself or through another, with the plan's verdict."""
    verdict_on = verdicts(prepared, plan)
    pods = []
    for row in map(PodRow, range(len(prepared.pods))):
        if not _belongs(prepared, row, kind, namespace, name):
            continue
        node = prepared.node_of(row)
        verdict, because = verdict_on(row)
        bound = node >= 0
        share: dict[str, float] = {}
        if bound:
            share = by_resource(prepared.hotness.names, prepared.inputs.load.points[row])
        pods.append(
            PodOfWorkload(
                pod=prepared.eviction.pod_reference(row),
                node=prepared.nodes.names[node] if bound else "",
                hot=bound and bool(prepared.hotness.hot[node]),
                share=share,
                verdict=verdict,
                because=because,
            )
        )
    pods.sort(key=lambda pod: (pod.verdict != MOVED, not pod.hot, pod.pod.full_name))
    return WorkloadExplanation(
        **plan.of_same(),
        namespace=namespace,
        workload=f"{kind}/{name}",
        pods=tuple(pods),
    )


def _belongs(prepared: PreparedInputs, row: PodRow, kind: str, namespace: str, name: str) -> bool:
    if prepared.pods.namespaces[row] != namespace:
        return False
    owner = prepared.pods.class_of(row).owner
    controller = (kind, name)
    if (owner.kind, owner.name) == controller or prepared.eviction.workload(row).name == f"{kind}/{name}":
        return True
    above = prepared.eviction.workloads.chain(row)
    return any((kind_above, record.metadata.name) == controller for kind_above, record in above)
