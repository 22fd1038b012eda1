"""A recorded cluster as it would have been: the same pods and load, some of them on other nodes.

The recording says which pods there were and what each used. Where they are differs once a policy has moved
one of them. From then on the model places whoever arrives, for it may go elsewhere than it did:

    recorded    web-1 on a, uses 2.0 cores     db-0 arrives on b
    here        web-1 on b since 12:00         db-0: b if that is still among its landings, else drawn

As long as nothing differs, everyone goes where they went. A pod that was moved takes its load along: the
figures of both nodes change by it, by as much of their window as has passed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster.arrays import FloatArray, IntArray, PodClassIndex
from rebalancer.cluster.nodes import CPU, MEMORY
from rebalancer.cluster.pod_classes import OF_THEIR_NODE
from rebalancer.cluster.pods import PHASE_INDEX, PodTable
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.report import LoadReport, percent_of_allocatable
from rebalancer.load.scheduler_view import (
    AVERAGE,
    CPU_TYPE,
    LATEST,
    MEMORY_TYPE,
    Metric,
    SchedulerView,
    WatcherMetrics,
)
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.landing.scenarios import NOWHERE, LandingDraws
from rebalancer.planning.landing.schedulers import ProfileSchedulers


class Slot(msgspec.Struct, frozen=True):
    """Where a pod is instead of where it was recorded."""

    node: str  # empty while it is Pending
    before: str  # where it was until then; empty where nowhere
    since: float  # Unix seconds
    moves: int = 0


class Moment(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A recorded moment, and who came and went since the one before."""

    at: float
    snapshot: Snapshot
    before: Moment | None = None

    @cached_property
    def uids(self) -> tuple[str, ...]:
        """(pods,) what tells each from others at any moment: its uid, or its name where that is not known."""
        pods = self.snapshot.pods
        return tuple(uid or pods.full_name(row) for row, uid in enumerate(pods.uids))

    @cached_property
    def row(self) -> Mapping[str, int]:
        """The row of each pod by uid."""
        return {uid: row for row, uid in enumerate(self.uids)}

    @cached_property
    def arrivals(self) -> tuple[int, ...]:
        """Rows of the pods that were bound since the moment before, in order of creation."""
        if self.before is None:
            return ()
        pods = self.snapshot.pods
        then = self.before
        bound = then.snapshot.pods.node
        came = [
            row
            for row in np.flatnonzero(pods.node >= 0).tolist()
            if (row_then := then.row.get(self.uids[row])) is None or bound[row_then] < 0
        ]
        return tuple(sorted(came, key=lambda row: (float(np.nan_to_num(pods.created[row])), row)))


class Landing(msgspec.Struct, frozen=True):
    """A pod that was placed by this world, to be held against what happened next."""

    uid: str
    node: str


class World:
    """Where the pods would be, moment by moment."""

    def __init__(self, random: np.random.Generator, *, always_place: bool = False) -> None:
        """``always_place`` lets the model place whoever arrives, also while nothing differs."""
        self.elsewhere: dict[str, Slot] = {}  # by uid
        self._draws = LandingDraws(random)
        self._always = always_place
        self.placed = 0  # arrivals that the model placed
        self.as_recorded = 0  # of them, where the recorded node was among their landings

    # What happens

    def advance(self, moment: Moment, undone: Mapping[str, str], recorded: PlanningInputs) -> None:
        """Let a moment come: pods leave and arrive as recorded.

        ``undone`` names, for each pod that a recorded eviction brought here, the pod whose place it takes.
        """
        pods = moment.snapshot.pods
        names = moment.snapshot.nodes.row
        then = moment.before
        for uid, former in undone.items():
            if former in self.elsewhere:
                self.elsewhere[uid] = self.elsewhere[former]
            elif then is not None:
                row = int(then.snapshot.pods.node[then.row[former]])
                if row >= 0:
                    node = then.snapshot.nodes.names[row]
                    self.elsewhere[uid] = Slot(node, node, -np.inf)
        self.elsewhere = {uid: slot for uid, slot in self.elsewhere.items() if uid in moment.row}
        homeless = [
            moment.row[uid]
            for uid, slot in self.elsewhere.items()
            if slot.node not in names and not pods.terminating[moment.row[uid]]
        ]
        arrived = moment.arrivals if self._always or self.elsewhere else ()
        rows = [
            *homeless,
            *(row for row in arrived if moment.uids[row] not in undone and self._free(pods, row)),
        ]
        if rows:
            self._place(moment, rows, recorded)

    @staticmethod
    def _free(pods: PodTable, row: int) -> bool:
        return pods.class_of(row).owner.kind not in OF_THEIR_NODE

    def _place(self, moment: Moment, rows: Iterable[int], recorded: PlanningInputs) -> None:
        """Bind pods one after another, each to the recorded node where it may still land there."""
        rows = list(rows)
        pods = moment.snapshot.pods
        inputs = self.inputs(moment, recorded, without=rows)
        schedulers = ProfileSchedulers(inputs)
        state = schedulers.state.copy()
        for row in rows:
            uid = moment.uids[row]
            recorded_node = int(pods.node[row])
            kind = pods.class_before_binding.get(
                int(pods.pod_class[row]), PodClassIndex(int(pods.pod_class[row]))
            )
            placement = schedulers.likely_scheduler(kind).place(state, kind, row)
            possible = placement.feasible[placement.chance > 0].tolist()
            slot = self.elsewhere.get(uid)
            if slot is None:
                self.placed += 1
                self.as_recorded += recorded_node in possible
            node = (
                recorded_node if slot is None and recorded_node in possible else self._draws.node(placement)
            )
            if node != NOWHERE:
                state.bind(row, node)
            name = "" if node == NOWHERE else moment.snapshot.nodes.names[node]
            if slot is not None:
                self.elsewhere[uid] = replace(slot, node=name, before=slot.node, since=moment.at)
            elif node != recorded_node:
                self.elsewhere[uid] = Slot(name, "", moment.at)

    def move(self, moment: Moment, row: int, node: str) -> None:
        """A pod was evicted, and its replacement landed on a node; empty while it is Pending."""
        uid = moment.uids[row]
        pods = moment.snapshot.pods
        slot = self.elsewhere.get(uid)
        here = slot.node if slot else moment.snapshot.nodes.names[int(pods.node[row])]
        self.elsewhere[uid] = Slot(node, here, moment.at, slot.moves + 1 if slot else 1)

    def bind(self, moment: Moment, row: int, node: str) -> None:
        """A replacement that was Pending was scheduled."""
        uid = moment.uids[row]
        self.elsewhere[uid] = replace(self.elsewhere[uid], node=node, since=moment.at)

    def pending(self, moment: Moment) -> int:
        """How many pods have no node."""
        pods = moment.snapshot.pods
        waiting = (pods.node < 0) & ~pods.node_unknown & ~pods.terminating
        rows = {moment.row[uid]: slot for uid, slot in self.elsewhere.items()}
        return int(waiting.sum()) + sum((not slot.node) - bool(waiting[row]) for row, slot in rows.items())

    # What is seen

    def inputs(self, moment: Moment, recorded: PlanningInputs, without: Iterable[int] = ()) -> PlanningInputs:
        """What a run would read here; ``without`` are rows of pods that are not bound yet."""
        without = tuple(without)
        if not (self.elsewhere or without):
            return recorded
        pods = self._pods(moment, without)
        return replace(
            recorded,
            snapshot=replace(moment.snapshot, pods=pods),
            load=self._report(moment, recorded.load, pods, recorded.now),
        ).with_views(lambda view: self._view(moment, recorded, view))

    def percent(self, moment: Moment, load: LoadReport) -> FloatArray:
        """(nodes, resources + 1) the load without the lag of figures, in percent of allocatable."""
        node = self._nodes(moment)
        usage = load.usage + self._shift(moment, load, None)
        bound = np.bincount(node[node >= 0], minlength=len(usage)).astype(np.int64)
        return percent_of_allocatable(np.maximum(usage, 0.0), bound, load.allocatable)

    def _nodes(self, moment: Moment) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """(pods,) the row of the node of each."""
        node = moment.snapshot.pods.node.copy()
        names = moment.snapshot.nodes.row
        for uid, slot in self.elsewhere.items():
            node[moment.row[uid]] = names.get(slot.node, -1)
        return node

    def _pods(self, moment: Moment, without: tuple[int, ...]) -> PodTable:
        pods = moment.snapshot.pods
        node = self._nodes(moment)
        node[list(without)] = -1
        uids = list(pods.uids)
        phase = pods.phase.copy()
        ready = pods.ready.copy()
        created = pods.created.copy()
        started = pods.started.copy()
        for uid, slot in self.elsewhere.items():
            row = moment.row[uid]
            if slot.moves:
                uids[row] = f"{uid}+{slot.moves}"
                created[row] = slot.since
                started[row] = slot.since if slot.node else np.nan
            phase[row] = PHASE_INDEX["Running" if slot.node else "Pending"]
            ready[row] = bool(slot.node)
        columns = pods.columns.changed(
            uid=uids,
            created=created,
            started=started,
            phase=phase,
            ready=ready,
            nominated={row: name for row, name in pods.nominated.items() if node[row] < 0},
        )
        return replace(pods, columns=columns, node=node)

    def _shift(self, moment: Moment, load: LoadReport, measured: FloatArray | None) -> FloatArray:
        """(nodes, resources) by how much the figures differ from the recorded ones.

        ``measured`` is (nodes, resources) Unix seconds; None: figures that show the moment.
        """
        shift = np.zeros_like(load.usage)
        slots = self.elsewhere.values()
        names = moment.snapshot.nodes.row
        rows = [moment.row[uid] for uid in self.elsewhere]
        if not rows:
            return shift
        usage = np.nan_to_num(load.relief[rows])
        since = np.array([slot.since for slot in slots])

        def add(nodes: IntArray, amounts: FloatArray) -> None:
            np.add.at(shift, nodes[nodes >= 0], amounts[nodes >= 0])

        add(moment.snapshot.pods.node[rows], -usage)
        here = np.array([names.get(slot.node, -1) for slot in slots], np.int64)
        before = np.array([names.get(slot.before, -1) for slot in slots], np.int64)
        if measured is None:
            add(here, usage)
            return shift
        add(here, usage * _seen(since, load.window_seconds[here], measured[here]))
        add(before, usage * (1.0 - _seen(since, load.window_seconds[before], measured[before])))
        return shift

    def _report(self, moment: Moment, load: LoadReport, pods: PodTable, now: float) -> LoadReport:
        measured = np.where(np.isnan(load.measured_at), now, load.measured_at)
        usage = load.usage + self._shift(moment, load, measured)
        return replace(load, usage=np.maximum(usage, 0.0), pod_node=pods.node.copy())

    def _view(self, moment: Moment, recorded: PlanningInputs, view: SchedulerView) -> SchedulerView:
        if not view.watchers or not self.elsewhere:
            return view
        watchers = {
            address: self._watched(moment, recorded.load, metrics)
            for address, metrics in view.watchers.items()
        }
        return replace(view, watchers=watchers)

    def _watched(self, moment: Moment, load: LoadReport, metrics: WatcherMetrics) -> WatcherMetrics:
        """What load-watcher would have answered, in percent of capacity; deviations are as recorded."""
        nodes = moment.snapshot.nodes
        capacity = np.maximum(nodes.capacity[:, [CPU, MEMORY]].astype(np.float64), 1.0)
        end = np.full_like(load.usage, metrics.window_end)
        span = metrics.window_end - metrics.window_start
        averaged = replace(load, window_seconds=np.full_like(load.usage, max(span, 0.0)))
        shifts = {
            AVERAGE: self._shift(moment, averaged, end),
            LATEST: self._shift(moment, replace(load, window_seconds=np.zeros_like(load.usage)), end),
        }
        points = {operator: 100.0 * shift[:, :2] / capacity for operator, shift in shifts.items()}
        points[""] = points[LATEST]

        def changed(metric: Metric, row: int) -> Metric:
            column = {CPU_TYPE: 0, MEMORY_TYPE: 1}.get(metric.type)
            if row < 0 or column is None or metric.operator not in points:
                return metric
            return Metric(
                metric.type,
                metric.operator,
                max(metric.value + float(points[metric.operator][row, column]), 0.0),
            )

        def changed_of(name: str, recorded: Iterable[Metric]) -> tuple[Metric, ...]:
            row = nodes.row.get(name, -1)
            return tuple(changed(metric, row) for metric in recorded)

        return replace(
            metrics, nodes={name: changed_of(name, recorded) for name, recorded in metrics.nodes.items()}
        )


def _seen(since: FloatArray, window_seconds: FloatArray, measured: FloatArray) -> FloatArray:
    """(pods, resources) the share of the window of a node's figures that has passed since each pod moved.

    ``since`` is (pods,), the others (pods, resources); all in Unix seconds.
    """
    window = np.nan_to_num(window_seconds)
    passed = np.nan_to_num(measured - since[:, None], nan=0.0, posinf=np.inf)
    share = np.where(window > 0, passed / np.where(window > 0, window, 1.0), passed > 0)
    return np.asarray(np.clip(share, 0.0, 1.0), np.float64)
