"""Generates docs/policy.md: every key of a policy with its unit, default and meaning, from the schema.

An entry of the schema becomes a row. A key that holds further keys becomes a row of its own and one for each
of them, with the path that leads there: ``limits.perRun``, ``hotNodes.pools[].name``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rebalancer.policy import schema

Entry = dict[str, Any]

_HEAD = """\
# Every key of a policy

This page is generated from the policy's schema. `rebalancer policy init` prints a commented policy to start
from, `rebalancer policy schema` prints the schema itself, for completion and checks in an editor, and
`rebalancer policy show FILE` prints a policy with every default filled in. A key whose default is "required"
must be given where the keys around it are. Durations are written as `90s`, `15m` or `1h30m`.

The first lines of a policy are always these:

```yaml
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
```
"""
_SKIPPED = ("apiVersion", "kind")
_DURATION = "duration"


def policy_page() -> str:
    """The page as Markdown."""
    whole = schema()
    parts = [_HEAD]
    for name, entry in whole["properties"].items():
        if name in _SKIPPED:
            continue
        meaning = entry.get("description") or _resolved(entry, whole).get("description", "")
        rows = "".join(_row(*row) for row in _rows(name, entry, whole))
        parts.append(
            f"## {name}\n\n{meaning}\n\n| key | value | default | meaning |\n|---|---|---|---|\n{rows}"
        )
    return "\n".join(parts)


def paths() -> list[str]:
    """The path of every key that the page documents."""
    whole = schema()
    items = whole["properties"].items()
    return [row[0] for name, entry in items if name not in _SKIPPED for row in _rows(name, entry, whole)]


def _row(path: str, entry: Entry, unit: str, default: str) -> str:
    meaning = str(entry.get("description", "")).replace("|", "\\|").replace("\n", " ")
    return f"| `{path}` | {unit} | {default} | {meaning} |\n"


def _rows(path: str, entry: Entry, whole: Entry) -> Iterator[tuple[str, Entry, str, str]]:
    """The keys below a path: path, entry, value in words, default."""
    found = _resolved(entry, whole)
    required = found.get("required", ())
    for name, inner in found.get("properties", {}).items():
        place = f"{path}.{name}"
        value = _value(inner, whole)
        yield place, inner, value, _default(inner, value, required=name in required)
        for suffix, part in _parts(inner, whole):
            yield from _rows(place + suffix, part, whole)


def _parts(entry: Entry, whole: Entry) -> Iterator[tuple[str, Entry]]:
    """What of a value holds further keys, and what its path is continued with."""
    found = _resolved(entry, whole)
    if "properties" in found:
        yield "", found
    for choice in _choices(found):
        yield from _parts(choice, whole)
    if isinstance(items := found.get("items"), dict):
        for suffix, part in _parts(items, whole):
            yield f"[]{suffix}", part
    patterns: dict[str, Entry] = found.get("patternProperties", {})
    for inner in (found.get("additionalProperties"), *patterns.values()):
        if isinstance(inner, dict):
            for suffix, part in _parts(inner, whole):
                yield f".NAME{suffix}", part


def _resolved(entry: Entry, whole: Entry) -> Entry:
    if "$ref" not in entry:
        return entry
    found: Entry = whole["$defs"][entry["$ref"].removeprefix("#/$defs/")]
    return found


def _choices(found: Entry) -> list[Entry]:
    return [*found.get("anyOf", ()), *found.get("oneOf", ())]


def _default(entry: Entry, value: str, *, required: bool) -> str:
    if required:
        return "required"
    default = entry.get("default", {} if value.startswith("map") else None)
    if default is None:
        return "not set"
    if isinstance(default, dict) and value.startswith("keys"):
        return "not set" if not default else "below"
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    shown = default if isinstance(default, str) and default else json.dumps(default)
    return f"`{shown}`".replace("|", "\\|")


def _value(entry: Entry, whole: Entry) -> str:
    found = _resolved(entry, whole)
    if choices := [item for item in _choices(found) if item.get("type") != "null"]:
        return " or ".join(dict.fromkeys(_value(item, whole) for item in choices))
    if "const" in found:
        return f"`{found['const']}`"
    if "enum" in found:
        return "one of " + ", ".join(f"`{item}`" for item in found["enum"])
    match found.get("type"):
        case "boolean":
            return "`true` or `false`"
        case "integer":
            return f"whole number{_bounds(found)}"
        case "number":
            return f"number{_bounds(found)}"
        case "array":
            return f"list of {_value(found.get('items', {}), whole)}"
        case "object":
            return _mapping(found, whole)
        case "string":
            return _text(str(found.get("pattern", "")))
    return "any value"


def _mapping(found: Entry, whole: Entry) -> str:
    if "patternProperties" in found:
        inner = next(iter(found["patternProperties"].values()))
        return f"map of resource to {_value(inner, whole)}"
    if isinstance(inner := found.get("additionalProperties"), dict):
        return f"map of name to {_value(inner, whole)}"
    return "keys below" if "properties" in found else "map"


def _text(pattern: str) -> str:
    """A text by what its pattern allows."""
    if "ms)?$" in pattern:
        return _DURATION
    if pattern.endswith("%$"):
        return "percentage"
    if pattern.endswith("%?$"):
        return "number or percentage"
    if pattern.startswith("^https?://"):
        return "URL"
    return "time of day" if ":[0-5]" in pattern else "text"


def _bounds(found: Entry) -> str:
    words = [
        f"{word} {found[name]}"
        for name, word in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "above"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "below"),
        )
        if name in found
    ]
    return ", " + ", ".join(words) if words else ""
