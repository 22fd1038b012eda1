"""Which pods replaced the evicted ones.

The API does not record which replica replaced which. Replicas of one controller are interchangeable, so
of all pairings that the creation times allow, one with the most planned landings is taken:

    evicted: web-1 (planned: a), web-2 (planned: b)      new: web-x on b, web-y on a
    pairing: web-1 -> web-y, web-2 -> web-x              both landed as planned
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rebalancer.execution.observed_pods import ObservedPod
from rebalancer.execution.rolling_update.rollouts import made_by_rollout
from rebalancer.planning.plan import Move


@dataclass(frozen=True, slots=True)
class Evicted:
    """A move whose pod was evicted."""

    move: Move
    at: float  # Unix seconds, our clock
    not_before: float  # no replacement is created before this, by the API server's clock
    started: bool = False  # the pod leaves once somebody else has moved it, or stays
    restarted_at: str = ""  # of a rolling update: the annotation of the pods it makes


def match(
    evicted: Sequence[Evicted], before: Collection[str], now: Iterable[ObservedPod]
) -> Mapping[str, ObservedPod]:
    """The replacement of each evicted pod that has one, by the evicted pod's uid.

    ``before`` are the uids of the pods that existed before the wave: none of them replaces another.
    """
    known = set(before) | {item.move.pod.uid for item in evicted}
    fresh = [pod for pod in now if pod.metadata.uid not in known and not pod.terminating]
    found: dict[str, ObservedPod] = {}
    by_controller: dict[tuple[str, str], list[Evicted]] = {}
    by_name = {(pod.metadata.namespace, pod.metadata.name): pod for pod in fresh}
    for item in evicted:
        pod = item.move.pod
        if item.move.is_restart:
            new = made_by_rollout(item.move, item.restarted_at, known, fresh)
            if new is not None:
                found[pod.uid] = new
        elif pod.controller_kind == "StatefulSet":
            successor = by_name.get((pod.namespace, pod.name))
            if successor is not None and successor.controller_uid == pod.controller_uid:
                found[pod.uid] = successor
        elif pod.controller_uid:
            by_controller.setdefault((pod.namespace, pod.controller_uid), []).append(item)
    for (namespace, controller), items in by_controller.items():
        candidates = [
            pod for pod in fresh if pod.metadata.namespace == namespace and pod.controller_uid == controller
        ]
        found.update(_pair(items, candidates))
    return found


def _pair(items: Sequence[Evicted], candidates: Iterable[ObservedPod]) -> dict[str, ObservedPod]:
    """Pair evictions with pods made after them: as many as possible, and of these as many as planned."""
    chosen = _choose(items, candidates)
    taken_by = _planned(items, chosen)
    left = iter(sorted(set(range(len(items))) - set(taken_by.values())))
    for pod in range(len(chosen)):
        if pod not in taken_by:
            taken_by[pod] = next(left)
    return {items[item].move.pod.uid: chosen[pod] for pod, item in taken_by.items()}


def _choose(items: Sequence[Evicted], candidates: Iterable[ObservedPod]) -> list[ObservedPod]:
    """The replacements: each eviction, latest first, takes the earliest pod made after it.

    A pod made after a later eviction was made after every earlier one too, so no pair is lost. A pod that
    failed was itself replaced, so it is taken only when there is no other.
    """
    left = sorted(
        candidates,
        key=lambda pod: (pod.failed, _created(pod), pod.metadata.name, pod.metadata.uid),
    )
    chosen: list[ObservedPod] = []
    for item in sorted(items, key=lambda item: -item.not_before):
        earliest = math.floor(item.not_before)  # creation times are whole seconds
        first = next((index for index, pod in enumerate(left) if _created(pod) >= earliest), None)
        if first is not None:
            chosen.append(left.pop(first))
    return chosen


def _created(pod: ObservedPod) -> float:
    return -math.inf if math.isnan(pod.created_at) else pod.created_at


def _planned(items: Sequence[Evicted], pods: Sequence[ObservedPod]) -> dict[int, int]:
    """The largest pairing of pods with moves that listed their node: pod index -> item index."""
    listed = [{landing.node for landing in item.move.landings} for item in items]
    item_of: dict[int, int] = {}

    def assign(item: int, tried: set[int]) -> bool:
        for pod, candidate in enumerate(pods):
            if candidate.spec.node_name not in listed[item] or pod in tried:
                continue
            tried.add(pod)
            if pod not in item_of or assign(item_of[pod], tried):
                item_of[pod] = item
                return True
        return False

    for item in range(len(items)):
        assign(item, set())
    return item_of
