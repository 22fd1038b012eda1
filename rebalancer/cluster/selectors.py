"""Label selectors as the API server reads them: the only place that decides what a selector selects.

Also as people write them after ``-l`` and ``--field-selector``, and clients in queries:

    app=web,tier in (front,back),!canary       →  three requirements on labels, all of which must hold
    spec.nodeName=node-1,metadata.name!=web-0  →  two on fields
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from rebalancer.cluster.records import LabelSelector, Requirement

Matcher = Callable[[Mapping[str, str]], bool]
Pair = tuple[str, str]

_NO_LABELS: dict[str, str] = {}


class LabelMatch(msgspec.Struct, frozen=True):
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


def canonical(selector: LabelSelector) -> LabelMatch:
    """A selector in canonical form, in which equal ones are equal; ValueError for a malformed one."""
    requirements = selector.match_expressions or ()
    for requirement in requirements:
        if not requirement.key:
            raise ValueError("a selector expression has no key")
        if requirement.operator in ("In", "NotIn"):
            if not requirement.values:
                raise ValueError(f"operator {requirement.operator} of {requirement.key!r} needs values")
        elif requirement.operator in ("Exists", "DoesNotExist"):
            if requirement.values:
                raise ValueError(f"operator {requirement.operator} of {requirement.key!r} takes no values")
        else:
            raise ValueError(f"{requirement.operator!r} is not a selector operator")
    expressions = (
        (requirement.key, requirement.operator, frozenset(requirement.values or ()))
        for requirement in requirements
    )
    pairs = (selector.match_labels or _NO_LABELS).items()
    return LabelMatch(tuple(sorted(pairs)), tuple(dict.fromkeys(expressions)))


def matcher(selector: LabelSelector | None) -> Matcher:
    """A predicate over labels: nil matches nothing, {} everything; ValueError for a malformed selector."""
    if selector is None:
        return lambda _labels: False
    return canonical(selector).matches


def matcher_of(selector: object) -> Matcher:
    """As ``matcher``, of a selector in decoded JSON; ValueError also for one of another shape."""
    return matcher(msgspec.convert(selector, LabelSelector | None))


def query(selector: LabelSelector) -> str:
    """A selector as the query of a LIST; ValueError for a malformed one.

    For example ``app=web,tier in (front,back),!canary``.
    """
    canonical(selector)  # refuses a malformed one
    parts = [f"{key}={value}" for key, value in sorted((selector.match_labels or _NO_LABELS).items())]
    for requirement in selector.match_expressions or ():
        values = requirement.values or ()
        form = _QUERIES[requirement.operator]
        if len(values) == 1:  # as most are written, and an empty value is seen to be one
            form = _QUERIES_OF_ONE[requirement.operator]
        parts.append(form.format(requirement.key, ",".join(values)))
    return ",".join(parts)


_QUERIES = {"In": "{} in ({})", "NotIn": "{} notin ({})", "Exists": "{}", "DoesNotExist": "!{}"}
_QUERIES_OF_ONE = {"In": "{}={}", "NotIn": "{}!={}"}


def is_empty(selector: LabelSelector | None) -> bool:
    """Whether a selector is present and selects everything."""
    return selector is not None and not selector.match_labels and not selector.match_expressions


_NAME = r"[^=!<>\s,()]"  # a character of a key or of a value
_SET = re.compile(rf"({_NAME}++)\s++(in|notin)\s*+\(\s*+({_NAME}*+(?:\s*+,\s*+{_NAME}*+)*+)\s*+\)")
_EQUALITY = re.compile(rf"({_NAME}++)\s*+(==|=|!=)\s*+({_NAME}*+)")
_EXISTS = re.compile(rf"(!?)\s*+({_NAME}++)")


class FieldRequirement(msgspec.Struct, frozen=True):
    """One field that must have a value, or must not."""

    path: str
    value: str
    equal: bool = True


def parse_labels(text: str) -> LabelSelector:
    """The selector, equality-based or set-based; ValueError names the part that is none."""
    return LabelSelector(match_expressions=[_requirement(part) for part in _split(text)])


def parse_fields(text: str) -> tuple[FieldRequirement, ...]:
    """The requirements on fields, all of which must hold; ValueError names the part that is none."""
    requirements = []
    for part in _split(text):
        match = _EQUALITY.fullmatch(part)
        if match is None:
            raise ValueError(f"invalid selector: {part[:60]!a} is not FIELD=VALUE")
        requirements.append(FieldRequirement(match[1], match[3], match[2] != "!="))
    return tuple(requirements)


def fields_match(requirements: tuple[FieldRequirement, ...], fields: Mapping[str, str]) -> bool:
    """Whether an object with these fields fulfils all requirements."""
    return all(
        (fields.get(requirement.path, "") == requirement.value) == requirement.equal
        for requirement in requirements
    )


def _split(text: str) -> list[str]:
    """Cut at the commas that are not inside parentheses."""
    parts = []
    depth = 0
    start = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        values = [value.strip() for value in match[3].split(",")]
        return Requirement(match[1], "In" if match[2] == "in" else "NotIn", values)
    if match := _EQUALITY.fullmatch(part):
        return Requirement(match[1], "NotIn" if match[2] == "!=" else "In", [match[3]])
    if match := _EXISTS.fullmatch(part):
        return Requirement(match[2], "DoesNotExist" if match[1] else "Exists")
    raise ValueError(f"unable to parse requirement: found {part[:60]!a}, expected: a label selector")
