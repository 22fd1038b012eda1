"""Finds the moment of a timeline at which a pod had just been bound.

A pod is looked for from the last moment backwards, until one has it on a node. From when it was created, the
first moment that has it there is the one nearest to its binding:

    12:00   web-1 is not there
    12:05   web-1 is Pending
    12:10   web-1 is on node-2        the moment of its binding
    12:15   web-1 is on node-2        found first
    12:20   web-1 is gone
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from rebalancer.cluster import times
from rebalancer.cluster.kinds import PODS
from rebalancer.cluster.pods import PodFields
from rebalancer.errors import InputError
from rebalancer.observe.timeline import Timeline


def binding_moment(
    timeline: Timeline, name: str, until: float | None, progress: Callable[[str], None] = lambda _: None
) -> float:
    """The first moment at which a pod, ``name`` or ``namespace/name``, is on the node where it was last.

    ``until`` is the moment to look back from, by default the newest. Raises InputError where none has it.
    """
    moments = timeline.moments()
    last = moments.index(timeline.moment_at(until))
    pod: PodFields | None = None
    for place in range(last, -1, -1):
        progress(f"looking for the pod, moment {last - place + 1} of {last + 1}")
        pod = _bound_pod(timeline, moments[place], name)
        if pod is not None:
            last = place
            break
    if pod is None:
        period = f"from {times.render(moments[0])} to {times.render(moments[last])}"
        raise InputError(
            f"no moment {period} has pod {name[:200]} on a node",
            where=str(timeline.folder),
            hint="see what there is with: rebalancer agreement why pod/NAMESPACE/NAME --at TIME",
        )
    first = bisect_left(moments, pod.created)
    for place in range(min(first, last), last):
        earlier = _bound_pod(timeline, moments[place], name)
        if earlier is not None and earlier.uid == pod.uid:
            return moments[place]
    return moments[last]


def _bound_pod(timeline: Timeline, moment: float, name: str) -> PodFields | None:
    """A pod that is on a node at a moment; None where there is none of that name."""
    listing = timeline.recording(moment).listings.get(PODS.plural)
    if listing is None or listing.pods is None:
        return None
    columns = listing.pods.columns
    for row in range(listing.pods.unfinished):
        fields = columns.row(row)
        if fields.node_name and name in (fields.name, f"{fields.namespace}/{fields.name}"):
            return fields
    return None
