"""The options that several commands share, and the values they are converted to."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from rebalancer.cli.output import Output
from rebalancer.errors import InputError
from rebalancer.pipeline import PipelineOptions
from rebalancer.reporting.render import Format

Command = TypeVar("Command", bound=Callable[..., Any])

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_LATEST_UNIX = 253_402_300_799.0  # the last second of the year 9999


class Moment(click.ParamType[float]):
    """RFC 3339 or Unix seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Unix seconds."""
        from rebalancer.cluster import times  # noqa: PLC0415 - not for --help

        if isinstance(value, float):
            return value
        if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", value, re.ASCII):
            seconds = float(value)
            if seconds <= _LATEST_UNIX:
                return seconds
        try:
            return times.parse(value)
        except ValueError:
            self.fail(
                f"{value[:60]!a} is not a time; write e.g. 2026-11-20T12:00:00Z or 1795176000", param, ctx
            )


class Duration(click.ParamType[float]):
    """A duration as policies write it, such as 90s or 10m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, more than 0."""
        from rebalancer.policy.units import parse_duration  # noqa: PLC0415 - imports pydantic

        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds <= 0:
            self.fail(f"{value!a} is not longer than 0", param, ctx)
        return seconds


class ObjectName(click.ParamType[str]):
    """NAMESPACE/NAME of an object; NAME alone is in the namespace of this pod, else in ``rebalancer``."""

    name = "ns/name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The same text, checked."""
        text = str(value)
        if "/" not in text:
            text = f"{os.environ.get('POD_NAMESPACE') or 'rebalancer'}/{text}"
        parts = text.split("/")
        if len(parts) != 2 or not all(_NAME.fullmatch(part) for part in parts):
            self.fail(f"{text[:60]!a} is neither NAMESPACE/NAME nor NAME", param, ctx)
        return text


class Size(click.ParamType[int]):
    """A number of bytes as Kubernetes writes it, such as 512Mi or 4Gi."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes, more than 0."""
        from rebalancer.cluster import quantities  # noqa: PLC0415 - not for --help

        if isinstance(value, int):
            return value
        try:
            numerator, denominator = quantities.ratio(value)
            if numerator < denominator:
                raise ValueError(f"{value!a} is less than a byte")
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return numerator // denominator


FILE = click.Path(dir_okay=False, path_type=Path)
PATH = click.Path(path_type=Path)

policy_option = click.option(
    "--policy", "policy_path", type=FILE, metavar="FILE", help="The policy; without it, all defaults apply."
)
source_option = click.option(
    "--from",
    "source",
    type=PATH,
    metavar="PATH",
    help="Read a recorded cluster: a file or folder of kubectl dumps.",
)
max_dump_size_option = click.option(
    "--max-dump-size",
    "max_dump_bytes",
    type=Size(),
    metavar="SIZE",
    help="How much a recorded cluster may hold, unpacked; by default 4Gi.",
)
kubeconfig_option = click.option(
    "--kubeconfig", type=FILE, metavar="FILE", help="The kubeconfig of a live cluster."
)
context_option = click.option("--context", metavar="NAME", help="The kubeconfig's context to use.")
now_option = click.option(
    "--now",
    type=Moment(),
    metavar="TIME",
    help="The time to plan for, RFC 3339 or Unix seconds; with --from by default that of the newest metric.",
)
state_option = click.option(
    "--state",
    "state_path",
    type=FILE,
    metavar="FILE",
    help="The state of earlier runs: how long nodes have been hot, and recent moves.",
)
state_config_map_option = click.option(
    "--state-config-map",
    type=ObjectName(),
    metavar="[NS/]NAME",
    help="The ConfigMap that holds the state of earlier runs.",
)
scheduler_config_option = click.option(
    "--scheduler-config",
    type=FILE,
    metavar="FILE",
    help="A KubeSchedulerConfiguration to use instead of the policy's.",
)
neutral_option = click.option(
    "--assume-neutral",
    multiple=True,
    metavar="NAME",
    help="An unknown plugin, assumed to score all nodes the same; may be repeated.",
)
_OUTPUT = {"output_format": "format", "everything": "everything", "top": "top", "no_headers": "no_headers"}


def output_options(*formats: Format, lists: bool = True) -> Callable[[Command], Command]:
    """Give a command ``-o`` and, for lists, how many rows to show, as one ``Output`` named ``output``."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(**values: Any) -> Any:
            output = Output(**{field: values.pop(name) for name, field in _OUTPUT.items() if name in values})
            return command(output=output, **values)

        decorated: Any = wrapped
        for option in reversed(_output_options(formats, lists=lists)):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def _output_options(formats: Sequence[Format], *, lists: bool) -> list[Callable[[Any], Any]]:
    options = [
        click.option(
            "-o",
            "--output",
            "output_format",
            type=click.Choice([str(member) for member in formats]),
            default=str(Format.TABLE),
            show_default=True,
            callback=lambda _context, _parameter, value: Format(value),
            help="Output format.",
        ),
    ]
    if lists:
        options.append(
            click.option(
                "--all", "everything", is_flag=True, help="Show every row of a table instead of a summary."
            )
        )
    if Format.CSV in formats:
        options += [
            click.option(
                "--top", type=click.IntRange(1), metavar="N", help="Show at most N rows of each list."
            ),
            click.option("--no-headers", is_flag=True, help="Print only the rows of the table."),
        ]
    return options


DOCUMENT_FORMATS = (Format.TABLE, Format.JSON, Format.YAML)
ROW_FORMATS = (Format.TABLE, Format.WIDE, Format.NAME, Format.JSON, Format.YAML, Format.CSV)

_PIPELINE: Sequence[Callable[[Any], Any]] = (
    policy_option,
    source_option,
    max_dump_size_option,
    kubeconfig_option,
    context_option,
    now_option,
    state_option,
    state_config_map_option,
    scheduler_config_option,
    neutral_option,
)
_FIELDS = (
    "policy_path",
    "source",
    "max_dump_bytes",
    "kubeconfig",
    "context",
    "now",
    "state_path",
    "state_config_map",
    "scheduler_config",
    "assume_neutral",
)


def pipeline_options(command: Command) -> Command:
    """Give a command the options of a plan's inputs, as one ``PipelineOptions`` named ``options``."""

    @functools.wraps(command)
    def wrapped(**values: Any) -> Any:
        options = PipelineOptions(**{name: values.pop(name) for name in _FIELDS})
        check_source(options.source, options.kubeconfig, options.context)
        check_state(options.source, options.state_path, options.state_config_map)
        return command(options=options, **values)

    decorated: Any = wrapped
    for decorate in reversed(_PIPELINE):
        decorated = decorate(decorated)
    return decorated  # type: ignore[no-any-return]


def live_pipeline_options(command: Command) -> Command:
    """The same for a command that acts: what is about recorded clusters is refused, and so not shown."""
    decorated = pipeline_options(command)
    for parameter in decorated.__click_params__:  # type: ignore[attr-defined]
        if parameter.name in ("source", "max_dump_bytes"):
            parameter.hidden = True
    return decorated


def check_source(source: Path | None, kubeconfig: Path | None, context: str | None) -> None:
    """Refuse a recorded and a live cluster together: one of them would be ignored."""
    given = [
        name for name, value in (("--kubeconfig", kubeconfig), ("--context", context)) if value is not None
    ]
    if source is not None and given:
        raise InputError(
            f"--from reads a recorded cluster, {' and '.join(given)} a live one", hint="give one or the other"
        )


def check_state(source: Path | None, path: Path | None, config_map: str | None) -> None:
    """Refuse options for the state of which one would be ignored."""
    if path is not None and config_map is not None:
        raise InputError(
            "--state and --state-config-map each name where the state is kept", hint="give one of them"
        )
    if source is not None and config_map is not None:
        raise InputError(
            "--state-config-map reads a live cluster, --from a recorded one",
            hint="give --state, or record the state with: rebalancer snapshot save --state-config-map",
        )
