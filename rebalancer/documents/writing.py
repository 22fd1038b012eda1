"""Plain values to YAML that this package, and every other reader, reads back as the same value."""

from __future__ import annotations

from typing import Any

import yaml

from rebalancer.documents.scalars import ScalarError, resolve


class _Dumper(yaml.SafeDumper):
    """Quotes every text that some reader would not read as text."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - yaml's
        """Indent the items of a list below their key."""
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    try:
        plain = resolve(text) == text
    except ScalarError:
        plain = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def to_yaml(value: Any) -> str:
    """A plain value as block YAML, keys in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
