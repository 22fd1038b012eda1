"""Values in the format that was asked for: a registry of formats.

JSON is the value's own encoding, YAML the same data, and a table what a person reads. Equal values give
equal bytes.
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
    """What ``-o`` takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


# What a terminal might obey although JSON admits it in a string: DEL, C1 controls, and the characters that
# change the direction of text.
_OBEYED = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def to_json(value: Any) -> str:
    """One line of JSON and a newline; msgspec structs, dataclasses, maps and lists."""
    text = msgspec.json.encode(value, order="deterministic").decode()
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def to_yaml(value: Any) -> str:
    """The data of ``to_json`` as YAML."""
    from rebalancer import documents  # noqa: PLC0415 - only YAML needs it

    encoded = to_json(value)
    text = documents.to_yaml(msgspec.json.decode(encoded))
    # YAML cannot escape everywhere what a terminal might obey; JSON can, and is YAML too.
    return encoded if _OBEYED.search(text) else text


ENCODERS: Mapping[Format, Callable[[Any], str]] = {Format.JSON: to_json, Format.YAML: to_yaml}


def render(value: Any, output_format: Format, table: Callable[[], Text]) -> str | Text:
    """The value as text in a machine format, else the table that ``table`` makes of it."""
    encoder = ENCODERS.get(output_format)
    return encoder(value) if encoder else table()
