"""The options that several commands share, each declared once, and the values they are converted to.

A decorator of this module adds a family of options to a command, which gets them as one value:

    @pipeline_options                where a plan's inputs come from    options: PlanOptions
    @output_options(*ROW_FORMATS)    how the result is written          output: Output
    @pod_choice_options              which pods are shown               choice: Choice
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rebalancer.cli.invocation import PROGRAM, program_name
from rebalancer.cli.logs import LOGGER
from rebalancer.cli.output import Output
from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.reporting.render import Format, parse_template

if TYPE_CHECKING:
    from rebalancer.cluster.records import LabelSelector
    from rebalancer.cluster.selectors import FieldRequirement


Command = TypeVar("Command", bound=Callable[..., Any])


def with_options(
    command: Command, wrapped: Callable[..., Any], options: Iterable[Callable[[Any], Any]]
) -> Command:
    """``wrapped`` in a command's place and under its name, with these options in the order of ``--help``."""
    decorated: Any = functools.wraps(command)(wrapped)
    for option in reversed(tuple(options)):
        decorated = option(decorated)
    found: Command = decorated
    return found


DATA_FORMATS = (Format.TABLE, Format.JSON, Format.YAML, Format.JSONPATH)
DOCUMENT_FORMATS = (Format.TABLE, Format.MARKDOWN, Format.JSON, Format.YAML, Format.JSONPATH)
ROW_FORMATS = (
    *(Format.TABLE, Format.WIDE, Format.NAME, Format.MARKDOWN),
    *(Format.JSON, Format.YAML, Format.JSONPATH, Format.CSV, Format.PARQUET),
    Format.HTML,
)
_ALIASES = {"md": Format.MARKDOWN}


class OutputFormat(click.ParamType[tuple[Format, str]]):
    """One of a command's formats; ``jsonpath=TEMPLATE`` brings its template, which is checked here."""

    name = "format"

    def __init__(self, formats: Sequence[Format]) -> None:
        self.formats = tuple(formats)

    @property
    def shown(self) -> str:
        """The formats as help lists them."""
        return ", ".join("jsonpath=..." if member is Format.JSONPATH else member for member in self.formats)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Format, str]:
        """The format, and the template of jsonpath."""
        if isinstance(value, tuple):
            return value
        name, equals, template = str(value).partition("=")
        found = next((member for member in self.formats if member == _ALIASES.get(name, name)), None)
        if found is None or (equals and found is not Format.JSONPATH):
            self.fail(f"{str(value)[:60]!a} is none of {self.shown}", param, ctx)
        if found is Format.JSONPATH:
            if not template:
                self.fail("jsonpath needs a template, such as jsonpath='{.kind}'", param, ctx)
            parse_template(template)
        if found is Format.PARQUET:
            _check_parquet()
        return found, template

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's interface
        param: click.Parameter,  # noqa: ARG002 - click calls it so
        incomplete: str,
    ) -> list[click.shell_completion.CompletionItem]:
        """The formats that begin like this."""
        names = ("jsonpath=" if member is Format.JSONPATH else str(member) for member in self.formats)
        return [click.shell_completion.CompletionItem(name) for name in names if name.startswith(incomplete)]


def _check_parquet() -> None:
    """Refuse what would fail only after a cluster has been read, or would garble a terminal."""
    if importlib.util.find_spec("pyarrow") is None:
        raise InputError(
            "-o parquet needs pyarrow, which is not installed", hint="install rebalancer[parquet]"
        )
    if sys.stdout.isatty():
        raise InputError("Parquet is binary and would garble a terminal", hint="add: > FILE.parquet")


def output_options(*formats: Format, lists: bool = True) -> Callable[[Command], Command]:
    """Give a command ``-o`` and, for lists, how many rows to show, as one ``Output`` named ``output``."""

    def decorate(command: Command) -> Command:
        def wrapped(**values: Any) -> Any:
            found, template = values.pop("output_format")
            output = Output(
                format=found,
                everything=values.pop("everything", False),
                top=values.pop("top", None),
                no_headers=values.pop("no_headers", False),
                template=template,
            )
            return command(output=output, **values)

        return with_options(command, wrapped, _output_options(formats, lists=lists))

    return decorate


def _output_options(formats: Sequence[Format], *, lists: bool) -> list[Callable[[Any], Any]]:
    kind = OutputFormat(formats)
    options = [
        click.option(
            *("-o", "--output", "output_format"),
            type=kind,
            default=str(Format.TABLE),
            show_default=True,
            metavar="FORMAT",
            help=f"Output format: {kind.shown}.",
        ),
    ]
    if lists:
        options += [
            click.option(
                "--all", "everything", is_flag=True, help="Show every row of a table instead of a summary."
            ),
            click.option(
                "--top", type=click.IntRange(1), metavar="N", help="Show at most N rows of each list."
            ),
        ]
    if Format.CSV in formats:
        options.append(click.option("--no-headers", is_flag=True, help="Print only the rows of the table."))
    return options


FILE = click.Path(dir_okay=False, path_type=Path)
PATH = click.Path(path_type=Path)

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


class Share(click.ParamType[float]):
    """A percentage such as 10%."""

    name = "percentage"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The fraction it stands for."""
        from rebalancer.policy.units import parse_percentage  # noqa: PLC0415 - imports pydantic

        if isinstance(value, float):
            return value
        try:
            return parse_percentage(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _warn_of_no_effect(context: click.Context, parameter: click.Parameter, value: object) -> None:
    if value is not None:
        option, command = parameter.opts[0], context.info_name
        LOGGER.warning("%s has no effect on %s and will be removed", option, command)


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
request_timeout_option = click.option(
    "--request-timeout",
    "request_seconds",
    type=Duration(),
    metavar="DURATION",
    help="How long to wait for the answer to a single request; by default 60s.",
)
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
max_dump_size_without_effect = click.option(
    "--max-dump-size",
    type=Size(),
    hidden=True,
    expose_value=False,
    callback=_warn_of_no_effect,
)
journal_option = click.option(
    "--journal", type=FILE, metavar="FILE", help="File in which each eviction is recorded before it is made."
)


def lease_option(meaning: str) -> Callable[[Command], Command]:
    """The option that names the Lease of runs, with what it does for a command."""
    return click.option(
        "--lease",
        type=ObjectName(),
        default="rebalancer",
        show_default=True,
        metavar="[NS/]NAME",
        help=meaning,
    )


def max_duration_option(meaning: str, default: str | None = None) -> Callable[[Command], Command]:
    """The option that ends a run in time, with what it does for a command."""
    return click.option(
        "--max-duration",
        "max_duration_seconds",
        type=Duration(),
        default=default,
        show_default=default is not None,
        metavar="DURATION",
        help=meaning,
    )


_PIPELINE: Mapping[str, Callable[[Any], Any]] = {
    "policy_path": policy_option,
    "source": source_option,
    "max_dump_bytes": max_dump_size_option,
    "kubeconfig": kubeconfig_option,
    "context": context_option,
    "request_seconds": request_timeout_option,
    "now": now_option,
    "state_path": state_option,
    "state_config_map": state_config_map_option,
    "scheduler_config": scheduler_config_option,
    "assume_neutral": neutral_option,
}  # by the field of PlanOptions that each sets


def pipeline_options(command: Command, without: Collection[str] = ()) -> Command:
    """Give a command the options of a plan's inputs, as one ``PlanOptions`` named ``options``."""
    options = {name: option for name, option in _PIPELINE.items() if name not in without}

    def wrapped(**values: Any) -> Any:
        given = PlanOptions(**{name: values.pop(name) for name in options})
        check_source(given.source, given.kubeconfig, given.context)
        check_state(given.source, given.state_path, given.state_config_map)
        return command(options=given, **values)

    return with_options(command, wrapped, options.values())


def live_pipeline_options(command: Command) -> Command:
    """The same for a command that acts on a live cluster."""
    return max_dump_size_without_effect(pipeline_options(command, without=("source", "max_dump_bytes")))


def service_pipeline_options(command: Command) -> Command:
    """The same for a service, which plans for the present."""
    return max_dump_size_without_effect(
        pipeline_options(command, without=("source", "max_dump_bytes", "now"))
    )


def asked_again(command: str, options: PlanOptions) -> str:
    """A command that is suggested, under the name that the user typed and for the same cluster and policy."""
    given = [
        (flag, str(value))
        for flag, value in (
            ("--from", options.source),
            ("--policy", options.policy_path),
            ("--kubeconfig", options.kubeconfig),
            ("--context", options.context),
            ("--now", options.now),
            ("--state", options.state_path),
            ("--state-config-map", options.state_config_map),
            ("--scheduler-config", options.scheduler_config),
            *(("--assume-neutral", name) for name in options.assume_neutral),
        )
        if value is not None
    ]
    words = [f"{flag} {shlex.quote(value)}" for flag, value in given]
    return " ".join((command.replace(PROGRAM, program_name(), 1), *words))


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


# The names and meanings of the options that choose rows are those of kubectl.
namespace_option = click.option(
    "-n", "--namespace", metavar="NAMESPACE", help="Show only the pods of this namespace."
)
all_namespaces_option = click.option(
    "-A", "--all-namespaces", is_flag=True, help="Show the pods of all namespaces (the default)."
)


class Labels(click.ParamType["LabelSelector"]):
    """A label selector, such as ``app=web,tier in (front,back)``."""

    name = "selector"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> LabelSelector:
        """The selector."""
        from rebalancer.cluster.selectors import matcher, parse_labels  # noqa: PLC0415 - not for --help

        if not isinstance(value, str):
            return value  # type: ignore[no-any-return] # converted already, click asks again
        try:
            found = parse_labels(value)
            matcher(found)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return found


class Fields(click.ParamType["tuple[FieldRequirement, ...]"]):
    """Requirements on some fields, such as ``spec.nodeName=node-1``."""

    name = "selector"

    def __init__(self, known: Callable[[], tuple[str, ...]]) -> None:
        self.known = known

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[FieldRequirement, ...]:
        """The requirements; fields that are not known are refused, as the API server does."""
        from rebalancer.cluster.selectors import parse_fields  # noqa: PLC0415 - not for --help

        if not isinstance(value, str):
            return value  # type: ignore[no-any-return] # converted already, click asks again
        try:
            found = parse_fields(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        known = self.known()
        for item in found:
            if item.path not in known:
                self.fail(f"field {item.path[:60]!a} is not supported; known: {', '.join(known)}", param, ctx)
        return found


def pod_choice_options(command: Command) -> Command:
    """Give a command the options that choose pods, as one ``Choice`` named ``choice``."""

    def wrapped(**values: Any) -> Any:
        namespace, everywhere = values.pop("namespace"), values.pop("all_namespaces")
        if namespace is not None and everywhere:
            raise InputError("-n asks for one namespace, -A for all of them", hint="give one of them")
        return command(choice=_choice(namespace, values), **values)

    options = (namespace_option, all_namespaces_option, *_selector_options("pods", _pod_fields))
    return with_options(command, wrapped, options)


def node_choice_options(command: Command) -> Command:
    """Give a command the options that choose nodes, as one ``Choice`` named ``choice``."""

    def wrapped(**values: Any) -> Any:
        return command(choice=_choice(None, values), **values)

    return with_options(command, wrapped, _selector_options("nodes", _node_fields))


def _choice(namespace: str | None, values: dict[str, Any]) -> Any:
    labels, fields = values.pop("labels"), values.pop("fields")
    from rebalancer.reporting.chosen_rows import Choice  # noqa: PLC0415 - imports numpy

    return Choice(namespace, labels, fields or ())


def _selector_options(noun: str, known: Callable[[], tuple[str, ...]]) -> list[Callable[[Any], Any]]:
    example = "spec.nodeName=node-1" if noun == "pods" else "spec.unschedulable=true"
    return [
        click.option(
            *("-l", "--selector", "labels"),
            type=Labels(),
            metavar="SELECTOR",
            help=f"Show only {noun} with these labels, e.g. app=web,tier!=cache.",
        ),
        click.option(
            *("--field-selector", "fields"),
            type=Fields(known),
            metavar="SELECTOR",
            help=f"Show only {noun} with these fields, e.g. {example}.",
        ),
    ]


def _pod_fields() -> tuple[str, ...]:
    from rebalancer.reporting.chosen_rows import POD_FIELDS  # noqa: PLC0415 - imports numpy

    return POD_FIELDS


def _node_fields() -> tuple[str, ...]:
    from rebalancer.reporting.chosen_rows import NODE_FIELDS  # noqa: PLC0415 - imports numpy

    return NODE_FIELDS
