"""Shrinks a case while it still shows what it was kept for: whole objects go first, then fields, then values.

Delta debugging on the JSON of the case. A step that makes the case invalid simply does not show the
difference any more, so nothing needs to be known about the objects but the fields without which they mean
something else.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

Case = dict[str, Any]
Path = tuple[str | int, ...]

MAX_TRIALS = 1500
# Without these an object is another one, or none: a term needs a topology key, a requirement an operator.
_KEPT = frozenset(
    {
        "id",
        "version",
        "featureGates",
        "family",
        "config",
        "objects",
        "pending",
        "metadata",
        "name",
        "namespace",
        "spec",
        "status",
        "containers",
        "key",
        "operator",
        "values",
        "topologyKey",
        "whenUnsatisfiable",
        "maxSkew",
        "weight",
        "schedulerName",
        "apiVersion",
        "kind",
        "profiles",
        "uid",
        "phase",
        "allocatable",
        "capacity",
        "nodeName",
        "provisioner",
        "volumeBindingMode",
        "driver",
        "selector",
    }
)


def shrink(case: Case, shows: Callable[[Case], bool]) -> Case:
    """The smallest case found that still ``shows`` what this one shows."""
    smallest = copy.deepcopy(case)
    smallest["config"] = (
        json.loads(smallest["config"]) if isinstance(smallest["config"], str) else smallest["config"]
    )
    trials = 0
    progress = True
    while progress and trials < MAX_TRIALS:
        progress = False
        for path in list(_removable(smallest)):
            if not _exists(smallest, path):
                continue
            candidate = _without(smallest, path)
            trials += 1
            if shows(_with_text(candidate)):
                smallest, progress = candidate, True
            if trials >= MAX_TRIALS:
                break
    return _with_text(smallest)


def _with_text(case: Case) -> Case:
    return case | {"config": json.dumps(case["config"])}


def _removable(value: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of what may go, larger things first, lists from their end."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in _KEPT:
                yield (*path, key)
            yield from _removable(item, (*path, key))
    elif isinstance(value, list):
        for index in reversed(range(len(value))):
            yield (*path, index)
            yield from _removable(value[index], (*path, index))


def _exists(value: Any, path: Path) -> bool:
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _without(case: Case, path: Path) -> Case:
    changed = copy.deepcopy(case)
    holder: Any = changed
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return changed
