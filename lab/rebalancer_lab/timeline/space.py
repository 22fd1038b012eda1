"""A space of policies: which settings a search may change, and within which bounds.

    settings:
      hotNodes.any[0].utilization.cpu: {from: 65, to: 90, step: 5}
      hotNodes.any[0].coolTo.cpu: {from: 5, to: 25, step: 5, below: "hotNodes.any[0].utilization.cpu"}
      load.window: {choose: [5m, 15m]}

A point of it is a value for each setting. With 80 and 10 for the first two, and 5m, a node is hot above 80 %
and cool at 70 %, and its load is the mean of five minutes. All other settings stay as they are today, but for
those that today's policy does not name and that follow from others, as minGain does from aggressiveness.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import BeforeValidator, Field, model_validator

from rebalancer.documents import parse
from rebalancer.documents import to_yaml as dump_yaml
from rebalancer.documents.models import to_camel, validate
from rebalancer.errors import InputError
from rebalancer.policy.model import PolicyModel
from rebalancer.policy.policy_file import LoadedPolicy, parse_policy
from rebalancer.policy.schema import SET_BY_LEVEL, RebalancePolicy

MAX_SETTINGS = 40
MAX_VALUES = 1000
MAX_PATH_LENGTH = 200
_STEP = re.compile(r"(?:\.|^)([A-Za-z][\w/-]{0,62})|\[(\d{1,2})\]", re.ASCII)

Scalar = bool | int | float | str
Point = Mapping[str, Scalar]
"""A value for each setting, by its path; of a setting with ``below`` the distance."""


def _scalar(value: Any) -> Any:
    """The value itself; ValueError once where each type that it may have would complain for itself."""
    if not isinstance(value, Scalar):
        raise ValueError("is neither a number nor text nor true or false")
    return value


class Setting(PolicyModel):
    """The values that one setting may take: those listed, or numbers in equal steps."""

    choose: tuple[Annotated[Scalar, BeforeValidator(_scalar)], ...] = Field(default=(), max_length=50)
    first: float | None = Field(default=None, alias="from")
    last: float | None = Field(default=None, alias="to")
    step: float = Field(default=1, gt=0)
    below: str = Field(default="", max_length=MAX_PATH_LENGTH)

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if bool(self.choose) == (self.first is not None or self.last is not None):
            raise ValueError("write either choose: [...] or from, to and step")
        if self.choose:
            if self.below:
                raise ValueError("below needs from and to")
            return self
        if self.first is None or self.last is None or not self.first <= self.last:
            raise ValueError("from and to are both needed, and from is the smaller one")
        if (self.last - self.first) / self.step > MAX_VALUES:
            raise ValueError(f"has more than {MAX_VALUES} values; write a larger step")
        return self

    @property
    def values(self) -> tuple[Scalar, ...]:
        """All values, in order."""
        if self.choose:
            return self.choose
        assert self.first is not None
        assert self.last is not None
        count = math.floor((self.last - self.first) / self.step + 1e-9) + 1
        return tuple(_number(self.first + self.step * index) for index in range(count))


class TuningSpace(PolicyModel):
    """What ``rebalancer tune --space`` reads."""

    api_version: Literal["rebalancer/v1alpha1"]
    kind: Literal["TuningSpace"]
    settings: Mapping[str, Setting] = Field(min_length=1, max_length=MAX_SETTINGS)


class Space(msgspec.Struct, frozen=True):
    """A space around today's policy."""

    today: LoadedPolicy
    settings: Mapping[str, Setting]

    def policy(self, point: Point) -> LoadedPolicy:
        """Today's policy with these values; InputError where it cannot be used."""
        return parse_policy(self.text(point), self.today.source)

    def text(self, point: Point) -> str:
        """The same as YAML."""
        return dump_yaml(self.document(point))

    def document(self, point: Point) -> dict[str, Any]:
        """The same as plain values."""
        policy = self.today.policy
        document: dict[str, Any] = named(
            policy, policy.model_dump(mode="json", by_alias=True, exclude_none=True)
        )
        for path, value in point.items():
            below = self.settings[path].below
            written = value if not below else _number(float(point[below]) - float(value))
            _put(document, steps_of(path), written)
        return document


def named(policy: RebalancePolicy, document: Any) -> Any:
    """A policy's document without the values that it does not name and that follow from others."""
    for key in _unnamed_of_level(policy):
        del document["planning"][key]
    hot = document["hotNodes"]
    written = (*hot["any"], *(rule for pool in hot["pools"] for rule in pool["any"]))
    for rule, values in zip(policy.hot_nodes.every_rule, written, strict=True):
        if "cool_to" not in rule.model_fields_set:
            values.pop("coolTo", None)
    return document


def _unnamed_of_level(policy: RebalancePolicy) -> list[str]:
    """The keys of planning that follow from its aggressiveness."""
    return [to_camel(key) for key in SET_BY_LEVEL if key not in policy.planning.model_fields_set]


def read_space(text: str, source: str, today: LoadedPolicy) -> Space:
    """The space that a text describes; InputError with file:line:column for a setting that cannot be used."""
    document = parse(text, source)
    if not isinstance(document.value, dict):
        raise document.error((), "is not a TuningSpace", hint="write kind: TuningSpace")
    written_space = validate(TuningSpace, document)
    space = Space(today, written_space.settings)
    for path, setting in written_space.settings.items():
        where = ("settings", path)
        if path == "planning.aggressiveness" and not _unnamed_of_level(today.policy):
            sets = " and ".join(map(to_camel, SET_BY_LEVEL))
            hint = "remove from today's policy those that are to follow from it"
            raise document.error(where, f"has no effect: today's policy names {sets}", hint=hint, key=True)
        if setting.below:
            other = written_space.settings.get(setting.below)
            if other is None or other.choose or other.below or setting.below == path:
                hint = "name a setting of this file with from and to, and without below"
                raise document.error((*where, "below"), f"{setting.below} is none to be below", hint=hint)
        lower = {
            other: lower_setting.values[0]
            for other, lower_setting in written_space.settings.items()
            if lower_setting.below == path
        }
        for value in dict.fromkeys(setting.choose or (setting.values[0], setting.values[-1])):
            point: dict[str, Scalar] = {path: value}
            if setting.below:
                point[setting.below] = written_space.settings[setting.below].values[-1]
            why_not = _why_not(space, point)
            if why_not and _why_not(space, point | lower):  # as today's policy is, and as points will be
                raise document.error(where, f"{value!s:.40} cannot be used: {why_not}", key=True)
    return space


def _why_not(space: Space, point: Point) -> str:
    """Why there is no policy of a point; empty where there is one."""
    try:
        space.policy(point)
    except (InputError, ValueError) as error:
        return error.message if isinstance(error, InputError) else str(error)
    return ""


def steps_of(path: str) -> list[str | int]:
    """The keys and indices of a path such as ``hotNodes.any[0].coolTo.cpu``; ValueError for none."""
    steps = []
    at = 0
    while at < len(path) and len(path) <= MAX_PATH_LENGTH:
        step = _STEP.match(path, at)
        if step is None:
            break
        steps.append(step[1] if step[1] is not None else int(step[2]))
        at = step.end()
    if not path or at < len(path):
        raise ValueError("is no path of a setting, such as hotNodes.any[0].utilization.cpu")
    return steps


def _put(document: Any, steps: list[str | int], value: Scalar) -> None:
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(step, int):
            if not isinstance(document, list) or step >= len(document):
                raise ValueError(f"today's policy has no [{step}] there")
        elif not isinstance(document, dict):
            raise ValueError(f"today's policy has no {step} there")
        if after is None:
            document[step] = value
        elif isinstance(step, int):
            document = document[step]
        else:
            if not isinstance(document.get(step), dict | list):
                document[step] = {}
            document = document[step]


def _number(value: float) -> int | float:
    rounded = round(value, 9)
    return int(rounded) if rounded.is_integer() else rounded
