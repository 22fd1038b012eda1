"""Encodes a value in the format that ``-o`` names.

JSON is the value's own encoding, YAML holds the same data, and a table is for people. Equal values give equal
bytes, so that two outputs can be compared with ``diff``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from rebalancer.safe_text import TERMINAL_CONTROLS, safe_json

if TYPE_CHECKING:
    from rich.text import Text


class Format(StrEnum):
    """The formats that ``-o`` accepts."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def to_json(value: Any) -> str:
    """One line of JSON with a newline at its end, of msgspec structs, dataclasses, maps and lists."""
    return safe_json(msgspec.json.encode(value, order="deterministic").decode()) + "\n"


def to_yaml(value: Any) -> str:
    """The data of ``to_json`` as YAML."""
    from rebalancer import documents  # noqa: PLC0415 - only YAML needs it

    encoded = to_json(value)
    text = documents.to_yaml(msgspec.json.decode(encoded))
    # YAML cannot escape these characters in every position. JSON can, and is valid YAML.
    return encoded if TERMINAL_CONTROLS.search(text) else text


ENCODERS: Mapping[Format, Callable[[Any], str]] = {Format.JSON: to_json, Format.YAML: to_yaml}


def render(value: Any, output_format: Format, table: Callable[[], Text]) -> str | Text:
    """The value in a machine format, or else the table that ``table`` returns."""
    encoder = ENCODERS.get(output_format)
    return encoder(value) if encoder else table()
