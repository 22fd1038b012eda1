"""Which pods a term or constraint selects, in a form that makes equal ones one, and indexes both ways."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from rebalancer.cluster.records import LabelSelector
from rebalancer.cluster.selectors import LabelMatch, Pair, canonical

T = TypeVar("T", bound=Hashable)


EVERYTHING = LabelMatch()


def label_match(selector: LabelSelector | None) -> LabelMatch | None:
    """A selector in canonical form; None, which matches nothing, for nil and for a malformed one."""
    if selector is None:
        return None
    try:
        return canonical(selector)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods of some namespaces whose labels match."""

    namespaces: frozenset[str] | None  # None: of every namespace
    labels: LabelMatch | None  # None: nothing

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod is selected."""
        if self.labels is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        return self.labels.matches(labels)

    @property
    def places(self) -> Iterator[tuple[str | None, Pair | None]]:
        """Where an index files it: by namespace, and by one of the pairs every selected pod carries."""
        if self.labels is None:
            return
        pair = self.labels.pairs[0] if self.labels.pairs else None
        for namespace in (None,) if self.namespaces is None else sorted(self.namespaces):
            yield namespace, pair


class SelectorIndex(Generic[T]):
    """Finds the selectors that may select a pod without trying them all."""

    def __init__(self) -> None:
        self._filed: dict[tuple[str | None, Pair | None], dict[T, None]] = {}

    def add(self, selector: PodSelector, item: T) -> None:
        """File an item under its selector."""
        for place in selector.places:
            self._filed.setdefault(place, {})[item] = None

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[T]:
        """Items whose selector may select a pod: each once, in a fixed order."""
        if not self._filed:
            return
        seen: dict[T, None] = {}
        for where in (None, namespace):
            for pair in (None, *labels.items()):
                seen.update(self._filed.get((where, pair), {}))
        yield from seen


class ClassIndex:
    """Finds the pod classes that a selector may select without trying them all."""

    def __init__(self) -> None:
        self._filed: dict[tuple[str | None, Pair | None], list[int]] = {}

    def add(self, class_index: int, namespace: str, labels: Mapping[str, str]) -> None:
        """File a class."""
        for where in (None, namespace):
            for pair in (None, *labels.items()):
                self._filed.setdefault((where, pair), []).append(class_index)

    def candidates(self, selector: PodSelector) -> list[int]:
        """Classes that may be selected, ascending."""
        found = {item for place in selector.places for item in self._filed.get(place, ())}
        return sorted(found)
