"""NodeMetadata: prefers nodes by a number or a time that a label or an annotation of theirs says.

    metadataKey: cost, metadataSource: Label, metadataType: Number, scoringStrategy: Lowest

    node    cost     raw score     score
    a       10       -10           100
    b       12       -12           1      the worst of those that say a number
    c       cheap    excluded      0      so do nodes without the label, unless defaultValue says a number

Source: scheduler-plugins 022000d6 pkg/nodemetadata/node_metadata.go; v0.34.7 does not have it yet.
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from rebalancer.cluster.arrays import IntArray
from rebalancer.cluster.records import Node
from rebalancer.profiles.types import Arguments, extension_points
from rebalancer.scheduling.framework.plugin import EXCLUDED, MAX_SCORE, Normalization, Plugin
from rebalancer.scheduling.resources import divide_toward_zero
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_cluster

_RFC_3339 = "2006-01-02T15:04:05Z07:00"
_LOWEST_VALID = 1  # nodes that say nothing score 0
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# The parts of Go's reference time that are read, as they stand in a layout, and what each is in a text.
_LAYOUT = re.compile(r"2006|Z07:00|01|02|15|04|05", re.ASCII)
_LAYOUT_PARTS = {
    "2006": ("year", re.compile(r"(\d{4})", re.ASCII)),
    "01": ("month", re.compile(r"(\d{2})", re.ASCII)),
    "02": ("day", re.compile(r"(\d{2})", re.ASCII)),
    "15": ("hour", re.compile(r"(\d{2})", re.ASCII)),
    "04": ("minute", re.compile(r"(\d{2})", re.ASCII)),
    "05": ("second", re.compile(r"(\d{2})(?:[.,]\d+)?", re.ASCII)),
    "Z07:00": ("zone", re.compile(r"(Z|[+-]\d{2}:\d{2})", re.ASCII)),
}
_ISO_8601 = "{year}-{month}-{day}T{hour}:{minute}:{second}{zone}"
_FIRST_MOMENT = {
    "year": "0001",
    "month": "01",
    "day": "01",
    "hour": "00",
    "minute": "00",
    "second": "00",
    "zone": "Z",
}


class MetadataSource(StrEnum):
    """Where a node says it."""

    LABEL = "Label"
    ANNOTATION = "Annotation"


class MetadataType(StrEnum):
    """What a node says."""

    NUMBER = "Number"
    TIMESTAMP = "Timestamp"


class Preferred(StrEnum):
    """Which nodes score higher."""

    HIGHEST = "Highest"
    LOWEST = "Lowest"
    NEWEST = "Newest"
    OLDEST = "Oldest"


_STRATEGIES = {
    MetadataType.NUMBER: (Preferred.HIGHEST, Preferred.LOWEST),
    MetadataType.TIMESTAMP: (Preferred.NEWEST, Preferred.OLDEST),
}


class NodeMetadataArguments(Arguments):
    """Arguments of NodeMetadata."""

    metadata_key: str = Field(min_length=1)
    metadata_source: MetadataSource
    metadata_type: MetadataType
    scoring_strategy: Preferred
    timestamp_format: str = ""
    default_value: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        strategies = _STRATEGIES[self.metadata_type]
        if self.scoring_strategy not in strategies:
            raise ValueError(
                f"metadataType {self.metadata_type} needs scoringStrategy {' or '.join(strategies)}"
            )
        between_parts = _LAYOUT.sub("", self.timestamp_format or _RFC_3339).replace("T", "")
        if any(character.isalnum() for character in between_parts):
            raise ValueError(
                f"timestampFormat {self.timestamp_format} is none that rebalancer reads: write it with "
                f"{', '.join(_LAYOUT_PARTS)} alone, such as {_RFC_3339}"
            )
        if self.default_value and _read(self, self.default_value) is None:
            raise ValueError(f"defaultValue {self.default_value} is no {self.metadata_type} of this format")
        return self


def _read(arguments: NodeMetadataArguments, text: str) -> int | None:
    """The number, or the time in Unix seconds, of a text; None where the scheduler cannot read it."""
    if arguments.metadata_type is MetadataType.NUMBER:
        return _number(text)
    return _seconds(text, arguments.timestamp_format or _RFC_3339)


def _number(text: str) -> int | None:
    """A number without its fraction; None where it has more digits than the scheduler's integers."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    if abs(number) >= 2.0**63:
        return None
    return int(number)


def _seconds(text: str, layout: str) -> int | None:
    """A time of a layout; None where the text is none."""
    fields = dict(_FIRST_MOMENT)
    read = 0  # of the text
    end = 0  # of the layout
    for part in _LAYOUT.finditer(layout):
        literal = layout[end : part.start()]
        field, pattern = _LAYOUT_PARTS[part[0]]
        match = pattern.match(text, read + len(literal))
        if match is None or not text.startswith(literal, read):
            return None
        fields[field] = match[1]
        read = match.end()
        end = part.end()
    if text[read:] != layout[end:]:
        return None
    try:
        time = datetime.fromisoformat(_ISO_8601.format(**fields))
    except ValueError:
        return None
    return int(time.timestamp())


class NodeMetadata(Plugin):
    """Scores the number or the time that a label or an annotation of a node says.

    The scheduler compares ages in whole seconds at the moment at which it looks at each node. Times are
    compared here instead: a score may differ by a point where the clock strikes meanwhile, or a time is yet
    to come.
    """

    name = "NodeMetadata"
    points = extension_points("score")
    Arguments = NodeMetadataArguments
    static = True
    normalization = Normalization.RANGE

    def __init__(self, arguments: NodeMetadataArguments) -> None:
        self._arguments = arguments
        lowest_first = arguments.scoring_strategy in (Preferred.LOWEST, Preferred.OLDEST)
        self._sign = -1 if lowest_first else 1

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """What the nodes say, negated where the least is preferred; the others are excluded."""
        return self._of_nodes(state)[feasible]

    @once_a_cluster
    def _of_nodes(self, state: ClusterState) -> IntArray:
        """(nodes,) raw scores."""
        return np.array([self._raw(node) for node in state.nodes.table.records], np.int64)

    def _raw(self, node: Node) -> int:
        if self._arguments.metadata_source is MetadataSource.LABEL:
            metadata = node.metadata.labels or {}
        else:
            metadata = node.metadata.annotations or {}
        text = metadata.get(self._arguments.metadata_key)
        if text is None:
            text = self._arguments.default_value
        value = _read(self._arguments, text)
        return EXCLUDED if value is None else self._sign * value

    def normalize(self, raw: IntArray, smallest: int, largest: int) -> IntArray:
        """From 1 for the lowest to 100 for the highest; all 1 when equal, 0 for nodes that say nothing."""
        if smallest == largest:
            scores = np.full_like(raw, _LOWEST_VALID)
        elif smallest > largest:  # no node says anything
            scores = np.zeros_like(raw)
        else:
            scores = divide_toward_zero((raw - smallest) * (MAX_SCORE - _LOWEST_VALID), largest - smallest)
            scores = scores + _LOWEST_VALID
        return np.where(raw == EXCLUDED, 0, scores)
