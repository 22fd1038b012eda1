"""Which pods are read to find replacements: those their controller selects, not a whole namespace."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rebalancer.cluster.kinds import REPLICATION_CONTROLLERS
from rebalancer.cluster.records import LabelSelector
from rebalancer.cluster.selectors import query
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.planning.plan import Move


def selectors_of(snapshot: Snapshot) -> Callable[[Move], str]:
    """The label selector of the controller of a move's pod, as a LIST takes it.

    Empty where it is not known, as for controllers of add-ons, which are not read.
    """

    def selector_of(move: Move) -> str:
        # A rolling update makes another ReplicaSet: its Deployment selects the pods of both.
        uid = move.pod.workload_uid if move.is_restart else move.pod.controller_uid
        found = snapshot.workloads.get(uid)
        if found is None:
            return ""
        kind, record = found
        try:
            if kind is REPLICATION_CONTROLLERS:  # a plain map
                labels = msgspec.convert(record.spec.selector, dict[str, str])
                return query(LabelSelector(match_labels=labels))
            return query(msgspec.convert(record.spec.selector, LabelSelector))
        except (ValueError, TypeError):
            return ""

    return selector_of
