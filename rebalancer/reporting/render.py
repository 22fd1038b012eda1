"""Encodes a value in the format that ``-o`` names.

JSON is the value's own encoding, YAML holds the same data, and a table is for people. Equal values give equal
bytes, so that two outputs can be compared with ``diff``. Names, CSV and Parquet list the rows of the main
table.
"""

from __future__ import annotations

import io
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from rebalancer.reporting.jsonpath import parse_template
from rebalancer.reporting.words import words
from rebalancer.safe_text import TERMINAL_CONTROLS, safe_json

if TYPE_CHECKING:
    from pandas import DataFrame


class Format(StrEnum):
    """The formats that ``-o`` accepts."""

    TABLE = "table"
    WIDE = "wide"  # a table of whole names and more columns
    NAME = "name"  # kind/name, one a line
    MARKDOWN = "markdown"  # a table for a pull request
    JSON = "json"
    YAML = "yaml"
    JSONPATH = "jsonpath"  # =TEMPLATE: the values that kubectl's template language names
    CSV = "csv"
    PARQUET = "parquet"  # binary, for data frames
    HTML = "html"  # a page to attach to a change request


TABLES = frozenset({Format.TABLE, Format.WIDE, Format.MARKDOWN})
DOCUMENTS = frozenset({Format.JSON, Format.YAML, Format.JSONPATH})  # the whole value, for programs


def to_json(value: Any, *, indent: int = 0) -> str:
    """JSON of msgspec structs, dataclasses, maps and lists, with a newline at its end."""
    encoded = msgspec.json.encode(value, order="deterministic")
    if indent:
        encoded = msgspec.json.format(encoded, indent=indent)
    return safe_json(encoded.decode()) + "\n"


def to_yaml(value: Any) -> str:
    """The data of ``to_json`` as YAML."""
    from rebalancer import documents  # noqa: PLC0415 - only YAML needs it

    encoded = to_json(value)
    text = documents.to_yaml(msgspec.json.decode(encoded))
    # YAML cannot escape these characters in every position. JSON can, and is valid YAML.
    return encoded if TERMINAL_CONTROLS.search(text) else text


def to_jsonpath(value: Any, template: str) -> str:
    """What a jsonpath template prints of the data of ``to_json``, with a newline at its end."""
    text = parse_template(template).render(msgspec.json.decode(msgspec.json.encode(value)))
    return text if not text or text.endswith("\n") else f"{text}\n"


def to_parquet(frame: DataFrame) -> bytes:
    """The rows as a Parquet file; ImportError where pyarrow, an optional library, is not installed."""
    stream = io.BytesIO()
    frame.to_parquet(stream, engine="pyarrow", index=False)
    return stream.getvalue()


def to_csv(frame: DataFrame) -> str:
    """The rows with a line of titles; text is safe for a terminal and for a spreadsheet."""
    text = frame.select_dtypes(["object", "string"]).columns
    text_of_rows: str = frame.assign(**{name: frame[name].map(_cell) for name in text}).to_csv(index=False)
    return text_of_rows


def _cell(value: Any) -> Any:
    """Text without control characters; what a spreadsheet would take for a formula is quoted as it does."""
    if not isinstance(value, str):
        return value
    text = words(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


_FORMULA = ("=", "+", "-", "@")
