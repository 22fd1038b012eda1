"""What a change would do, as a value that reports print."""

from __future__ import annotations

from enum import StrEnum

from rebalancer.planning.plan import API_VERSION, Landing, Value


class Fate(StrEnum):
    """What becomes of a pod."""

    LANDS = "Lands"
    PENDING = "Pending"
    STAYS = "Stays"
    OF_ITS_NODE = "OfItsNode"  # of a DaemonSet, or static: it belongs to its node and stays there
    REMOVED = "Removed"
    UNPREDICTABLE = "Unpredictable"  # it leaves, and where its replacement lands is not known


class PodFate(Value, frozen=True):
    """A pod that a change concerns, and what becomes of it or of its replacement."""

    pod: str  # namespace/name
    workload: str  # Kind/name
    from_node: str  # empty for a pod that is new or Pending
    fate: Fate
    landings: tuple[Landing, ...] = ()  # the likeliest node first
    because: str = ""


class ChangedNode(Value, frozen=True):
    """A node that is hot before or after the change, or whose load changes."""

    node: str
    change: str  # drained, cordoned or new; empty for any other
    hot: tuple[bool, bool]  # before and after
    before: dict[str, float]  # percent of allocatable; empty for a new node
    after: dict[str, float]


class ComparedLanding(Value, frozen=True):
    """Where the same pod lands by either of two scheduler configurations."""

    pod: str  # namespace/name of a pod, or the next pod of a workload
    before: tuple[Landing, ...]
    after: tuple[Landing, ...]
    fates: tuple[Fate, Fate]  # before and after
    because: tuple[str, str]  # why it does not land, or why that is not known; empty where it lands


class Comparison(Value, frozen=True):
    """Two scheduler configurations side by side."""

    configurations: tuple[str, str]  # where each is from
    compared: int  # pods, without those that stay where they are and those that neither can predict
    differing: tuple[ComparedLanding, ...]  # those whose fate, nodes or chances differ
    unknown: tuple[ComparedLanding, ...] = ()  # those that neither can predict


class WhatIf(Value, frozen=True):
    """The cluster before and after a change that nobody has made."""

    source: str
    policy: str
    inputs: str  # digest of what the cluster was read as
    now: str
    changes: tuple[str, ...]
    pods: tuple[PodFate, ...]  # in the order in which they are placed
    nodes: tuple[ChangedNode, ...]  # the hottest after the change first
    hot: tuple[int, int]  # hot nodes before and after
    pending: tuple[int, int]  # pods that fit nowhere
    moves: tuple[int, int]  # that a plan by this policy would make before, and once the change has settled
    comparison: Comparison | None
    notes: tuple[str, ...]
    api_version: str = API_VERSION
    kind: str = "WhatIf"
