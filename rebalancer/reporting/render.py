"""Encodes a value in the format that ``-o`` names.

JSON is the value's own encoding, YAML holds the same data, and a table is for people. Equal values give equal
bytes, so that two outputs can be compared with ``diff``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from rich.text import Text


class Format(StrEnum):
    """The formats that ``-o`` accepts."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


# Characters that JSON allows in a string although a terminal may act on them: DEL, C1 controls, and those
# that change the direction of text or are invisible.
_TERMINAL_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def to_json(value: Any) -> str:
    """One line of JSON with a newline at its end, of msgspec structs, dataclasses, maps and lists."""
    text = msgspec.json.encode(value, order="deterministic").decode()
    return _TERMINAL_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def to_yaml(value: Any) -> str:
    """The data of ``to_json`` as YAML."""
    from rebalancer import documents  # noqa: PLC0415 - only YAML needs it

    encoded = to_json(value)
    text = documents.to_yaml(msgspec.json.decode(encoded))
    # YAML cannot escape these characters in every position. JSON can, and is valid YAML.
    return encoded if _TERMINAL_CONTROLS.search(text) else text


ENCODERS: Mapping[Format, Callable[[Any], str]] = {Format.JSON: to_json, Format.YAML: to_yaml}


def render(value: Any, output_format: Format, table: Callable[[], Text]) -> str | Text:
    """The value in a machine format, or else the table that ``table`` returns."""
    encoder = ENCODERS.get(output_format)
    return encoder(value) if encoder else table()
