"""A topology spread constraint over the nodes: which domains it has, and how many pods count in each.

constraint     at most 1 apart by zone, pods with app=web
a, b, c        domains of the zone; c has only nodes that the pod's node selector excludes
counts         [4, 2, 0, 0]: the last cell is for nodes without the label
populated      a and b: c does not count
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, IntArray
from rebalancer.cluster.selectors import LabelMatch
from rebalancer.scheduling.state.cluster_state import ClusterState


class Constraint(msgspec.Struct, frozen=True):
    """One constraint with all its defaults filled in."""

    max_skew: int
    topology_key: str
    selector: LabelMatch | None  # None selects nothing
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


class DomainCounter(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One constraint of one class over the nodes: which domains there are, and what counts in them."""

    constraint: Constraint
    values: IntArray  # (nodes,) domain, -1 where the node lacks the key
    number_of_domains: int
    with_key: int  # nodes that have the key
    counter: int  # -1 when nothing is ever counted
    rows: IntArray | None  # the nodes whose pods count; None: all that have the key
    itself: int  # 1 when the selector selects the pod
    namespace: str  # of the incoming pod
    # Whether the pods of all nodes count in a domain that has any of ``rows``.
    counts_beside: bool = False

    @cached_property
    def populated(self) -> IntArray:
        """Domains with a node that counts."""
        if self.rows is None:
            return _every_domain(self.number_of_domains)
        counting = self.values[self.rows]
        return np.flatnonzero(np.bincount(counting[counting >= 0], minlength=self.number_of_domains))

    @property
    def on_every_node(self) -> bool:
        """Whether every node has the key."""
        return self.with_key == len(self.values)

    def counts(self, state: ClusterState, *, keep: bool = True) -> IntArray:
        """(domains + 1,) matching pods; the last cell, for nodes without the key, is 0.

        The state keeps them up to date from then on, unless ``keep`` is false.
        """
        if self.counter < 0:
            counted = np.zeros(self.number_of_domains + 1, np.int64)
        elif self.rows is None:
            counted = state.counter(self.counter, self.constraint.topology_key, keep=keep)
        elif self.counts_beside:
            everywhere = state.counter(self.counter, self.constraint.topology_key, keep=keep)
            counted = np.zeros_like(everywhere)
            counted[self.populated] = everywhere[self.populated]
        else:
            pods = state.counter(self.counter, keep=keep)[self.rows]
            sums = np.bincount(self.values[self.rows], pods, self.number_of_domains + 1)
            counted = sums.astype(np.int64)
        return counted + self._nominated(state) if state.counted_nominated else counted

    def may_reject(self, state: ClusterState, nodes: IntArray) -> BoolArray:
        """(nodes,) which might reject a pod of the class that runs on each: those that would, perhaps more.

        Such a pod counts itself, in its domain or, as the one to place, beside it.
        """
        max_skew = self.constraint.max_skew
        counts = self.counts(state, keep=False)
        populated = counts[self.populated]
        few = len(populated) < self.constraint.min_domains
        least = 0 if few or not len(populated) else int(populated.min())
        beside = 0 if self.rows is None else self.itself
        too_many: BoolArray = counts + beside - least > max_skew
        too_many[-1] = True  # nodes without the key
        return too_many[self.values[nodes]]

    def _nominated(self, state: ClusterState) -> IntArray:
        """(domains + 1,) pods that count although they would not if they ran: those tried beside this one.

        The scheduler counts no pod that is terminating, and up to 1.37 none for an empty selector, but adds
        every nominated pod that the selector matches (podtopologyspread/filtering.go:181).
        """
        counts = np.zeros(self.number_of_domains + 1, np.int64)
        selector = self.constraint.selector
        if selector is None:
            return counts
        for kind, node, terminating in state.counted_nominated:
            pod = state.classes[kind]
            counting = self.values[node] >= 0 if self.rows is None else node in self.rows
            uncounted = terminating or self.counter < 0
            if counting and uncounted and pod.namespace == self.namespace and selector.matches(pod.labels):
                counts[self.values[node]] += 1
        return counts


@lru_cache(maxsize=64)
def _every_domain(number: int) -> IntArray:
    """(domains,) all of them; one array for all constraints of a topology key."""
    return np.arange(number)
