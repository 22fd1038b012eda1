"""Lists that ``kubectl get -o yaml`` prints, as the JSON that ``-o json`` would have printed.

A file may hold several documents, as of ``kubectl get nodes,pods -o yaml`` and of several such calls. Scalars
are those of kubectl: 0755 is an octal number, and a time is text. Reading YAML takes some hundred times as
long as reading JSON, so a file has to be small.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from rebalancer.documents import check_bounds
from rebalancer.documents.manifests import resolve_as_kubectl
from rebalancer.errors import InputError

WRITE_IT_WITH = "write it with: kubectl get KIND -A -o json"
MAX_YAML_BYTES = 64 << 20
MAX_EXPANDED_VALUES = 20_000_000  # with aliases written out
_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"


class _KubectlLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # chosen when it runs
    """Builds plain values, each plain scalar as kubectl reads it."""

    yaml_implicit_resolvers = {
        "<": [pair for pair in yaml.SafeLoader.yaml_implicit_resolvers["<"] if pair[0] == _MERGE]
    }


def _scalar(_loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    return node.value if node.style else resolve_as_kubectl(node.value)


_KubectlLoader.add_constructor(_TEXT, _scalar)


def documents_as_json(content: bytes, path: Path) -> Iterator[bytes]:
    """Each document of a YAML file as JSON, without empty ones; InputError for what is no YAML."""
    where = str(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text: byte {error.start}", where=where) from error
    check_bounds(text, where)
    try:
        for document in yaml.load_all(text, Loader=_KubectlLoader):
            if document is None:
                continue
            if _expanded_values(document, {}) > MAX_EXPANDED_VALUES:
                raise InputError(
                    f"its aliases stand for more than {MAX_EXPANDED_VALUES} values",
                    where=where,
                    hint=WRITE_IT_WITH,
                )
            yield msgspec.json.encode(document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
        raise InputError(
            f"is not valid YAML: {error.problem or error.context}", where=place, hint=WRITE_IT_WITH
        ) from error
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"is not YAML as kubectl writes it: {error}", where=where, hint=WRITE_IT_WITH
        ) from error


def _expanded_values(value: Any, counts_by_id: dict[int, int]) -> int:
    """How many values a document holds, each alias written out; ``counts_by_id`` are those counted so far."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) in counts_by_id:
        return counts_by_id[id(value)]
    counts_by_id[id(value)] = MAX_EXPANDED_VALUES  # of a part that holds itself, which has no end
    inner = value.values() if isinstance(value, dict) else value
    count = 1
    for part in inner:
        count += _expanded_values(part, counts_by_id)
    counts_by_id[id(value)] = count
    return count
