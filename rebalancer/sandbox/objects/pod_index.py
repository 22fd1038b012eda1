"""Finds the pods of a controller and the pods on a node without a walk over all pods."""

from __future__ import annotations

from rebalancer.sandbox.objects.accessors import Object, controller_of, key_of, node_of
from rebalancer.sandbox.objects.change_log import Key


class PodIndex:
    """The keys of pods by their controller's uid and by their node, oldest entry first."""

    def __init__(self) -> None:
        self._by_owner: dict[str, dict[Key, None]] = {}
        self._by_node: dict[str, dict[Key, None]] = {}

    def add(self, pod: Object) -> None:
        """Enter a pod under its controller and its node, where it has them."""
        owner = controller_of(pod)
        if owner is not None:
            self._by_owner.setdefault(owner["uid"], {})[key_of(pod)] = None
        if node_of(pod):
            self._by_node.setdefault(node_of(pod), {})[key_of(pod)] = None

    def discard(self, pod: Object) -> None:
        """Take out what ``add`` of this version of the pod entered."""
        owner = controller_of(pod)
        if owner is not None:
            self._by_owner.get(owner["uid"], {}).pop(key_of(pod), None)
        if node_of(pod):
            self._by_node.get(node_of(pod), {}).pop(key_of(pod), None)

    def of_owner(self, uid: str) -> list[Key]:
        """The pods whose controller has that uid."""
        return list(self._by_owner.get(uid, ()))

    def on_node(self, node: str) -> list[Key]:
        """The pods bound to that node."""
        return list(self._by_node.get(node, ()))
