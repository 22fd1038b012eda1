"""What earlier runs knew: how long nodes have been hot, and which pods were moved where.

A value, bounded in size so that it fits a ConfigMap; the functions here make the next one from it. The load
of nodes at earlier runs is the window of sources that know only the present. How often schedulers decided as
computed is measured by others, and said here where that is too little to act on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec.structs import replace

from rebalancer.errors import InputError
from rebalancer.policy.schema import RebalancePolicy, Safety
from rebalancer.state.results import Result

MAX_SAMPLES = 100
MAX_SAMPLE_BYTES = 160 << 10

_Name = Annotated[str, msgspec.Meta(max_length=512)]
_Time = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
_Percent = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Sample(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One run: percent of allocatable by resource, then by node; null where there was no figure."""

    at: _Time  # Unix seconds
    percent: dict[_Name, tuple[_Percent | None, ...]]


class LoadSamples(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Samples of the same nodes, oldest first."""

    nodes: tuple[_Name, ...] = ()
    taken: tuple[Sample, ...] = ()


def with_sample(
    samples: LoadSamples, at: float, percent: Mapping[str, Mapping[str, float]], window_seconds: float
) -> LoadSamples:
    """The samples with one more, ``percent`` by resource and node; those outside the window are dropped."""
    earlier = [sample for sample in samples.taken if at - window_seconds <= sample.at < at]
    seen = {
        node
        for sample in earlier
        for values in sample.percent.values()
        for node, value in zip(samples.nodes, values, strict=False)
        if value is not None
    }
    nodes = tuple(sorted(seen | {node for of_nodes in percent.values() for node in of_nodes}))
    added = Sample(
        at=at,
        percent={resource: _rounded(nodes, values) for resource, values in sorted(percent.items())},
    )
    return bounded_samples(
        _aligned(nodes, [(samples.nodes, sample) for sample in earlier] + [(nodes, added)])
    )


def bounded_samples(samples: LoadSamples) -> LoadSamples:
    """The newest samples that fit the room there is for them."""
    left = MAX_SAMPLE_BYTES - len(msgspec.json.encode(samples.nodes))
    latest: list[Sample] = []
    for sample in reversed(samples.taken[-MAX_SAMPLES:]):
        left -= len(msgspec.json.encode(sample)) + 1
        if left < 0:
            break
        latest.append(sample)
    return LoadSamples(nodes=samples.nodes if latest else (), taken=tuple(reversed(latest)))


def _rounded(nodes: Sequence[str], percent: Mapping[str, float]) -> tuple[float | None, ...]:
    """The percent of each node as a sample holds it; None where there was no figure."""
    return tuple(round(min(max(percent[node], 0.0), 1e9), 1) if node in percent else None for node in nodes)


def _reordered(
    nodes: Sequence[str], names: Sequence[str], values: Sequence[float | None]
) -> tuple[float | None, ...]:
    """The values of ``names`` in the order of ``nodes``; None for a node that is not among them."""
    by_name = dict(zip(names, values, strict=False))
    return tuple(by_name.get(node) for node in nodes)


def _aligned(nodes: tuple[str, ...], taken: Sequence[tuple[tuple[str, ...], Sample]]) -> LoadSamples:
    """Samples of other node lists, all over the same nodes."""
    result = []
    for names, sample in taken:
        if names != nodes:
            percent = {
                resource: _reordered(nodes, names, values) for resource, values in sample.percent.items()
            }
            result.append(Sample(at=sample.at, percent=percent))
        else:
            result.append(sample)
    return LoadSamples(nodes=nodes, taken=tuple(result))


MIN_DECISIONS = 100  # fewer prove nothing
MAX_AGE_SECONDS = 30 * 86_400.0  # a scheduler is upgraded, its configuration changed
_HOW = "measure it with: rebalancer agreement, or let rebalancer serve run"

_Count = Annotated[int, msgspec.Meta(ge=0)]


class MeasuredAgreement(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Decisions of the cluster's schedulers that were compared, and how many landed as computed."""

    decisions: _Count
    landed: _Count
    until: _Time  # Unix seconds, when the last was compared

    @property
    def share(self) -> float:
        """Of the decisions; 0 where there are none, or where the figures cannot be."""
        return self.landed / self.decisions if 0 < self.decisions >= self.landed else 0.0

    def sentence(self) -> str:
        """The figure in words."""
        return (
            f"of {self.decisions:,} decisions of the scheduler {self.landed:,} landed as computed "
            f"({self.share:.2%})"
        )

    def is_known(self, now: float) -> bool:
        """Whether there are enough decisions, and they are recent enough, to say something."""
        return self.decisions >= MIN_DECISIONS and abs(now - self.until) <= MAX_AGE_SECONDS


def the_one_to_keep(before: MeasuredAgreement | None, new: MeasuredAgreement) -> MeasuredAgreement:
    """What was measured last; what was known before, while that says too little and is no worse.

    It is worse from the first misses on that the fewest decisions which say something could not make up for:
    a scheduler that was just changed is not trusted for what was measured before.
    """
    if before is None or new.is_known(new.until) or not before.is_known(new.until):
        return new
    missed = (new.decisions - new.landed) / MIN_DECISIONS
    return new if missed > 1 - before.share else before


def why_refused(safety: Safety, measured: MeasuredAgreement | None, now: float) -> str:
    """Why a run may not act on what is known of the schedulers' decisions; empty where it may."""
    least = safety.min_agreement
    if least is None:
        return ""
    needed = f"safety.minAgreement is {least:.2%}"
    if measured is None:
        return f"whether the scheduler decides as computed is not known, and {needed}; {_HOW}"
    if not measured.is_known(now):
        doubt = "too long ago" if measured.until < now else "dated more than 30 days after this run"
        if measured.decisions < MIN_DECISIONS:
            doubt = f"fewer than {MIN_DECISIONS}"
        return f"{measured.sentence()}, which is {doubt}, and {needed}; {_HOW}"
    return (
        f"{measured.sentence()}, and {needed}; rebalancer agreement shows why"
        if measured.share < least
        else ""
    )


API_VERSION = "rebalancer/v1alpha1"
KIND = "RunState"
MAX_MOVES = 5000
MAX_HOT_NODES = 5000
MAX_STREAK = 1_000_000
MAX_BYTES = 900 << 10  # a ConfigMap holds 1 MiB
MAX_COOLDOWN_SECONDS = 24 * 3600.0  # of a cooldown that doubled: what runs once a day is seen again
COOLDOWN_WINDOW_SECONDS = 2 * MAX_COOLDOWN_SECONDS  # in which the runs count that double it
BAD_LANDING_COOLDOWN_SECONDS = 24 * 3600.0  # after a landing that the plan did not allow: people look by then
_MIN_MEMORY_SECONDS = 24 * 3600.0
_PER_DAY_SECONDS = 26 * 3600.0  # what perDay counts, by clocks that differ by as much as a run accepts
_MIN_SPACING_SECONDS = 1e-6  # the same run never counts twice
_OVERHEAD_BYTES = 1024  # the envelope around the moves and the streaks

_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
_Streak = Annotated[int, msgspec.Meta(ge=1, le=MAX_STREAK)]


class Value(msgspec.Struct, frozen=True, rename="camel"):
    """The base of all parts of a state."""


class PastMove(Value, frozen=True, kw_only=True):
    """A pod that was evicted, and what became of it; times in Unix seconds."""

    namespace: _Name
    name: _Name
    uid: _Name
    run: _Name = ""  # which run wrote this: another one never withdraws it
    workload: _Name  # Kind/name of the top-most controller known
    controller_uid: _Name = ""
    from_node: _Name = msgspec.field(name="from")
    to_node: _Name = msgspec.field(name="to", default="")  # where the replacement runs; empty when not known
    result: _Name = Result.UNKNOWN.value  # a Result, or one that only a newer version knows
    evicted_at: _Time
    landed_at: _Time | None = None
    load: dict[_Name, _Amount] = {}  # cpu in thousandths of a core, memory in bytes


class RunState(Value, frozen=True, kw_only=True):
    """Streaks of hot nodes and recent moves, newest last."""

    hot_streaks: dict[_Name, _Streak] = {}  # node -> consecutive runs in which it was hot
    hot_counted_at: _Time = 0.0  # when the streaks grew last
    moves: tuple[PastMove, ...] = ()
    forgotten_until: _Time = 0.0  # of moves up to this moment some are not kept, for there were too many
    samples: LoadSamples = LoadSamples()  # load at earlier runs, of sources that know only the present
    updated_at: _Time = 0.0
    agreement: MeasuredAgreement | None = None  # of the cluster's schedulers with what is computed
    api_version: str = API_VERSION
    kind: str = KIND

    def hot_runs(self, node: str) -> int:
        """In how many consecutive runs, up to the last one, the node was hot."""
        return self.hot_streaks.get(node, 0)

    def counts_again(self, now: float, spacing_seconds: float) -> bool:
        """Whether a run at this moment makes streaks longer: one too soon after another counts with it."""
        return self.counts_in(now, spacing_seconds) <= 0.0

    def counts_in(self, now: float, spacing_seconds: float) -> float:
        """After how many seconds a run makes streaks longer; none, or fewer, where one does now.

        A time in the future comes from another clock, and is taken for the present.
        """
        return max(spacing_seconds, _MIN_SPACING_SECONDS) - (now - min(self.hot_counted_at, now))

    def hot_runs_with(self, node: str, now: float, spacing_seconds: float) -> int:
        """In how many consecutive runs the node was hot, when it is hot in the one made now too."""
        return max(1, self.hot_runs(node) + (1 if self.counts_again(now, spacing_seconds) else 0))


def after_plan(
    state: RunState | None, hot_nodes: Collection[str], now: float, spacing_seconds: float = 0.0
) -> RunState:
    """The state once a run found ``hot_nodes`` hot: their streaks grow by one, all others end.

    Runs closer to each other than the spacing count once, so a change made twice counts once too.
    """
    before = state or RunState()
    streaks = {
        node: min(before.hot_runs_with(node, now, spacing_seconds), MAX_STREAK)
        for node in sorted(set(hot_nodes))
    }
    # A time in the future comes from another clock; the spacing is counted from our own then.
    counted_at = now if before.counts_again(now, spacing_seconds) else min(before.hot_counted_at, now)
    return bounded(replace(before, hot_streaks=streaks, hot_counted_at=counted_at, updated_at=now))


def after_reading(
    state: RunState | None, percent: Mapping[str, Mapping[str, float]], now: float, window_seconds: float
) -> RunState:
    """The state once a run read these loads of the present, percent by resource and node."""
    before = state or RunState()
    samples = with_sample(before.samples, now, percent, window_seconds) if percent else LoadSamples()
    return bounded(replace(before, samples=samples))


def memory_seconds(policy: RebalancePolicy) -> float:
    """How long past moves are remembered: as long as a cooldown asks, and at least a day."""
    planning = policy.planning
    return max(
        _PER_DAY_SECONDS if "perDay" in policy.limits.rates else _MIN_MEMORY_SECONDS,
        2 * planning.cooldown,
        COOLDOWN_WINDOW_SECONDS,
    )


def after_moves(
    state: RunState | None, moves: Iterable[PastMove], now: float, horizon_seconds: float
) -> RunState:
    """The state once ``moves`` were made: a run's later account of a pod replaces its earlier one.

    Earlier moves that are older than the horizon are dropped, and those that are given never.
    """
    before = state or RunState()
    by_pod = {(move.uid, move.run): move for move in before.moves if now - move.evicted_at <= horizon_seconds}
    by_pod.update(((move.uid, move.run), move) for move in moves)
    settled = {move.uid for move in by_pod.values() if move.result != Result.UNKNOWN}
    remembered = [
        move
        for move in by_pod.values()
        # A pod is evicted once: what became of it replaces what other runs did not know.
        if move.result != Result.UNKNOWN or move.uid not in settled
    ]
    remembered.sort(key=_order)
    return bounded(replace(before, moves=tuple(remembered), updated_at=now))


def bounded(state: RunState) -> RunState:
    """The state within its bounds: the oldest moves go first, then the shortest streaks."""
    longest_first = sorted(state.hot_streaks.items(), key=lambda streak: (-streak[1], streak[0]))[
        :MAX_HOT_NODES
    ]
    samples = bounded_samples(state.samples)
    left = MAX_BYTES - _OVERHEAD_BYTES - (len(msgspec.json.encode(samples)) if samples.taken else 0)
    streaks = {}
    for node, runs in longest_first:
        left -= len(msgspec.json.encode(node)) + 10
        if left < MAX_BYTES // 4:
            break
        streaks[node] = runs
    latest: list[PastMove] = []
    for move in reversed(state.moves[-MAX_MOVES:]):
        left -= len(msgspec.json.encode(move)) + 1
        if left < 0:
            break
        latest.append(move)
    lost = state.moves[: len(state.moves) - len(latest)]
    return replace(
        state,
        hot_streaks=dict(sorted(streaks.items())),
        moves=tuple(reversed(latest)),
        forgotten_until=max([state.forgotten_until, *(move.evicted_at for move in lost)]),
        samples=samples,
    )


def encode(state: RunState) -> bytes:
    """The state as JSON, at most ``MAX_BYTES``: the same state, the same bytes."""
    return msgspec.json.encode(bounded(state), order="deterministic")


def decode(content: bytes, where: str) -> RunState:
    """The state read back. Raises InputError, naming ``where``, when the bytes hold none that can be used."""
    hint = "remove it: the next run remembers no earlier one, and limits per hour and day begin again"
    if len(content) > 2 * MAX_BYTES:
        raise InputError(
            f"the state is {len(content)} bytes, more than any that was written", where=where, hint=hint
        )
    try:
        head = _head_decoder.decode(content)
        if (head.api_version, head.kind) != (API_VERSION, KIND):  # as any file of somebody else's
            content_kind = (
                f"{head.kind[:60]!a} of {head.api_version[:60]!a}" if head.kind else "something else"
            )
            hint = f"name another place with --state or --state-config-map; if it was the state, {hint}"
            raise InputError(f"holds {content_kind}, not a {KIND} of {API_VERSION}", where=where, hint=hint)
        state = _decoder.decode(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a {KIND}: {str(error)[:300]}", where=where, hint=hint) from error
    ordered = tuple(sorted(state.moves, key=_order))
    return bounded(replace(state, moves=ordered))


class _Head(Value, frozen=True):
    """What a text says that it is; nothing where it says nothing."""

    api_version: str = ""
    kind: str = ""


_head_decoder = msgspec.json.Decoder(_Head)
_decoder = msgspec.json.Decoder(RunState)


def _order(move: PastMove) -> tuple[float, str, str]:
    return move.evicted_at, move.uid, move.run


class MoveHistory:
    """Moves by the workload and by the controller of their pods, and the cooldown that follows from them.

    A workload is ``namespace/Kind/name``. One that a run moved is left alone for a time, which doubles with
    each further run that moved it within two days, up to a day: what keeps coming back as the cheapest answer
    is not an answer. With a cooldown of 1 h:

        moved by one run              left alone for 1 h
        moved again 2 h later         for 2 h
        and again 3 h later           for 4 h
    """

    def __init__(self, moves: Iterable[PastMove] = ()) -> None:
        self._of_workload: dict[str, list[PastMove]] = {}
        self._of_controller: dict[str, list[PastMove]] = {}
        for move in moves:
            self._of_workload.setdefault(f"{move.namespace}/{move.workload}", []).append(move)
            if move.controller_uid:
                self._of_controller.setdefault(move.controller_uid, []).append(move)

    def of(self, *, workload: str = "", controller_uid: str = "") -> tuple[PastMove, ...]:
        """The moves of a workload or a controller, oldest first."""
        moves = self._of_workload.get(workload, []) + self._of_controller.get(controller_uid, [])
        by_pod = {(move.uid, move.run): move for move in moves}
        return tuple(sorted(by_pod.values(), key=lambda move: (move.evicted_at, move.uid, move.run)))

    def in_cooldown(
        self,
        now: float,
        cooldown_seconds: float,
        *,
        workload: str = "",
        controller_uid: str = "",
        results: Collection[str] | None = None,
    ) -> PastMove | None:
        """The latest move, of those with such results, that is too recent to move the workload again.

        A move dated in the future counts as just made: the clocks of two runs may differ.
        """
        for move in reversed(self.of(workload=workload, controller_uid=controller_uid)):
            is_among = results is None or move.result in results
            if is_among and now - move.evicted_at < cooldown_seconds:
                return move
        return None

    def cooldown_seconds(
        self,
        now: float,
        *,
        first: float,
        workload: str = "",
        controller_uid: str = "",
    ) -> float:
        """How long the workload is left alone after its latest move."""
        runs = {
            move.run or move.evicted_at
            for move in self.of(workload=workload, controller_uid=controller_uid)
            if now - move.evicted_at < COOLDOWN_WINDOW_SECONDS
        }
        doublings = min(max(0, len(runs) - 1), 60)
        return max(first, min(first * 2.0**doublings, MAX_COOLDOWN_SECONDS))
