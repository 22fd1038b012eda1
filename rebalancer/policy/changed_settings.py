"""The keys by which two policies differ, so that a changed plan can be laid to what was changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rebalancer.documents import Path, format_path
from rebalancer.policy.policy_file import shown
from rebalancer.policy.schema import RebalancePolicy

_ABSENT = object()


def changed_settings(one: RebalancePolicy, other: RebalancePolicy) -> tuple[tuple[str, str, str], ...]:
    """Key, value of the first and of the second policy, defaults filled in and secrets redacted.

    An absent value is empty. What is only a name, such as ``metadata.name``, is not a setting.
    """
    first, second = shown(one)[0], shown(other)[0]
    for value in (first, second):
        value.pop("metadata", None)
    return tuple(
        (format_path(path), _written(before), _written(after))
        for path, before, after in _differences(first, second, ())
    )


def _differences(one: Any, other: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from _differences(one.get(key, _ABSENT), other.get(key, _ABSENT), (*path, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other) and _maps(one, other):
        for position, (before, after) in enumerate(zip(one, other, strict=True)):
            yield from _differences(before, after, (*path, position))
    elif one != other:
        yield path, one, other


def _maps(one: list[Any], other: list[Any]) -> bool:
    return all(isinstance(item, dict) for item in (*one, *other))


def _written(value: Any) -> str:
    if value is _ABSENT:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
