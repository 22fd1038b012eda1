"""Which pods a term or constraint selects, in a form that makes equal ones one, and indexes both ways."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from rebalancer.cluster.records import LabelSelector
from rebalancer.cluster.selectors import matcher

Pair = tuple[str, str]
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class LabelMatch:
    """A label selector in canonical form: all pairs and all expressions must hold; without any, all match."""

    pairs: tuple[Pair, ...] = ()
    expressions: tuple[tuple[str, str, frozenset[str]], ...] = ()  # key, operator, values

    @property
    def is_empty(self) -> bool:
        """Whether it selects everything."""
        return not self.pairs and not self.expressions

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy every requirement."""
        for key, value in self.pairs:
            if labels.get(key) != value:
                return False
        for key, operator, values in self.expressions:
            own = labels.get(key)
            if operator in ("In", "Exists"):
                if own is None or (operator == "In" and own not in values):
                    return False
            elif own is not None and (operator == "DoesNotExist" or own in values):
                return False
        return True

    def also(self, pairs: Iterable[Pair]) -> LabelMatch:
        """The same with more pairs required."""
        return LabelMatch(tuple(sorted({*self.pairs, *pairs})), self.expressions)

    def and_also(self, other: LabelMatch) -> LabelMatch:
        """Both."""
        return LabelMatch(
            tuple(sorted({*self.pairs, *other.pairs})),
            tuple(dict.fromkeys((*self.expressions, *other.expressions))),
        )


EVERYTHING = LabelMatch()


def label_match(selector: LabelSelector | None) -> LabelMatch | None:
    """A selector in canonical form; None, which matches nothing, for nil and for a malformed one."""
    if selector is None:
        return None
    try:
        matcher(selector)
    except ValueError:
        return None
    expressions = tuple(
        (item.key, item.operator, frozenset(item.values or ())) for item in selector.match_expressions or ()
    )
    return LabelMatch(tuple(sorted((selector.match_labels or {}).items())), tuple(dict.fromkeys(expressions)))


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
