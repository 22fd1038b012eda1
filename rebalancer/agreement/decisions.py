"""Decisions of the cluster's schedulers beside what the model computes, and what they add up to.

A decision that nobody can compute is counted by its reason, and never as agreement. Where a scheduler had
several nodes to choose from, being inside them proves little: so the chance that was given to the node it
chose is counted too, as surprise, −ln(chance), beside how much of it the model itself expects.

    always one node, always chosen                    surprise 0.00, expected 0.00
    one of two alike, whichever                       surprise 0.69, expected 0.69
    one of two alike, but always the same             surprise 0.69, expected 0.69; misses tell
    a node that was given 1 %, every time             surprise 4.61, expected 0.06: the chances are wrong
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.counting import counted
from rebalancer.planning.plan import API_VERSION, Value

KEPT_DECISIONS = 1000
KEPT_MISSES = 100
MAX_NAMES = 64  # of profiles and of reasons that are counted apart; the cluster's users may invent more
OTHERS = "others"
DECISION_KIND = "SchedulerDecision"
MAX_TIME = 2.5e11  # Unix seconds that a date can say
MAX_WEIGHT = 100  # of a score plugin, as the API server of its configuration has it


class Result(StrEnum):
    """How one real decision compares with the model."""

    AS_COMPUTED = "AsComputed"
    REORDERED = "InAnotherOrder"  # of what happened within the same two seconds
    MISSED = "Missed"
    UNPREDICTABLE = "Unpredictable"


class NodeScores(Value, frozen=True):
    """A node as the model scored it."""

    node: str
    chance: float
    total: int
    raw: dict[str, int]  # by plugin
    weighted: dict[str, int]
    rejected: str = ""  # "Plugin: reason" where the model does not admit it


class Decision(Value, frozen=True):
    """A pod that a scheduler bound."""

    pod: str  # namespace/name
    uid: str
    version: int  # of the pod once it was bound
    at: Annotated[float, msgspec.Meta(ge=0, le=MAX_TIME)]  # Unix seconds, when that was heard of
    scheduler: str  # the profile
    node: str
    result: Result
    because: str = ""  # why it is unpredictable, or what a miss is about
    chance: float = 0.0  # computed for the node
    expected: float = 0.0  # how surprising the model thinks its own choices are, on average
    possible: int = 0  # nodes that were computed
    feasible: int = 0
    sampled: bool = False  # the scheduler compared some of the feasible nodes only
    nodes: tuple[NodeScores, ...] = ()  # the one chosen first, then the likeliest
    # By score plugin that took part: its weight, then the lowest and highest of each range of weights with
    # which the node could be chosen. Where a sample is compared, some weights are tried for few decisions.
    weights: dict[str, tuple[int, ...]] = {}
    edited: dict[str, str] = {}  # by plugin, the fields by which it differs from a pod of its controller
    as_sibling: float = 0.0  # the chance of the node if it had come as that one
    api_version: str = API_VERSION
    kind: str = DECISION_KIND


class OfProfile(Value, frozen=True):
    """What the decisions of one profile add up to."""

    scheduler: str
    decisions: int  # without those that are unpredictable
    as_computed: int
    in_another_order: int
    missed: int
    unpredictable: int
    possible: float | None  # nodes computed for a decision, on average; None without decisions
    surprise: float | None  # nats, on average of those inside; None without any
    expected_surprise: float | None


class Suspect(Value, frozen=True):
    """A difference between the scheduler and its configuration as it was read that would explain misses."""

    what: str  # a plugin, or a minor
    sentence: str
    explained: int  # misses
    decisions: int  # as computed with it, of ``compared``
    compared: int


class Agreement(Value, frozen=True):
    """Whether the schedulers of a cluster decide as computed."""

    source: str
    since: float  # Unix seconds
    until: float
    decisions: int  # as computed or not; those that nobody could compute are not counted
    landed: int  # as computed, in one of the orders that what happened at once may have had
    in_another_order: int
    unpredictable: dict[str, int]  # by reason
    left_out: int  # bound while too much happened to compute all
    gaps: int  # times that a watch lost what happened
    processor_seconds: float
    profiles: tuple[OfProfile, ...]
    suspects: tuple[Suspect, ...] = ()
    edits: tuple[Suspect, ...] = ()  # pods that differ from their siblings; no misses
    misses: tuple[Decision, ...] = ()  # the latest last
    latest: tuple[Decision, ...] = ()
    waiting: int = 0  # bound, and not compared: a watch did not show in time that it is current
    api_version: str = API_VERSION
    kind: str = "Agreement"

    @property
    def share(self) -> float | None:
        """Of the decisions that landed as computed; None where none could be compared."""
        return self.landed / self.decisions if self.decisions else None


class WhyThere(Value, frozen=True):
    """Why a scheduler placed a pod where it did."""

    computed: str  # when, and on which cluster
    recorded: bool  # when the pod was bound, and not on another cluster since
    decision: Decision
    api_version: str = API_VERSION
    kind: str = "WhyThere"


class _Counts:
    def __init__(self) -> None:
        self.results: Counter[Result] = Counter()
        self.surprise = self.expected = 0.0
        self.possible = 0
        self.compared: Counter[str] = Counter()  # by plugin: decisions whose weights are known
        self.weights: dict[str, int] = {}
        self.weighed = 0  # misses for which other weights were tried
        self.rejecting: Counter[str] = Counter()  # misses by the filter that rejects the node chosen
        # (weights,) by plugin: decisions that a weight would lead to, of all and of the misses
        self.fitting: defaultdict[str, IntArray] = defaultdict(lambda: np.zeros(MAX_WEIGHT + 1, np.int64))
        self.explained: defaultdict[str, IntArray] = defaultdict(lambda: np.zeros(MAX_WEIGHT + 1, np.int64))
        self.edited: Counter[str] = Counter()  # by plugin: pods that differ from their siblings
        self.elsewhere: Counter[str] = Counter()  # those of them that a sibling would not have followed
        self.fields: dict[str, str] = {}

    def add(self, decision: Decision) -> None:
        self.results[decision.result] += 1
        if decision.result is Result.UNPREDICTABLE:
            return
        self.possible += decision.possible
        self.edited.update(decision.edited.keys())
        self.elsewhere.update(plugin for plugin in decision.edited if not decision.as_sibling)
        self.fields |= decision.edited
        missed = decision.result is Result.MISSED
        if not missed:
            self.surprise -= math.log(decision.chance)
            self.expected += decision.expected
        elif decision.nodes and decision.nodes[0].rejected:
            self.rejecting[decision.nodes[0].rejected.partition(":")[0]] += 1
        if decision.result is Result.REORDERED:
            return  # the weights are those of another order
        self.compared.update(decision.weights.keys())
        self.weighed += missed and bool(decision.weights or not decision.sampled)
        for plugin, (weight, *ranges) in decision.weights.items():
            self.weights[plugin] = weight
            for lowest, highest in zip(ranges[::2], ranges[1::2], strict=True):
                self.fitting[plugin][lowest : highest + 1] += 1
                if missed:
                    self.explained[plugin][lowest : highest + 1] += 1

    def edits(self, scheduler: str) -> Iterator[Suspect]:
        """What edits pods on their way, by the plugin that looks at it."""
        for plugin, count in self.edited.most_common():
            elsewhere = self.elsewhere[plugin]
            yield Suspect(
                what=plugin,
                sentence=f"{counted(count, 'pod')} of {scheduler} came with other {self.fields[plugin]} than "
                f"pods of their controller that were there, {elsewhere} of them to a node that those would "
                f"not go to: does an admission webhook edit what {plugin} looks at?",
                explained=elsewhere,
                decisions=count,
                compared=self.inside + self.results[Result.MISSED],
            )

    @property
    def inside(self) -> int:
        return self.results[Result.AS_COMPUTED] + self.results[Result.REORDERED]

    def of(self, scheduler: str) -> OfProfile:
        decided = self.inside + self.results[Result.MISSED]
        return OfProfile(
            scheduler=scheduler,
            decisions=decided,
            as_computed=self.results[Result.AS_COMPUTED],
            in_another_order=self.results[Result.REORDERED],
            missed=self.results[Result.MISSED],
            unpredictable=self.results[Result.UNPREDICTABLE],
            possible=_mean(self.possible, decided, 2),
            surprise=_mean(self.surprise, self.inside, 4),
            expected_surprise=_mean(self.expected, self.inside, 4),
        )

    def suspects(self, scheduler: str) -> Iterator[Suspect]:
        """What would explain at least half of the misses."""
        missed = self.results[Result.MISSED]
        for plugin, count in self.rejecting.items():
            if 2 * count >= missed:
                yield Suspect(
                    what=plugin,
                    sentence=f"{plugin} rejects the node chosen in {count:,} of "
                    f"{counted(missed, 'miss', 'misses')} of {scheduler}: is this filter off, or "
                    "does it see something else?",
                    explained=count,
                    decisions=self.inside + count,
                    compared=self.inside + missed,
                )
        for plugin, fitting in self.fitting.items():
            present = self.weights[plugin]
            best = int(np.argmax(fitting))
            explained = int(self.explained[plugin][best])
            if fitting[best] <= fitting[present] or 2 * explained < self.weighed:
                continue
            alike = np.flatnonzero(fitting == fitting[best])
            better_weight = f"weight {alike[0]}"
            if len(alike) > 1:
                better_weight += f" to {alike[-1]}"
            how = "did not score" if best == 0 else f"had {better_weight} instead of {present}"
            yield Suspect(
                what=plugin,
                sentence=f"if {plugin} {how}, {fitting[best]:,} of the "
                f"{counted(self.compared[plugin], 'decision')} of {scheduler} that it took part in would be "
                f"as computed, and not {fitting[present]}",
                explained=explained,
                decisions=int(fitting[best]),
                compared=self.compared[plugin],
            )


def _mean(total: float, count: int, digits: int) -> float | None:
    """The mean of so many figures; None of none."""
    if not count:
        return None
    return round(total / count, digits)


class Alternatives:
    """Whether the rules of another minor, or a plugin that is off, would explain the misses."""

    def __init__(self, words: Callable[[str], str]) -> None:
        """``words`` begin a sentence on alternatives, named as ``A or B``."""
        self._words = words
        self._agreed: Counter[str] = Counter()
        self._explained: Counter[str] = Counter()
        self._compared: Counter[str] = Counter()
        self._present = 0  # of the same decisions, those as computed by the rules that count

    def add(self, present: Sequence[Decision], by_name: Mapping[str, Sequence[Decision]]) -> None:
        """Count the same decisions as they are computed and by each alternative."""
        inside = [decision.result in (Result.AS_COMPUTED, Result.REORDERED) for decision in present]
        self._present += sum(inside)
        for name, decisions in by_name.items():
            for before, decision in zip(inside, decisions, strict=True):
                if decision.result is Result.UNPREDICTABLE:
                    continue
                agrees = decision.result is not Result.MISSED
                self._compared[name] += 1
                self._agreed[name] += agrees
                self._explained[name] += agrees and not before

    def suspects(self) -> list[Suspect]:
        """The alternatives that agree more often than what is; those that agree alike are one."""
        alike: defaultdict[tuple[int, int, int], list[str]] = defaultdict(list)
        for name, agreed in self._agreed.items():
            if agreed > self._present:
                alike[agreed, self._explained[name], self._compared[name]].append(name)
        return [
            Suspect(
                what=", ".join(names),
                sentence=f"{self._words(' or '.join(names))} {agreed} of {compared} "
                f"decisions would be as computed, and not {self._present}",
                explained=explained,
                decisions=agreed,
                compared=compared,
            )
            for (agreed, explained, compared), names in alike.items()
        ]


class Tally:
    """Counters of all decisions, and the latest of them; it does not grow."""

    def __init__(self, source: str, since: float) -> None:
        self._source = source
        self._since = since
        self._profiles: dict[str, _Counts] = {}
        self._reasons: Counter[str] = Counter()
        self._misses: deque[Decision] = deque(maxlen=KEPT_MISSES)
        self._latest: deque[Decision] = deque(maxlen=KEPT_DECISIONS)
        self.minors = Alternatives(lambda minors: f"by the rules of Kubernetes {minors}")
        self.plugins = Alternatives(
            lambda names: f"with {names}, which is off in the configuration that was read,"
        )
        self.left_out = 0
        self.gaps = 0
        self.waiting = 0
        self.processor_seconds = 0.0

    def add(self, decisions: Iterable[Decision]) -> Counter[tuple[str, str]]:
        """Count decisions; how many of these there are by profile and result, 0 for a result without any."""
        added: Counter[tuple[str, str]] = Counter()
        for decision in decisions:
            name = decision.scheduler
            if name not in self._profiles and len(self._profiles) >= MAX_NAMES:
                name = OTHERS
            self._profiles.setdefault(name, _Counts()).add(decision)
            for result in Result:
                added.setdefault((name, result.value), 0)
            added[name, decision.result.value] += 1
            self._latest.append(decision)
            if decision.result is Result.UNPREDICTABLE:
                reason = decision.because
                if reason not in self._reasons and len(self._reasons) >= MAX_NAMES:
                    reason = OTHERS
                self._reasons[reason] += 1
            elif decision.result is Result.MISSED:
                self._misses.append(decision)
        return added

    @property
    def decisions(self) -> int:
        """How many could be compared so far."""
        return sum(counts.inside + counts.results[Result.MISSED] for counts in self._profiles.values())

    @property
    def landed(self) -> int:
        """How many of them landed as computed."""
        return sum(counts.inside for counts in self._profiles.values())

    @property
    def share(self) -> float | None:
        """The part of them that did; None while none could be compared."""
        return self.landed / self.decisions if self.decisions else None

    def why(self) -> str:
        """What would explain most misses, as the end of a sentence; empty where nothing is known."""
        suspects = self._suspects()
        return f"; {suspects[0].sentence}" if suspects else ""

    def _suspects(self) -> list[Suspect]:
        suspects: list[Suspect] = []
        for name, counts in self._profiles.items():
            suspects += counts.suspects(name)
        suspects += self.minors.suspects()
        suspects += self.plugins.suspects()

        def likeliest_first(suspect: Suspect) -> tuple[float, int, str]:
            agreeing = suspect.decisions / max(suspect.compared, 1)
            return (-agreeing, -suspect.explained, suspect.what)

        return sorted(suspects, key=likeliest_first)

    def report(self, until: float) -> Agreement:
        """What the decisions add up to so far."""
        profiles = tuple(self._profiles[name].of(name) for name in sorted(self._profiles))
        edits: list[Suspect] = []
        for name, counts in self._profiles.items():
            edits += counts.edits(name)
        return Agreement(
            source=self._source,
            since=self._since,
            until=until,
            decisions=self.decisions,
            landed=self.landed,
            in_another_order=sum(profile.in_another_order for profile in profiles),
            unpredictable=dict(self._reasons.most_common()),
            left_out=self.left_out,
            gaps=self.gaps,
            processor_seconds=round(self.processor_seconds, 3),
            profiles=profiles,
            suspects=tuple(self._suspects()),
            edits=tuple(edits),
            misses=tuple(self._misses),
            latest=tuple(self._latest),
            waiting=self.waiting,
        )
