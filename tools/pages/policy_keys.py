"""Generates docs/policy.md: every key of a policy with its unit, default and meaning, from the schema.

An entry of the schema becomes a row. A key that holds further keys becomes a row of its own and one for each
of them, with the path that leads there: ``limits.perRun``, ``hotNodes.pools[].name``. Keys that stand in
several places, or mean the same as one of their name, are listed at the first, to which the others refer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from rebalancer.policy.policy_file import schema

Entry = dict[str, Any]

_HEAD = """\
# Every key of a policy

[Writing a policy](tuning.md) says how to start. `rebalancer policy show FILE` prints a policy with every
default filled in, and `rebalancer policy schema` the JSON schema for editors.

* The second column is the default. *Or* separates it from other values. *E.g.* means that there is no
  default, or an empty one, and shows a value.
* Durations are written as `90s`, `15m` or `1h30m`. A percentage of pods or nodes is rounded up.
* Keys that mean the same in several places are explained at the first of them.

A policy begins with:

```yaml
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
```
"""
EXAMPLES = Path(__file__).with_name("policy_examples.yaml")
_SKIPPED = ("apiVersion", "kind")
_DURATION = "duration"
_SHARE = "percentage"
Row = tuple[str, Entry, str, str]  # path, entry, value in words, default
_NOTHING = ("unset", "required", "`[]`", "`{}`", '`""`')  # defaults that show nothing of the value
_NO_DEFAULT = (*_NOTHING, "below", "as there")


def policy_page() -> str:
    """The page as Markdown."""
    whole = schema()
    shown = examples()
    parts = [_HEAD]
    listed: dict[int, str] = {}
    first_places: dict[tuple[str, ...], str] = {}
    for name, entry in whole["properties"].items():
        if name in _SKIPPED:
            continue
        meaning = entry.get("description") or _resolved(entry, whole).get("description", "")
        rows = "".join(_table(_rows(name, entry, whole, listed), shown, first_places))
        parts.append(f"## {name}\n\n{meaning}\n\n| key | default | meaning |\n|---|---|---|\n{rows}")
    return "\n".join(parts)


def paths() -> list[str]:
    """The path of every key that the page documents."""
    whole = schema()
    items = whole["properties"].items()
    return [row[0] for name, entry in items if name not in _SKIPPED for row in _rows(name, entry, whole)]


def examples() -> dict[str, Any]:
    """By path of a key, a value that the policies of examples have there: the first of them."""
    value_by_path: dict[str, Any] = {}
    for document in yaml.safe_load_all(EXAMPLES.read_text()):
        for path, value in _values(document):
            value_by_path.setdefault(path, value)
    return value_by_path


def _values(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value below a path, by the path of its key and, in a map of names, by that of any name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            for name in (str(key), "NAME"):
                place = f"{path}.{name}" if path else name
                yield place, inner
                yield from _values(inner, place)
    elif isinstance(value, list):
        for inner in value:
            yield from _values(inner, f"{path}[]")


def _table(
    rows: Iterable[Row], shown: dict[str, Any], first_places: dict[tuple[str, ...], str]
) -> Iterator[str]:
    """The rows of a table; those that say what the keys of another path say are one that names it.

    ``first_places`` is the path of each key that was explained, by its name, value, default and meaning.
    """

    def explained(row: Row) -> str:
        path, entry, unit, default = row
        parent, _, name = path.rpartition(".")
        return first_places.setdefault((name, unit, default, entry.get("description", "")), parent)

    for (same, parent), group in groupby(rows, lambda row: (explained(row), row[0].rpartition(".")[0])):
        if same == parent:
            yield from (_row(*row, example=shown.get(row[0])) for row in group)
        else:
            keys = ", ".join(_code(row[0]) for row in group)
            yield f"| {keys} | as in `{same}` | |\n"


def _row(path: str, entry: Entry, unit: str, default: str, *, example: Any) -> str:
    meaning = str(entry.get("description", "")).replace("|", "\\|").replace("\n", " ")
    return f"| `{path}` | {_cell(entry, unit, default, example)} | {meaning} |\n"


def _cell(entry: Entry, unit: str, default: str, example: Any) -> str:
    """The default of a key and its other values, or an example, or where its keys are listed."""
    if "keys of" in unit or ("keys below" in unit and default in _NO_DEFAULT):
        return unit
    if "keys below" in unit:
        return f"{default} or keys below"
    if default in _NOTHING:
        text = _code(_flow(example)) if example is not None else _other(entry, unit)
        required = "required, " if default == "required" else ""
        return f"{required}e.g. {text}" if text else default
    others = [_code(value) for value in _values_of(entry) if value not in default]
    return " or ".join([default, *others])


def _values_of(entry: Entry) -> list[str]:
    """The values that a key, or each item of its list, may have where they are named one by one."""
    items = entry.get("items", entry)
    return [str(value) for value in items.get("enum", ())]


def _other(entry: Entry, unit: str) -> str:
    """An example of a key that the policies of examples lack: what is not the default, else nothing."""
    default = entry.get("default")
    if isinstance(default, bool):
        return _code(_flow(not default))
    choices = [choice for choice in entry.get("enum", ()) if choice != default]
    return _code(str(choices[0])) if choices and unit.startswith("one of") else ""


def _flow(value: Any) -> str:
    """A value as it stands on one line of a policy."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _rows(path: str, entry: Entry, whole: Entry, listed: dict[int, str] | None = None) -> Iterator[Row]:
    """The keys below a path: path, entry, value in words, default.

    ``listed`` is where the keys of an entry stand already, by the identity of the entry; without it they are
    listed everywhere. Of a value that may be a list of such values, the keys of one are listed.
    """
    resolved = _resolved(entry, whole)
    if choices := _choices(resolved):
        resolved = _resolved(choices[0], whole)
    required = resolved.get("required", ())
    for name, inner in resolved.get("properties", {}).items():
        place = f"{path}.{name}"
        value = _value(inner, whole)
        parts = list(_parts(inner, whole))
        default = _default(inner, value, required=name in required)
        first = listed.get(id(parts[0][1])) if listed and value.endswith("keys below") else None
        if first:
            value = value.replace("keys below", f"keys of `{first}`")
            default = "as there" if default == "below" else default
        yield place, inner, value, default
        for suffix, part in () if first else parts:
            if listed is not None:
                listed.setdefault(id(part), place + suffix)
            yield from _rows(place + suffix, part, whole, listed)


def _parts(entry: Entry, whole: Entry) -> Iterator[tuple[str, Entry]]:
    """What of a value holds further keys, and what its path is continued with."""
    resolved = _resolved(entry, whole)
    if "properties" in resolved:
        yield "", resolved
    for choice in _choices(resolved):
        yield from _parts(choice, whole)
    if isinstance(items := resolved.get("items"), dict):
        for suffix, part in _parts(items, whole):
            yield f"[]{suffix}", part
    patterns: dict[str, Entry] = resolved.get("patternProperties", {})
    for inner in (resolved.get("additionalProperties"), *patterns.values()):
        if isinstance(inner, dict):
            for suffix, part in _parts(inner, whole):
                yield f".NAME{suffix}", part


def _resolved(entry: Entry, whole: Entry) -> Entry:
    if "$ref" not in entry:
        return entry
    definition: Entry = whole["$defs"][entry["$ref"].removeprefix("#/$defs/")]
    return definition


def _choices(entry: Entry) -> list[Entry]:
    return [*entry.get("anyOf", ()), *entry.get("oneOf", ())]


def _default(entry: Entry, value: str, *, required: bool) -> str:
    if required:
        return "required"
    default = entry.get("default", {} if value.startswith("map") else None)
    if default is None:
        return "unset"
    if isinstance(default, dict) and value.startswith("keys"):
        return "unset" if not default else "below"
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    if isinstance(default, list | dict) and default:
        return _code(_flow(default))
    return _code(default if isinstance(default, str) and default else json.dumps(default))


def _value(entry: Entry, whole: Entry) -> str:
    resolved = _resolved(entry, whole)
    if choices := [choice for choice in _choices(resolved) if choice.get("type") != "null"]:
        values = list(dict.fromkeys(_value(choice, whole) for choice in choices))
        numbers = [value for value in values if value.startswith("number ")]
        return _SHARE if numbers and values != numbers else " or ".join(values)
    if "const" in resolved:
        return f"`{resolved['const']}`"
    if "enum" in resolved:
        return "one of " + ", ".join(f"`{choice}`" for choice in resolved["enum"])
    match resolved.get("type"):
        case "boolean":
            return "switch"
        case "integer":
            return f"whole number{_bounds(resolved)}"
        case "number":
            return f"number{_bounds(resolved)}"
        case "array":
            return f"list of {_value(resolved.get('items', {}), whole)}"
        case "object":
            return _mapping(resolved, whole)
        case "string":
            return _text(str(resolved.get("pattern", "")))
    return "any value"


def _mapping(entry: Entry, whole: Entry) -> str:
    if "patternProperties" in entry:
        inner = next(iter(entry["patternProperties"].values()))
        return f"map of resource to {_value(inner, whole)}"
    if isinstance(inner := entry.get("additionalProperties"), dict):
        return f"map of name to {_value(inner, whole)}"
    return "keys below" if "properties" in entry else "map"


def _text(pattern: str) -> str:
    """A text by what its pattern allows."""
    if "ms)?$" in pattern:
        return _DURATION
    if pattern.endswith("%$"):
        return "percentage"
    if pattern.endswith("%?$"):
        return _SHARE
    if pattern.startswith("^https?://"):
        return "URL"
    return "time of day" if ":[0-5]" in pattern else "text"


def _bounds(entry: Entry) -> str:
    least = entry.get("minimum")
    largest = entry.get("maximum", entry.get("exclusiveMaximum"))
    below = "below " if "exclusiveMaximum" in entry else ""
    if "exclusiveMinimum" in entry:
        return f" above {entry['exclusiveMinimum']}" + (
            f" to {below}{largest}" if largest is not None else ""
        )
    if least is None:
        return f" to {below}{largest}" if largest is not None else ""
    return f" from {least}" + (f" to {below}{largest}" if largest is not None else "")
