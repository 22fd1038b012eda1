"""Mutations that keep an input's outline: bytes changed at random rarely get past the first bracket.

A JSON value somewhere in the document is replaced, dropped, repeated or swapped for one from elsewhere in it:

    {"spec": {"nodeName": "n0"}}  ->  {"spec": {"nodeName": -1}}
"""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

from tests.fuzz.target import Mutate

_HOSTILE: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 1e308, -0.0, 5e-324, 10**30,
    "", " ", "0", "-1", "1e999", "NaN", "Infinity", "9" * 40, "1Ki", "100m", "1.5", "\x1b[2J", "\u202e",
    "\x00", "\ud7ff", "a" * 300, "../..", "2026-11-20T12:00:00Z", "9999-12-31T23:59:59.999999999Z",
    "0001-01-01T00:00:00Z",
    "yes", "null", "15s", "10%", "http://[", [], {}, [None], {"": None}, [[[[[]]]]],
)  # fmt: skip
_MAX_CHANGES = 4
_MAX_PLACES = 5000
_ITEM = re.compile(rb'(.*?"items":\[)?(\{.*?\})(,|\]\}|)')  # a line of what snapshot save writes


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every ``(container, key)``; ValueError when there are too many, as YAML aliases can make them."""
    found: list[tuple[Any, Any]] = []
    left = [value]
    while left:
        item = left.pop()
        keys = item if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        for key in list(keys):
            found.append((item, key))
            left.append(item[key])
        if len(found) > _MAX_PLACES:
            raise ValueError("too large to be mutated")
    return found


def _change(document: Any, random: Random) -> None:
    places = _places(document)
    if not places:
        return
    container, key = random.choice(places)
    action = random.randrange(6)
    if action == 0:
        del container[key]
    elif action == 1:
        other, place = random.choice(places)
        container[key] = json.loads(json.dumps(other[place])) if place in _keys(other) else None
    elif action == 2 and isinstance(container, list):
        container.extend([container[key]] * random.randrange(1, 20))
    elif action == 3 and isinstance(container, dict):
        container[f"{key}{random.choice(['', 's', ' ', chr(27)])}"] = container[key]
    else:
        container[key] = random.choice(_HOSTILE)


def _keys(container: Any) -> Any:
    return container if isinstance(container, dict) else range(len(container))


def mutate_value(document: Any, random: Random) -> Any:
    """The document with one to four changes."""
    holder = [document]
    for _ in range(random.randint(1, _MAX_CHANGES)):
        _change(holder, random)
        if not holder:
            holder = [random.choice(_HOSTILE)]
    return holder[0]


def json_structure(indent: int | None = None) -> Mutate:
    """Mutates JSON, written again in this layout."""

    def mutate(content: bytes, max_bytes: int, random: Random) -> bytes | None:
        try:
            document = json.loads(content)
            changed = json.dumps(mutate_value(document, random), indent=indent).encode()
        except (ValueError, RecursionError):
            return None
        return changed if len(changed) <= max_bytes else None

    return mutate


def yaml_structure(content: bytes, max_bytes: int, random: Random) -> bytes | None:
    """Mutates YAML, written again in block style."""
    import yaml

    try:
        document = yaml.safe_load(content)
        changed = yaml.safe_dump(mutate_value(document, random), allow_unicode=True).encode()
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError):
        return None
    return changed if len(changed) <= max_bytes else None


def line_structure(content: bytes, max_bytes: int, random: Random) -> bytes | None:
    """Mutates the JSON of one line, and leaves the lines as they are."""
    lines = content.split(b"\n")
    place = random.randrange(len(lines))
    found = _ITEM.fullmatch(lines[place])
    if found is None:
        return None
    try:
        document = json.loads(found[2])
        item = json.dumps(mutate_value(document, random), separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return None
    lines[place] = (found[1] or b"") + item + found[3]
    changed = b"\n".join(lines)
    return changed if len(changed) <= max_bytes else None
