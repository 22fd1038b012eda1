"""Rows of one type kept as columns: numbers packed into arrays, and what few rows have by row.

The type of the rows is a msgspec struct, and the annotation of a field says how its column is kept:

    class Pod(msgspec.Struct):
        name: str                               a tuple of texts
        node_name: Annotated[str, SHARED]       the same, where many rows have the same text
        created: float                          an array; likewise of int and of bool
        nominated: Annotated[str, FEW] = ""     {row: text} of the rows where it is not the default

Everything else (collecting, sorting, joining, digests) follows from that, so a new field is declared once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np

from rebalancer.cluster.arrays import BoolArray, FloatArray, IntArray

SHARED = "shared"  # equal texts are kept once
FEW = "few"  # most rows have the default
UNCOMPARED = "uncompared"  # how the row was read, which is no part of what it says
_BATCH = 1024  # rows that are turned into columns at once
_NUMBERS: dict[Any, tuple[str, type[np.generic]]] = {
    int: ("q", np.int64),
    float: ("d", np.float64),
    bool: ("b", np.bool_),
}
_encoder = msgspec.json.Encoder(order="deterministic")

Row = TypeVar("Row", bound=msgspec.Struct)
Value = TypeVar("Value")


class Few(dict[int, Value]):
    """Values by row, of the rows that have one; every other row has the default."""

    def __init__(self, values: Mapping[int, Value], default: Value) -> None:
        super().__init__(values)
        self.default = default

    def __missing__(self, row: int) -> Value:
        return self.default


class _Field(msgspec.Struct, frozen=True):
    """How the column of a field is kept."""

    name: str
    number: tuple[str, type[np.generic]] | None  # code of ``array`` and of numpy; None where it is no number
    marks: frozenset[str]
    default: Any

    def empty(self) -> Any:
        if self.number is not None:
            return array(self.number[0])
        return {} if FEW in self.marks else []

    def sealed(self, collected: Any) -> Any:
        """The column of what was collected; numbers stay where they are in memory."""
        if self.number is not None:
            return np.asarray(collected).view(self.number[1])
        return Few(collected, self.default) if FEW in self.marks else tuple(collected)

    def taken(self, column: Any, rows: IntArray, each: list[int], new_row: IntArray) -> Any:
        """The column of some rows, ``each`` of them; ``new_row`` is where a row goes, -1 for none."""
        if self.number is not None:
            return column[rows]
        if FEW not in self.marks:
            return tuple(map(column.__getitem__, each))
        places = sorted((int(new_row[row]), row) for row in column)
        return Few({place: column[row] for place, row in places if place >= 0}, self.default)

    def joined(self, first: Any, length: int, second: Any) -> Any:
        """The column of the rows of two, the first of which has so many."""
        if self.number is not None:
            return np.concatenate([first, second])
        if FEW not in self.marks:
            return first + second
        return Few({**first, **{length + row: value for row, value in second.items()}}, self.default)

    def written(self, column: Any) -> bytes:
        """The same bytes for the same values."""
        if self.number is not None:
            return bytes(column.tobytes())
        return _encoder.encode(sorted(column.items()) if FEW in self.marks else column)


@lru_cache(maxsize=16)
def _fields(row_type: type[msgspec.Struct]) -> tuple[_Field, ...]:
    hints = get_type_hints(row_type, include_extras=True)
    fields = []
    for column in msgspec.structs.fields(row_type):
        hint = hints[column.name]
        kind, *marks = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        made = column.default_factory
        default = column.default if made is msgspec.NODEFAULT else made()
        number = None if FEW in marks else _NUMBERS.get(kind)
        fields.append(_Field(column.name, number, frozenset(marks), default))
    return tuple(fields)


class Columns(Generic[Row]):
    """Rows of one type as columns; nothing of it ever changes."""

    def __init__(self, row_type: type[Row], columns: Mapping[str, Any]) -> None:
        self._type = row_type
        self._columns = columns
        self._length = len(columns[_fields(row_type)[0].name])

    def __len__(self) -> int:
        return self._length

    def texts(self, field: str) -> tuple[str, ...]:
        """(rows,) a field of texts."""
        column: tuple[str, ...] = self._columns[field]
        return column

    def integers(self, field: str) -> IntArray:
        """(rows,) a field of whole numbers."""
        return np.asarray(self._columns[field], np.int64)

    def floats(self, field: str) -> FloatArray:
        """(rows,) a field of numbers."""
        return np.asarray(self._columns[field], np.float64)

    def truths(self, field: str) -> BoolArray:
        """(rows,) a field of truths."""
        return np.asarray(self._columns[field], np.bool_)

    def few(self, field: str) -> Few[Any]:
        """By row: a field that few rows have."""
        column: Few[Any] = self._columns[field]
        return column

    def row(self, at: int) -> Row:
        """One row."""
        columns = self._columns.values()
        return self._type(
            *[column[at].item() if isinstance(column, np.ndarray) else column[at] for column in columns]
        )

    def rows(self) -> Iterator[Row]:
        """All rows, in order."""
        lists = [
            column.tolist() if isinstance(column, np.ndarray) else map(column.__getitem__, range(len(self)))
            for column in self._columns.values()
        ]
        return (self._type(*values) for values in zip(*lists, strict=True))

    def take(self, rows: IntArray) -> Columns[Row]:
        """Some of the rows, in this order."""
        if len(rows) == len(self) and np.array_equal(rows, np.arange(len(self))):
            return self
        new_row = np.full(len(self), -1, np.int64)
        new_row[rows] = np.arange(len(rows))
        each = rows.tolist()
        return Columns(
            self._type,
            {
                column.name: column.taken(self._columns[column.name], rows, each, new_row)
                for column in _fields(self._type)
            },
        )

    def joined(self, other: Columns[Row]) -> Columns[Row]:
        """These rows, and then the others."""
        mine = self._columns
        theirs = other._columns
        return Columns(
            self._type,
            {
                column.name: column.joined(mine[column.name], len(self), theirs[column.name])
                for column in _fields(self._type)
            },
        )

    def changed(self, **columns: Any) -> Columns[Row]:
        """The same rows with copies of other columns in the place of these."""
        changed = dict(self._columns)
        for column in _fields(self._type):
            if column.name in columns:
                new = columns[column.name]
                changed[column.name] = column.sealed(
                    new if column.number is None else np.array(new, column.number[1])
                )
        return Columns(self._type, changed)

    def digest_parts(self) -> Iterator[bytes]:
        """Everything in which these rows may differ from others, whatever they were read from."""
        for column in _fields(self._type):
            if UNCOMPARED not in column.marks:
                yield column.written(self._columns[column.name])


class ColumnsBuilder(Generic[Row]):
    """Collects rows as they come."""

    def __init__(self, row_type: type[Row], rows: Iterable[Row] = ()) -> None:
        self._type = row_type
        self._fields = _fields(row_type)
        self._columns = [field.empty() for field in self._fields]
        self._length = 0  # of the columns, without the rows that wait
        self._batch: list[Row] = []
        self._shared: dict[Any, Any] = {}
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """One row more."""
        self._batch.append(row)
        if len(self._batch) == _BATCH:
            self._flush()

    def columns(self) -> Columns[Row]:
        """All rows; after that, none is added any more."""
        self._flush()
        self._columns.reverse()  # each is let go of as it is sealed
        return Columns(self._type, {field.name: field.sealed(self._columns.pop()) for field in self._fields})

    def _flush(self) -> None:
        values = zip(*map(msgspec.structs.astuple, self._batch), strict=True)
        for field, column, added in zip(self._fields, self._columns, values, strict=False):
            if FEW in field.marks:
                if added.count(field.default) < len(added):
                    self._keep_few(field, column, added)
            elif SHARED in field.marks:
                column.extend(map(self._shared.setdefault, added, added))
            else:
                column.extend(added)
        self._length += len(self._batch)
        self._batch.clear()

    def _keep_few(self, field: _Field, column: dict[int, Any], added: Sequence[Any]) -> None:
        for row, value in enumerate(added, self._length):
            if value != field.default:
                key = tuple(sorted(value.items())) if isinstance(value, dict) else value
                column[row] = self._shared.setdefault(key, value)
