"""Label selectors as the API server reads them: the only place that decides what a selector selects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from rebalancer.cluster.records import LabelSelector, Requirement

Matcher = Callable[[Mapping[str, str]], bool]

_NO_LABELS: dict[str, str] = {}


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    values = requirement.values or ()
    match requirement.operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


def _check(requirement: Requirement) -> None:
    if not requirement.key:
        raise ValueError("a selector expression has no key")
    if requirement.operator in ("In", "NotIn"):
        if not requirement.values:
            raise ValueError(f"operator {requirement.operator} of {requirement.key!r} needs values")
    elif requirement.operator in ("Exists", "DoesNotExist"):
        if requirement.values:
            raise ValueError(f"operator {requirement.operator} of {requirement.key!r} takes no values")
    else:
        raise ValueError(f"{requirement.operator!r} is no selector operator")


def _matches_all(
    pairs: tuple[tuple[str, str], ...], requirements: tuple[Requirement, ...], labels: Mapping[str, str]
) -> bool:
    return all(labels.get(key) == value for key, value in pairs) and all(
        _holds(requirement, labels) for requirement in requirements
    )


def matcher(selector: LabelSelector | None) -> Matcher:
    """A predicate over labels: nil matches nothing, {} everything; ValueError for a malformed selector."""
    if selector is None:
        return lambda _labels: False
    pairs = tuple(sorted((selector.match_labels or _NO_LABELS).items()))
    requirements = tuple(selector.match_expressions or ())
    for requirement in requirements:
        _check(requirement)
    return partial(_matches_all, pairs, requirements)


def matcher_of(selector: object) -> Matcher:
    """As ``matcher``, of a selector in decoded JSON; ValueError also for one of another shape."""
    return matcher(msgspec.convert(selector, LabelSelector | None))


def query(selector: LabelSelector) -> str:
    """A selector as the query of a LIST; ValueError for a malformed one.

    For example ``app=web,tier in (front,back),!canary``.
    """
    matcher(selector)  # refuses a malformed one
    parts = [f"{key}={value}" for key, value in sorted((selector.match_labels or _NO_LABELS).items())]
    for requirement in selector.match_expressions or ():
        values = f"({','.join(requirement.values or ())})"
        parts.append(_QUERIES[requirement.operator].format(requirement.key, values))
    return ",".join(parts)


_QUERIES = {"In": "{} in {}", "NotIn": "{} notin {}", "Exists": "{}", "DoesNotExist": "!{}"}


def is_empty(selector: LabelSelector | None) -> bool:
    """Whether a selector is present and selects everything."""
    return selector is not None and not selector.match_labels and not selector.match_expressions
