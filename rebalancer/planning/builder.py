"""A plan being made: its moves so far, the scenarios they lead to, and what is left of waves and limits.

Moves are carried out in waves. The pods of a wave are evicted together, and the next wave begins once all of
their replacements run. So a move belongs in the next wave when it cannot be made beside those of this one:

* the wave has ``execution.waveSize`` moves, or its disruption budget is spent until replacements are ready;
* a ResourceQuota has no room for one more replacement beside the pods of this wave that still count;
* it has moved a pod of the same controller, and which of the two replacements is placed first is not known;
* its landing is only acceptable once the pods that this wave evicts are gone;
* another scheduler places its replacement: which of the two decides first is not known;
* it needs the soft taint on a node on which a replacement of this wave may land, see ``steering``;
* its last move is of a StatefulSet, whose replacement comes when the old pod is gone, of a Job or of a
  controller of a kind that is not read, whose replacement may come long after, or a restart by a rolling
  update, which ends the old pod once the new one serves: that closes the wave.

For example, with waveSize 3 and a budget of web that allows 1:

    wave 1   web-1, api-1   web-2 waits: same controller, and the budget of web is spent
    wave 2   web-2, db-0    db-0 is of a StatefulSet and closes the wave, which has only two moves
    wave 3   api-2
"""

from __future__ import annotations

import copy
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import FloatArray, NodeRow, PodRow
from rebalancer.cluster.pod_classes import PodClass
from rebalancer.cluster.records import Taint
from rebalancer.documents.models import to_camel
from rebalancer.planning.eviction.budgets import exhausted
from rebalancer.planning.eviction.workload_rules import job_would_fail, replaced_in_time
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.evaluation import Candidate, Evaluation
from rebalancer.planning.landing.purpose import Peer
from rebalancer.planning.landing.scenarios import MoveEffect, Scenarios
from rebalancer.planning.plan import Move
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.reasons import NotMoved, Reason
from rebalancer.planning.taints import HOT
from rebalancer.policy.schema import Limits
from rebalancer.policy.scopes import Scope, namespace_matches

MAX_PLACEMENTS = 40_000
"""Most placements that are made for a plan: one of 37 moves on 20 crowded nodes makes some 13,000."""


class Bound(msgspec.Struct, frozen=True):
    """A limit on evictions within some time, or from some nodes or namespaces."""

    setting: str  # limits.scoped[0].perHour
    words: str  # perHour 10 of pool=batch
    allows: int
    before: int  # evictions that count, of earlier runs and of earlier plans of this one
    is_known: bool  # how many they are: otherwise the state has forgotten some, and the limit is reached
    is_rate: bool  # it counts the evictions of earlier runs too
    namespaces: tuple[str, ...]  # empty: all
    nodes: frozenset[int] | None  # rows; None: all

    @property
    def used_before(self) -> str:
        """`` (3 before this plan)``; empty where nothing is."""
        if not self.is_rate or (self.is_known and not self.before):
            return ""
        unknown = "" if self.is_known else " at least, the state of runs no longer holds all of them"
        return f" ({self.before} before this plan{unknown})"

    @property
    def is_for_all(self) -> bool:
        """Whether it counts every pod."""
        return not self.namespaces and self.nodes is None

    def counts(self, pod: Candidate) -> bool:
        """Whether the eviction of a pod counts."""
        if self.nodes is not None and pod.source not in self.nodes:
            return False
        return not self.namespaces or namespace_matches(pod.namespace, self.namespaces)


_RATES = {"per_hour": 3600.0, "per_day": 86_400.0}


def _bounds(inputs: PlanningInputs, made: Sequence[Move]) -> Iterator[Bound]:
    """The limits of a policy that count more than a run, or less than the cluster."""
    limits = inputs.policy.limits
    table = inputs.snapshot.nodes
    state = inputs.state
    if not (limits.rates or limits.scoped):
        return
    labels = {
        name: record.metadata.labels or {} for name, record in zip(table.names, table.records, strict=True)
    }
    made_in = {move.pod.uid: (move.pod.namespace, move.from_node) for move in made}
    for at, scope in enumerate((Scope(), *limits.scoped)):
        given = limits if at == 0 else limits.scoped[at - 1]
        nodes = None
        if scope.node_selector is not None:
            matches = scope.node_selector.matches
            nodes = frozenset(row for row, name in enumerate(table.names) if matches(labels[name]))
        for name in ("per_run", *_RATES) if at else _RATES:
            limit: int | None = getattr(given, name)
            if limit is None:
                continue
            places = dict(made_in)
            since = inputs.now - _RATES.get(name, 0.0)
            is_known = True
            if name in _RATES and state is not None:
                is_known = state.forgotten_until <= since
                # One dated in the future was evicted just now, by a clock that goes ahead of ours.
                places |= {
                    move.uid: (move.namespace, move.from_node)
                    for move in state.moves
                    if move.evicted_at > since
                }
            before = sum(scope.selects(namespace, labels.get(node)) for namespace, node in places.values())
            key = to_camel(name)
            yield Bound(
                setting=f"limits.scoped[{at - 1}].{key}" if at else f"limits.{key}",
                words=f"{key} {limit}{scope.in_words}",
                allows=limit if is_known else 0,
                before=before,
                is_known=is_known,
                is_rate=name in _RATES,
                namespaces=scope.namespaces,
                nodes=nodes,
            )


class UsedLimits(msgspec.Struct):
    """Evictions of the plan so far, by what limits count."""

    limits: Limits
    bounds: tuple[Bound, ...]
    # By the name of a limit, and what it counts by: a node, namespace or workload; the name itself for all.
    counts: Mapping[str, Counter[object]]

    @classmethod
    def of(cls, inputs: PlanningInputs, made: Sequence[Move]) -> UsedLimits:
        """What a run has used that has ``made`` these moves."""
        row_of = inputs.snapshot.nodes.row
        bounds = tuple(_bounds(inputs, made))
        workloads = (move.pod for move in made if move.pod.workload)
        counts: dict[str, Counter[object]] = {
            "per_run": Counter({"per_run": len(made)}),
            "per_node": Counter(row_of[move.from_node] for move in made if move.from_node in row_of),
            "per_namespace": Counter(move.pod.namespace for move in made),
            "per_workload": Counter(f"{pod.namespace}/{pod.workload}" for pod in workloads),
        }
        before = {bound.setting: Counter[object]({bound.setting: bound.before}) for bound in bounds}
        return cls(inputs.policy.limits, bounds, counts | before)

    def copy(self, limits: Limits | None = None) -> UsedLimits:
        """An independent count, under other limits if given."""
        counts = {name: counter.copy() for name, counter in self.counts.items()}
        return UsedLimits(limits or self.limits, self.bounds, counts)

    @property
    def spent(self) -> str:
        """The limit on all pods that is reached, such as perRun 20; empty where there is none."""
        if self.most_used("per_run") >= self.limits.per_run:
            return f"perRun {self.limits.per_run}"
        for_all = (bound for bound in self.bounds if bound.is_for_all)
        return next((bound.words for bound in for_all if self.most_used(bound.setting) >= bound.allows), "")

    def counting(self, pod: Candidate) -> Iterator[tuple[str, object, int]]:
        """The name of each limit that counts a pod, what it counts it by, and how many of these it allows."""
        limits = self.limits
        workload = pod.workload
        yield "per_run", "per_run", limits.per_run
        yield "per_node", pod.source, limits.per_node
        yield "per_namespace", pod.namespace, limits.per_namespace
        yield "per_workload", workload.key, limits.per_workload.of(workload.desired or 0)
        for bound in self.bounds:
            if bound.counts(pod):
                yield bound.setting, bound.setting, bound.allows

    def reached(self, pod: Candidate) -> tuple[str, ...]:
        """The names of the limits that each allow no further eviction of a pod."""
        counts = self.counts
        return tuple([name for name, by, allowed in self.counting(pod) if counts[name][by] >= allowed])

    def refusal(self, pod: Candidate) -> NotMoved | None:
        """Every limit that allows no further eviction of a pod: raising only one of several does not help."""
        names = self.reached(pod)
        if not names:
            return None
        limits = self.limits
        words = {
            "per_run": f"perRun {limits.per_run}",
            "per_node": f"perNode {limits.per_node}",
            "per_namespace": f"perNamespace {limits.per_namespace} for {pod.namespace}",
        }
        per_workload = limits.per_workload.of(pod.workload.desired or 0)
        words["per_workload"] = f"perWorkload {limits.per_workload} ({per_workload}) for {pod.workload.name}"
        settings = {name: f"limits.{to_camel(name)}" for name in words}
        words |= {bound.setting: bound.words + bound.used_before for bound in self.bounds}
        verb = "is" if len(names) == 1 else "are"
        message = f"{' and '.join(words[name] for name in names)} {verb} reached"
        return NotMoved(Reason.LIMIT, message, tuple(settings.get(name, name) for name in names))

    def most_used(self, name: str) -> int:
        """The most evictions that a limit counts together: of one node, namespace or workload, or all."""
        return max(self.counts[name].values(), default=0)

    def count(self, pod: Candidate) -> None:
        """Count the eviction of a pod."""
        for name, by, _ in self.counting(pod):
            self.counts[name][by] += 1


class Wave(msgspec.Struct, frozen=True):
    """What the moves of the wave that is being planned have used."""

    number: int = 1
    moves: int = 0
    controllers: frozenset[str] = frozenset()  # whose pods it moves
    scheduler: int | None = None  # which places its replacements; None: none so far
    closed: bool = False  # its last pod is gone only when its replacement is made, or later
    disruptions: Mapping[str, int] = {}  # by budget; the next wave reads again before it spends
    tainted: frozenset[int] = frozenset()  # rows of the nodes that have the soft taint
    is_tainted_for_good: bool = False  # it is under way, so no other nodes get the taint
    # By namespace: the replacements beside which the pods that they replace still count in quotas.
    made: Mapping[str, tuple[PodClass, ...]] = {}


class AcceptedMove(msgspec.Struct, frozen=True, eq=False):
    """A move whose landings are acceptable, not yet made."""

    evaluation: Evaluation
    later: bool  # to be made in the next wave
    avoids: Mapping[int, str] = {}  # rows of the nodes that it needs tainted: why it must not land there


class PlannedMove(msgspec.Struct, frozen=True, eq=False):
    """A move with the evaluation that justified it."""

    evaluation: Evaluation
    wave: int  # counted from 1
    effect: MoveEffect
    avoids: Mapping[int, str]  # as those of ``AcceptedMove``

    @property
    def before(self) -> FloatArray:
        """(resources,) percent of the node that is left, when the move was planned."""
        return self.effect.source_before

    @property
    def candidate(self) -> Candidate:
        """The pod that moves, and whose wish that is."""
        return self.evaluation.candidate


def _chance_of_none_bad(made: Sequence[Move]) -> float:
    """The chance that all landings of these moves are acceptable; never 0."""
    return max(math.prod(1.0 - move.risk for move in made), sys.float_info.min)


class PlanBuilder:
    """Tries moves, and adds those that hold."""

    def __init__(self, prepared: PreparedInputs, peers: Sequence[Peer]) -> None:
        """``peers`` are the strategies of the policy, for none of which a move may spoil anything."""
        inputs = prepared.inputs
        eviction = prepared.eviction
        scenarios = prepared.start.copy()
        self.scenarios = scenarios
        self.evaluator = prepared.evaluator(peers)
        self.moves: list[PlannedMove] = []
        self._inputs = inputs
        self._policy = inputs.policy
        self._max_placements = MAX_PLACEMENTS
        self._pods = inputs.snapshot.pods
        self._eviction = eviction
        self._hotness = prepared.hotness
        self._classes = scenarios.all[0].after_termination.classes
        self._so_far = prepared.so_far
        self._on_move = prepared.options.on_move
        self._confidence = _chance_of_none_bad(prepared.so_far.made)
        self._wave = Wave()
        self.used = UsedLimits.of(inputs, prepared.so_far.made)
        self._later: Scenarios | None = None
        self.has_tainted = False
        self.steers = inputs.policy.execution.steer == "softTaint"
        self._steering = prepared.steering
        if prepared.so_far.tainted is not None:
            self.fix_taints(prepared.so_far.tainted)

    def expected_percent(self, node: NodeRow) -> FloatArray:
        """(resources,) percent of allocatable expected on a node after the moves so far (mean)."""
        return self.scenarios.expected_percent(node)

    def copy(self, limits: Limits | None = None, placements: int | None = None) -> PlanBuilder:
        """An independent builder with the same moves, which will draw the same landings.

        ``limits`` are those of further moves, None for the same as before, and ``placements`` how many the
        evaluator may still compute, None for the same bound as before.
        """
        other = copy.copy(self)
        other.moves = list(self.moves)
        other.scenarios = self.scenarios.copy()
        other._later = None
        other.used = self.used.copy(limits)
        if placements is not None:
            other._max_placements = min(MAX_PLACEMENTS, self.evaluator.placed + placements)
        return other

    def restore(self, earlier: PlanBuilder) -> None:
        """Take back all moves since a copy was made; the copy must not be used any further."""
        self.__dict__.update(earlier.__dict__)

    def taint(self, taint: Taint, nodes: Sequence[int]) -> None:
        """Go on as if these nodes had a hard taint, and no others had it."""
        self._later = None
        self.has_tainted = True
        self.scenarios.taint(taint, nodes)

    def fix_taints(self, names: Sequence[str]) -> None:
        """Make this wave with the soft taint on these nodes, which they have by now, and on no others."""
        row_of = self._inputs.snapshot.nodes.row
        tainted = frozenset(row_of[name] for name in names if name in row_of)
        self._wave = replace(self._wave, tainted=tainted, is_tainted_for_good=True)
        self.scenarios.taint(HOT, tainted)

    def anew(self, prepared: PreparedInputs, scenarios: int) -> PlanBuilder:
        """A builder without moves that follows so many scenarios; what it computes is bounded by these."""
        other = PlanBuilder(prepared, ())
        other.evaluator = self.evaluator
        other.scenarios.max_scenarios = scenarios
        other._max_placements = sys.maxsize
        return other

    def search_ended(self) -> NotMoved:
        """The reason for pods that the search did not reach."""
        if self._max_placements < MAX_PLACEMENTS:
            return NotMoved(Reason.SEARCH_ENDED, "the search for a better order of moves is bounded")
        return NotMoved(Reason.SEARCH_ENDED, f"a plan computes at most {MAX_PLACEMENTS:,} placements")

    def try_move(self, candidate: Candidate) -> NotMoved | None:
        """Move a pod in this wave or in the next one; else return why it stays."""
        accepted = self.find(candidate)
        if isinstance(accepted, NotMoved):
            return accepted
        self.add(accepted)
        return None

    def find(self, candidate: Candidate, *, may_wait: bool = True) -> AcceptedMove | NotMoved:
        """A move in this wave or, if it may wait, in the next one, not made yet; else why the pod stays."""
        limit = self.used.refusal(candidate)
        if limit:
            return limit
        of_job = self._refusal_of_job(candidate)
        if of_job:
            return of_job
        wave = self._wave
        tries = 2 if wave.moves else 1  # the second in the next wave
        needed = tries * self.evaluator.cost(candidate, self.scenarios)
        if self.evaluator.placed + needed > self._max_placements:
            return self.search_ended()
        spent = exhausted(self._eviction.budgets.spent_by(candidate.row), wave.disruptions)
        if spent and not may_wait:
            return NotMoved(Reason.BUDGET, f"budget {spent.name} {spent.message}, spent by others")
        pod = self._made_beside(candidate)
        lacking = pod and self._eviction.quotas.lacking(pod, wave.made.get(pod.namespace, ()))
        if lacking and not (may_wait and wave.moves):
            return NotMoved(Reason.QUOTA, lacking)
        full = wave.closed or self._wave_is_full()
        # Of two pods of one controller in a wave, which is gone when the other's replacement is placed is not
        # known, and where that goes depends on how the pods of their controller are spread.
        has_sibling = self._controller(candidate) in wave.controllers
        # Schedulers side by side decide in an order that nobody knows.
        has_other_scheduler = wave.scheduler not in (None, candidate.scheduler)
        has_to_wait = bool(spent or lacking or full or has_sibling or has_other_scheduler)
        later = may_wait and wave.moves > 0 and has_to_wait
        confidence = self._policy.planning.confidence
        tolerated = max(1.0 - confidence / self._confidence, 0.0)
        evaluation = self._evaluate(candidate, tolerated, later=later)
        if may_wait and not later and evaluation.only_while_terminating and wave.moves:
            # Pods that this wave evicts are still in the way; they will be gone when the next wave starts.
            later = True
            evaluation = self._evaluate(candidate, tolerated, later=later)
        if self._may_steer(evaluation):
            later_too = may_wait and wave.moves > 0
            steered = self._steer(candidate, tolerated, (later,) if later or not later_too else (False, True))
            if steered is not None:
                return steered
        holds = self._confidence * (1.0 - evaluation.unacceptable)
        if evaluation.refused and not (evaluation.sampled and holds >= confidence):
            if evaluation.sampled and 1.0 - evaluation.unacceptable >= confidence:
                message = (
                    f"{evaluation.refused.message}; planning.confidence of {confidence:.2%} leaves no room"
                )
                return NotMoved(Reason.CONFIDENCE, message)
            return evaluation.refused
        return AcceptedMove(evaluation, later)

    def _evaluate(self, candidate: Candidate, tolerated: float, *, later: bool) -> Evaluation:
        """Evaluate a move in this wave or the next, which begins without soft taints."""
        if not (later and self._wave.tainted):
            scenarios = self._next_scenarios() if later else self.scenarios
            return self.evaluator.evaluate(candidate, scenarios, tolerated)
        scenarios = self._next_scenarios()
        scenarios.taint(HOT, ())
        evaluation = self.evaluator.evaluate(candidate, scenarios, tolerated)
        scenarios.taint(HOT, self._wave.tainted)  # it shares states with this wave
        return evaluation

    def _may_steer(self, evaluation: Evaluation) -> bool:
        """Whether soft taints may be chosen for a move, which is refused for where it may land."""
        is_chosen = self.steers and not self._wave.is_tainted_for_good
        refused = evaluation.refused
        return is_chosen and refused is not None and refused.reason is Reason.NO_BETTER_LANDING

    def _steer(self, candidate: Candidate, tolerated: float, waves: Sequence[bool]) -> AcceptedMove | None:
        """The move with soft taints in the first of these ``waves`` in which it holds: True is the next."""
        for later in waves:
            scenarios = self._next_scenarios() if later else self.scenarios
            before = frozenset[int]() if later else self._wave.tainted
            steered = self._steering.steer(self.evaluator, candidate, scenarios, before, tolerated)
            scenarios.taint(HOT, self._wave.tainted)
            if steered is not None and (later or self._leaves_landings(steered.avoids)):
                return AcceptedMove(steered.evaluation, later, steered.avoids)
        return None

    def _leaves_landings(self, avoids: Mapping[int, str]) -> bool:
        """Whether the replacements of this wave land as they do with the taint on these nodes as well."""
        landings = [move.evaluation.landings() for move in self.moves if move.wave == self._wave.number]
        if not landings:
            return True
        return self._steering.scores_apart and all(
            avoids.keys().isdisjoint(landing.rows.tolist()) for landing in landings
        )

    def _refusal_of_job(self, candidate: Candidate) -> NotMoved | None:
        """Why the Job of a pod cannot take its eviction after those of the plan so far, each a failure."""
        uid = self._controller(candidate)
        if self._pods.class_of(candidate.row).owner.kind != "Job":
            return None
        planned = sum(self._controller(move.candidate) == uid for move in self.moves)
        for rule, reason in (
            (job_would_fail, Reason.JOB_WOULD_FAIL),
            (replaced_in_time, Reason.GRACE_PERIOD),
        ):
            if why := rule(self._eviction, candidate.row, planned):
                return NotMoved(reason, why)
        return None

    def _wave_is_full(self) -> bool:
        execution = self._policy.execution
        return self._wave.moves >= (execution.first_wave if self._wave.number == 1 else execution.wave_size)

    def _controller(self, candidate: Candidate) -> str:
        return self._pods.class_of(candidate.row).owner.uid

    def _next_scenarios(self) -> Scenarios:
        if self._later is None:
            self._later = self.scenarios.next_wave()
        return self._later

    @property
    def moved(self) -> set[PodRow]:
        """The pods that its moves move."""
        return {move.candidate.row for move in self.moves}

    @property
    def wave(self) -> int:
        """The number of the wave that is being planned, counted from 1."""
        return self._wave.number

    def next_wave(self) -> None:
        """Begin a new wave, unless this one is still empty."""
        if self._wave.moves:
            self.scenarios = self._next_scenarios()
            self._later = None
            if self._wave.tainted:
                self.scenarios.taint(HOT, ())
            self._wave = Wave(self._wave.number + 1)

    def add(self, move: AcceptedMove) -> None:
        """Make a move in every scenario, each of which draws its own landing."""
        if move.later:
            self.next_wave()
        self._later = None
        evaluation = move.evaluation
        candidate = evaluation.candidate
        percents = self.scenarios.percents(candidate.source)
        must_cool = np.any(percents > self._hotness.cool_to[candidate.source], axis=1)
        effect = self.scenarios.effect(
            candidate.source,
            candidate.relief,
            evaluation.by_scenario,
            candidate.usage,
            must_cool,
        )
        self.used.count(candidate)
        tainted = self._wave.tainted | move.avoids.keys()
        self._wave = replace(self._wave, moves=self._wave.moves + 1, tainted=tainted)
        self.moves.append(PlannedMove(evaluation, self._wave.number, effect, move.avoids))
        targets = self.scenarios.land(evaluation.by_scenario, evaluation.branches, candidate.usage)
        self._confidence *= 1.0 - evaluation.unacceptable
        self._move(candidate, targets)
        if move.avoids:
            self.scenarios.taint(HOT, tainted)
        self._on_move(len(self.moves))
        if candidate.wish.room is not None:
            candidate.wish.room.take(self.scenarios)

    def resume(self, made: Sequence[Move]) -> None:
        """Go on with a plan of which these moves are made: they count for limits and for its confidence."""
        every = (*self._so_far.made, *made)
        self.used = UsedLimits.of(self._inputs, every)
        self._confidence = _chance_of_none_bad(every)

    def landed(self, candidate: Candidate, node: NodeRow) -> None:
        """Place a move of this wave, counted by ``resume``, whose replacement is on a node by now."""
        self._later = None
        evaluation = self.evaluator.evaluate(candidate, self.scenarios, complete=True)
        self.scenarios.landed_at(node, evaluation.branches)
        self._wave = replace(self._wave, moves=self._wave.moves + 1)
        self._move(candidate, [node] * len(self.scenarios.all))

    def _move(self, candidate: Candidate, targets: Sequence[NodeRow]) -> None:
        """``targets`` is where the replacement is, by scenario."""
        for scenario, target in zip(self.scenarios.all, targets, strict=True):
            scenario.while_terminating.evict(candidate.row)
            scenario.after_termination.remove(candidate.row)
            for state in (scenario.while_terminating, scenario.after_termination):
                state.bind(state.add(candidate.replacement), target)
            scenario.terminating_usage[candidate.source] += candidate.relief
            scenario.is_terminating = True
            if target != candidate.source:  # where it uses what the pod before it does
                scenario.usage[candidate.source] -= candidate.relief
                scenario.usage[target] += candidate.usage
        wave = self._wave
        pod = self._made_beside(candidate)
        spent = Counter(budget.name for budget in self._eviction.budgets.spent_by(candidate.row))
        self._wave = replace(
            wave,
            controllers=wave.controllers | {self._controller(candidate)},
            scheduler=candidate.scheduler,
            # Such a move ends long after the others of its wave, so it is planned last in it and closes it.
            closed=candidate.ends_its_wave,
            disruptions=spent + Counter(wave.disruptions),
            made={**wave.made, pod.namespace: (*wave.made.get(pod.namespace, ()), pod)} if pod else wave.made,
        )

    def _made_beside(self, candidate: Candidate) -> PodClass | None:
        """The class of its replacement, if that is made while it still counts in quotas."""
        return None if candidate.workload.replaced_late else self._classes[candidate.replacement]


class PartialPlan(msgspec.Struct, frozen=True, eq=False):
    """What the strategies asked so far decided; the last of them leaves what the plan is written from."""

    builder: PlanBuilder
    staying: Mapping[PodRow, NotMoved]  # pods that some strategy wished to move and that stay
    notes: Mapping[str, str] = {}  # by strategy: what it says of the plan
    without_limits: Mapping[frozenset[str], frozenset[PodRow]] = {}  # by limits: pods that would move besides

    @property
    def moves(self) -> tuple[PlannedMove, ...]:
        """The moves, in the order in which they are made."""
        return tuple(self.builder.moves)

    @property
    def scenarios(self) -> Scenarios:
        """The cluster once all moves are made."""
        return self.builder.scenarios
