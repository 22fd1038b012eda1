"""Corrects figures whose windows began before pods came or left.

``correct`` applies our own moves. A figure averaged over a window that began before a pod left (or came)
holds part of the old load. The share of the window before the move times the pod's load is what to take away
(or add). Where the pod's load or its whereabouts are not known, the node's figures stay outdated: nothing
leaves it, and nothing is counted on to land there.

``recent_load`` estimates what pods that others started within the window will still add. Right after a
scale-up, a rollout or a drain, the nodes that took the pods look idle, and every plan would send more pods
there. For example, node b has 10 cores, figures over 15 minutes say 5 %, and 8 pods that request 300
millicores started a minute ago:

    in the window   60 of 900 s, so 93 % of what they will use is missing
    missing         0.93 × 8 × max(request 0.3, measured 0.05) = 2.2 cores, or 22 points
    b as a landing  not counted on: more than ``MAX_ADDED_POINTS`` would rest on an estimate

Requests are estimates, so they are added where a landing is judged, and never make a node hot.

``end_times`` says when pods leave by themselves: when the grace period of a pod that terminates ends, or
activeDeadlineSeconds of a pod or of its Job. What pods use that are gone by the next run makes no node hot,
or others would be restarted for it. Until then it is there, so it counts wherever a pod may land.

    web-1  deleted, its grace period ends in 25 s          leaves
    job-7  activeDeadlineSeconds 600, started 590 s ago    leaves
    db-0   deleted, to be gone an hour ago                 stays: something holds it, and its load with it
    job-8  activeDeadlineSeconds 86400, started just now   stays until after the next run
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.cluster import times
from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray
from rebalancer.cluster.kinds import JOBS
from rebalancer.cluster.nodes import NodeTable
from rebalancer.cluster.pods import PHASE_INDEX, PodTable
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.report import LoadReport
from rebalancer.load.usage import RESOURCES, PodMethod
from rebalancer.state.results import LoadAfter, Result
from rebalancer.state.run_state import PastMove


class Corrected(msgspec.Struct, frozen=True, eq=False):
    """The report as if every window had begun after our last moves, as far as it can be corrected."""

    load: LoadReport
    figures_outdated: dict[int, str]  # node row -> why its figures cannot be corrected


def _share_before(load: LoadReport, rows: IntArray, moments: FloatArray) -> FloatArray:
    """(rows, resources) the share of each figure's window before a moment of its row; 1 for older figures."""
    measured = load.measured_at[rows]
    window = load.window_seconds[rows]
    moment = moments[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        inside = np.where(window > 0, (moment - (measured - window)) / np.where(window > 0, window, 1.0), 0.0)
        share = np.where(moment >= measured, 1.0, np.clip(inside, 0.0, 1.0))
    return np.nan_to_num(share, nan=0.0)


def correct(load: LoadReport, nodes: NodeTable, moves: Iterable[PastMove]) -> Corrected:
    """Apply our past moves to figures whose windows began before them."""
    usage = load.usage.copy()
    figures_outdated: dict[int, str] = {}

    def apply(move: PastMove, node: str, moment: float, sign: float) -> None:
        row = nodes.row.get(node)
        if row is None:
            return
        (share,) = _share_before(load, np.array([row]), np.array([moment]))
        if not share.any():
            return
        amounts = np.array([move.load.get(resource, np.nan) for resource in load.resources])
        needed = (share > 0) & np.isin(load.resources, load.required)
        reason = f"its figures include the time before {move.namespace}/{move.name} moved"
        if np.isnan(amounts[needed]).any() or Result.of(move.result).load is LoadAfter.UNKNOWN:
            figures_outdated[row] = f"{reason}, whose load is unknown"
        elif not _linear(load, row)[needed].all():
            figures_outdated[row] = f"{reason}; a percentile or peak of them cannot be corrected"
        else:
            usage[row] += sign * share * np.nan_to_num(amounts, nan=0.0)

    for move in moves:
        after = Result.of(move.result).load
        if after is LoadAfter.STAYED:
            continue
        apply(move, move.from_node, move.evicted_at, -1.0)
        if after is LoadAfter.UNKNOWN or (after is LoadAfter.MOVED and move.to_node):
            apply(move, move.to_node, move.landed_at or move.evicted_at, 1.0)
    least = np.minimum(load.usage, load.least_usage)  # what runs there now is not taken away
    return Corrected(replace(load, usage=np.maximum(usage, least)), figures_outdated)


def _linear(load: LoadReport, row: int) -> BoolArray:
    """(resources,) whether a figure is a mean, so that a part of its window weighs as long as it lasted."""
    return np.array(
        [load.statistic(row, column) == "mean" for column in range(len(load.resources))], np.bool_
    )


MAX_ADDED_POINTS = 10.0
"""A node to which more than this many points of allocatable would have to be added is not a landing."""
_REQUESTS = "requests"  # the source whose figures hold every bound pod, however young


class RecentLoad(msgspec.Struct, frozen=True, eq=False):
    """What figures do not show yet."""

    missing: FloatArray  # (nodes, resources) to add to what is expected of each node; 0 where too much is
    recent_arrivals: dict[int, str]  # node row -> why the node is not a landing


def recent_load(
    load: LoadReport, pods: PodTable, nodes: NodeTable, requests: FloatArray, moves: Iterable[PastMove]
) -> RecentLoad:
    """The load of pods that started within their node's window; ``requests`` is (pods, 2): cpu and memory."""
    missing = np.zeros_like(load.usage)
    recent_arrivals: dict[int, str] = {}
    began = np.where(np.isnan(load.measured_at), np.inf, load.measured_at - load.window_seconds)
    bound = np.flatnonzero((pods.node >= 0) & ~pods.terminating)
    with np.errstate(invalid="ignore"):
        within = _started(pods, bound) > began.min(axis=1, initial=np.inf)[pods.node[bound]]
    rows = np.asarray(bound[within], np.int64)
    if not len(rows):
        return RecentLoad(missing, recent_arrivals)
    rows = rows[~_our_own(pods, nodes, rows, moves)]
    on = pods.node[rows]
    share = _share_not_running(load, on, _started(pods, rows))
    requested = np.full((len(rows), load.usage.shape[1]), np.nan)
    requested[:, : len(RESOURCES)] = requests[rows]
    expected = np.fmax(requested, load.pod_usage[rows])
    # What a pod without a request has of a figure that began before the pod did says nothing of it.
    without_request = np.where(np.isnan(requested), requested[:, :1], requested) == 0
    is_share = np.isin(load.pod_methods[rows], (PodMethod.UNKNOWN, PodMethod.SHARE))
    unknown = np.isnan(expected) | (without_request & is_share)
    np.add.at(missing, on, share * np.where(unknown, 0.0, expected))
    required = np.isin(load.resources, load.required)
    columns = [load.percent_resources.index(name) for name in load.resources]
    room = load.allocatable[:, columns]
    points = np.where(room > 0, 100.0 * missing / np.where(room > 0, room, 1.0), 0.0)
    unknown_there: IntArray = np.unique(on[(unknown & (share > 0) & required).any(axis=1)])
    for node in np.flatnonzero((points > MAX_ADDED_POINTS).any(axis=1)).tolist():
        column = int(np.argmax(points[node]))
        recent_arrivals[node] = (
            f"has pods that started within its figures' window; {points[node, column]:.0f} points of "
            f"{load.resources[column]} are yet to show"
        )
    for node in unknown_there.tolist():
        which = next(int(row) for row in rows[on == node])
        recent_arrivals[node] = (
            f"has pods that started within its figures' window and whose load is unknown, e.g. "
            f"{pods.full_name(which)}"
        )
    missing[list(recent_arrivals)] = 0.0
    return RecentLoad(missing, recent_arrivals)


def _started(pods: PodTable, rows: IntArray) -> FloatArray:
    """(rows,) when pods started; the end of time for those that are bound and have yet to."""
    started = pods.started[rows]
    yet_to = np.isnan(started) & (pods.phase[rows] == PHASE_INDEX["Pending"])
    return np.where(yet_to, np.inf, started)


def _share_not_running(load: LoadReport, nodes: IntArray, started: FloatArray) -> FloatArray:
    """(pods, resources) the share of the window in which a pod did not run; all of it where that is unclear.

    Only a mean weighs a part of its window by how long it lasted: a percentile may show nothing of a pod that
    runs for the last tenth of it. Requests show every pod at once.
    """
    source = load.source[nodes]
    inside = _share_before(load, nodes, started)
    for column in range(len(load.resources)):
        slow = _has(source[:, column], [statistics[column] != "mean" for statistics in load.statistics])
        inside[slow, column] = np.ceil(inside[slow, column])
    return np.where(
        (source < 0) | _has(source, [source_name == _REQUESTS for source_name in load.sources]), 0.0, inside
    )


def _has(source: IntArray, answers: list[bool]) -> BoolArray:
    """Whether the source of each figure is one of those; an unknown source is not."""
    table = np.array([*answers, False], np.bool_)
    return np.asarray(table[np.clip(source, -1, len(answers))], np.bool_)


def _our_own(pods: PodTable, nodes: NodeTable, rows: IntArray, moves: Iterable[PastMove]) -> BoolArray:
    """(rows,) is the replacement of a pod that we moved: one pod for each move, the oldest first."""
    landed: dict[tuple[str, str], list[float]] = {}
    for move in moves:
        if move.to_node and move.controller_uid:
            landed.setdefault((move.controller_uid, move.to_node), []).append(move.evicted_at)
    is_ours: BoolArray = np.zeros(len(rows), np.bool_)
    started = _started(pods, rows)
    for position in np.argsort(started, kind="stable").tolist() if landed else ():
        row = int(rows[position])
        evicted = landed.get((pods.class_of(row).owner.uid, nodes.names[int(pods.node[row])]), [])
        # Times of pods are whole seconds.
        ours = next((moment for moment in evicted if moment - 1.0 <= started[position]), None)
        if ours is not None:
            evicted.remove(ours)
            is_ours[position] = True
    return is_ours


def end_times(snapshot: Snapshot) -> FloatArray:
    """(pods,) Unix seconds at which each pod will be gone whatever anybody does; inf where nothing ends it.

    A container that is killed gets its grace period, which is left out here: its load leaves either way.
    """
    pods = snapshot.pods
    of_job = _ends_of_jobs(snapshot)
    seconds, moments = np.full((2, len(pods.classes)), np.inf)
    for index, pod in enumerate(pods.classes):
        if pod.spec.active_deadline_seconds is not None:
            seconds[index] = pod.spec.active_deadline_seconds
        moments[index] = of_job.get(pod.owner.uid, np.inf)
    # The kubelet counts from status.startTime; a pod that has not started has all of its time before it.
    own = np.where(np.isnan(pods.started), np.inf, pods.started) + seconds[pods.pod_class]
    ends = np.asarray(np.minimum(own, moments[pods.pod_class]), np.float64)
    for row, deleted in pods.columns.few("deleted").items():
        ends[row] = min(ends[row], _time(deleted))
    return ends


def leaving_pods(ends: FloatArray, now: float, horizon: float) -> BoolArray:
    """(pods,) whether each is gone within so many seconds; one that is overdue by as many is stuck."""
    return np.asarray(np.abs(ends - now) <= horizon, np.bool_)


def _ends_of_jobs(snapshot: Snapshot) -> dict[str, float]:
    """By the uid of a Job: when the controller ends its pods, counted from the Job's own start."""
    return {
        job.metadata.uid: _time(job.status.start_time) + job.spec.active_deadline_seconds
        for job in snapshot.recording.records(JOBS)
        if job.spec.active_deadline_seconds is not None
    }


def _time(text: str | None) -> float:
    """Unix seconds; inf for none, and for one that nobody can read."""
    return float(np.nan_to_num(times.parse_if_possible(text), nan=np.inf))
