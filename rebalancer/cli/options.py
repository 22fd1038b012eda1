"""The options that several commands share, each declared once, and the values they are converted to.

A decorator of this module adds a family of options to a command, which gets them as one value:

    @plan_options(**PLAN)            where a plan's inputs come from    options: PlanOptions
    @output_options(*ROW_FORMATS)    how the result is written          output: Output
    @pod_choice_options              which pods are shown               choice: Choice

Two options may not name the same file of the user, and each has a default place.
"""

from __future__ import annotations

import functools
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rebalancer.cli import completion
from rebalancer.cli.invocation import PROGRAM, program_name
from rebalancer.cli.output import Output
from rebalancer.errors import InputError
from rebalancer.files import refusing, state_folder
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.reporting.render import TABLES, Format, parse_template

if TYPE_CHECKING:
    from rebalancer.cluster.records import LabelSelector
    from rebalancer.cluster.selectors import FieldRequirement


Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]
Parsed = TypeVar("Parsed")


class Text(click.ParamType[Parsed]):
    """A text that a function parses; the function's ValueError says what is wrong with it."""

    def __init__(self, name: str, parse: Callable[[str], Parsed]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Parsed:
        """What the text stands for."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return] # converted already, click asks again
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class FloatRange(click.FloatRange):
    """A range of numbers; for click, NaN is in every range, and compares with nothing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number that the text stands for."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


def option(flag: str, kind: Any, metavar: str | None, meaning: str | None, **more: Any) -> Option:
    """An option with a value; what follows its names in ``flag`` is the name of its parameter."""
    return click.option(*flag.split(), type=kind, metavar=metavar, help=meaning, **more)


_MAX_PORT = 65535


def address(text: str) -> tuple[str, int]:
    """ADDRESS:PORT to listen on; ``:8080`` is every address, port 0 any port that is free."""
    host, _, port = text.rpartition(":")
    if ":" not in text or not port.isascii() or not port.isdigit() or int(port) > _MAX_PORT:
        raise ValueError(f"{text[:60]!a} is not ADDRESS:PORT, such as 127.0.0.1:8080 or :8080")
    return host.removeprefix("[").removesuffix("]"), int(port)


def with_options(command: Command, wrapped: Callable[..., Any], options: Iterable[Option]) -> Command:
    """``wrapped`` in a command's place and under its name, with these options in the order of ``--help``."""
    decorated: Any = functools.wraps(command)(wrapped)
    for option in reversed(tuple(options)):
        decorated = option(decorated)
    with_all: Command = decorated
    return with_all


DATA_FORMATS = (Format.TABLE, Format.JSON, Format.YAML, Format.JSONPATH)
DOCUMENT_FORMATS = (Format.TABLE, Format.MARKDOWN, Format.JSON, Format.YAML, Format.JSONPATH)
ROW_FORMATS = (
    *(Format.TABLE, Format.WIDE, Format.NAME, Format.MARKDOWN),
    *(Format.JSON, Format.YAML, Format.JSONPATH, Format.CSV),
    Format.HTML,
)
RUN_FORMATS = (Format.TABLE, Format.WIDE, *DOCUMENT_FORMATS[1:], Format.HTML)
_ALIASES = {"md": Format.MARKDOWN}


class OutputFormat(Text[tuple[Format, str]]):
    """One of a command's formats; ``jsonpath=TEMPLATE`` brings its template, which is checked here."""

    def __init__(self, formats: Sequence[Format]) -> None:
        super().__init__("format", self._format)
        self.formats = tuple(formats)

    @property
    def shown(self) -> str:
        """The formats as help lists them."""
        return ", ".join("jsonpath=..." if member is Format.JSONPATH else member for member in self.formats)

    def _format(self, text: str) -> tuple[Format, str]:
        name, equals, template = text.partition("=")
        chosen_format = next((member for member in self.formats if member == _ALIASES.get(name, name)), None)
        if chosen_format is None or (equals and chosen_format is not Format.JSONPATH):
            raise ValueError(f"{text[:60]!a} is none of {self.shown}")
        if chosen_format is Format.JSONPATH:
            if not template:
                raise ValueError("jsonpath needs a template, such as jsonpath='{.kind}'")
            parse_template(template)
        return chosen_format, template

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's interface
        param: click.Parameter,  # noqa: ARG002 - click calls it so
        incomplete: str,
    ) -> list[click.shell_completion.CompletionItem]:
        """The formats that begin like this."""
        names = ("jsonpath=" if member is Format.JSONPATH else str(member) for member in self.formats)
        return [click.shell_completion.CompletionItem(name) for name in names if name.startswith(incomplete)]


def output_options(*formats: Format, lists: bool = True) -> Callable[[Command], Command]:
    """Give a command ``-o`` and, for lists, how many rows to show, as one ``Output`` named ``output``."""
    kind = OutputFormat(formats)
    form = option(
        *("-o --output output_format", kind, "FORMAT", f"Output format: {kind.shown}."),
        default=str(Format.TABLE),
        show_default=True,
    )
    of_lists = (
        click.option(
            "--all", "everything", is_flag=True, help="Show every row of a table instead of a summary."
        ),
        option("--top", click.IntRange(1), "N", "Show at most N rows of each list."),
        option(
            *("--width", click.IntRange(40, 10_000), "N"),
            "Make tables N columns wide; by default the terminal's width, and in a pipe that of the names.",
            hidden=True,
        ),
    )
    of_rows = (click.option("--no-headers", is_flag=True, hidden=True),)
    options = (form, *(of_lists if lists else ()), *(of_rows if Format.CSV in formats else ()))

    def decorate(command: Command) -> Command:
        def wrapped(**values: Any) -> Any:
            chosen_format, template = values.pop("output_format")
            chosen: dict[str, Any] = {
                key: values.pop(key) for key in ("everything", "top", "width", "no_headers") if key in values
            }
            _refuse_ignored(chosen_format, chosen)
            return command(output=Output(chosen_format, template=template, **chosen), **values)

        return with_options(command, wrapped, options)

    return decorate


def _refuse_ignored(chosen_format: Format, chosen: Mapping[str, Any]) -> None:
    """Refuse options of tables and lists that a document, which is always whole, would ignore."""
    of_tables = {"--width": chosen.get("width"), "--no-headers": chosen.get("no_headers")}
    given = [name for name, value in of_tables.items() if value and chosen_format not in TABLES]
    if chosen.get("top") and chosen_format in (Format.JSON, Format.YAML, Format.JSONPATH):
        given.append("--top")
    if given:
        raise InputError(f"-o {chosen_format} ignores {' and '.join(given)}", hint="leave one of them out")


FILE = click.Path(dir_okay=False, path_type=Path)
PATH = click.Path(path_type=Path)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_LATEST_UNIX = 253_402_300_799.0  # the last second of the year 9999


_TO_THE_MINUTE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d)(Z|[+-]\d\d:\d\d)", re.ASCII)


def _moment(text: str) -> float:
    """Unix seconds of RFC 3339, whose seconds may be left out, or Unix seconds."""
    from rebalancer.cluster import times  # noqa: PLC0415 - not for --help

    if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text, re.ASCII) and float(text) <= _LATEST_UNIX:
        return float(text)
    try:
        return times.parse(_TO_THE_MINUTE.sub(r"\1:00\2", text) if _TO_THE_MINUTE.fullmatch(text) else text)
    except ValueError:
        example = "write e.g. 2026-11-20T12:00:00Z or 1795176000"
        raise ValueError(f"{text[:60]!a} is not a time; {example}") from None


def _duration(text: str) -> float:
    """Seconds, more than 0, of a duration as policies write it, such as 90s or 10m."""
    from rebalancer.policy.units import parse_duration  # noqa: PLC0415 - imports pydantic

    seconds = parse_duration(text)
    if seconds <= 0:
        raise ValueError(f"{text!a} is not longer than 0")
    return seconds


def _object_name(text: str) -> str:
    """NAMESPACE/NAME of an object; NAME alone is in the namespace of this pod, else in ``rebalancer``."""
    if "/" not in text:
        text = f"{os.environ.get('POD_NAMESPACE') or 'rebalancer'}/{text}"
    parts = text.split("/")
    if len(parts) != 2 or not all(_NAME.fullmatch(part) for part in parts):
        raise ValueError(f"{text[:60]!a} is neither NAMESPACE/NAME nor NAME")
    return text


def _size(text: str) -> int:
    """Bytes, more than 0, as Kubernetes writes them, such as 512Mi or 4Gi."""
    from rebalancer.cluster import quantities  # noqa: PLC0415 - not for --help

    numerator, denominator = quantities.ratio(text)
    if numerator < denominator:
        raise ValueError(f"{text!a} is less than a byte")
    return numerator // denominator


def _share(text: str) -> float:
    """The fraction that a percentage such as 10% stands for."""
    from rebalancer.policy.units import parse_percentage  # noqa: PLC0415 - imports pydantic

    return parse_percentage(text)


DURATION = Text("duration", _duration)
SHARE = Text("percentage", _share)
OBJECT_NAME = Text("ns/name", _object_name)
SIZE = Text("size", _size)

# By the field of PlanOptions that each sets, in the order of --help.
PLAN: Mapping[str, Option] = {
    "policy_path": option(
        "--policy policy_path", FILE, "FILE", "The policy; without it, all defaults apply."
    ),
    "source": option(
        "--from source", PATH, "PATH", "Read a recorded cluster: a file or folder of kubectl dumps."
    ),
    "at": option(
        *("--at", Text("time", _moment), "TIME"),
        "The moment of a recorded timeline to read, RFC 3339 or Unix seconds; by default its newest.",
    ),
    "max_dump_bytes": option(
        *("--max-dump-size max_dump_bytes", SIZE, "SIZE"),
        "How much a recorded cluster may hold, unpacked; by default 4Gi.",
        hidden=True,
    ),
    "kubeconfig": option("--kubeconfig", FILE, "FILE", "The kubeconfig of a live cluster."),
    "context": option(
        *("--context", None, "NAME", "The kubeconfig's context to use."),
        shell_complete=completion.contexts,
    ),
    "kube_cluster": option(
        *("--cluster kube_cluster", None, "NAME", "The kubeconfig's cluster; else the context's."),
        hidden=True,
    ),
    "kube_user": option(
        *("--user kube_user", None, "NAME", "The kubeconfig's user; else the context's."),
        hidden=True,
    ),
    "acts_as": option(*("--as acts_as", None, "USER"), "Act as this user; needs the right to impersonate."),
    "as_groups": option(
        *("--as-group as_groups", None, "GROUP", "A group of the user of --as; may be repeated."),
        multiple=True,
        hidden=True,
    ),
    "request_seconds": option(
        *("--request-timeout request_seconds", DURATION, "DURATION"),
        "How long to wait for one answer; by default 60s.",
        hidden=True,
    ),
    "now": option(
        *("--now", Text("time", _moment), "TIME"),
        "The time to plan for, RFC 3339 or Unix seconds; by default now, of a recording its newest "
        "metric's; to try a window on a recording, load.maxAge must reach back to its figures.",
    ),
    "state_path": option(
        *("--state state_path", FILE, "FILE"),
        "The state of earlier runs: how long nodes have been hot, and recent moves.",
    ),
    "state_config_map": option(
        *("--state-config-map", OBJECT_NAME, "[NS/]NAME"),
        "The ConfigMap that holds the state of earlier runs.",
    ),
    "scheduler_config": option(
        "--scheduler-config", FILE, "FILE", "A KubeSchedulerConfiguration to use instead of the policy's."
    ),
    "assume_neutral": option(
        *("--assume-neutral", None, "NAME"),
        "An unknown plugin, assumed to score all nodes the same; may be repeated.",
        multiple=True,
        hidden=True,
    ),
}
CONNECTION = {
    field: PLAN[field]
    for field in ("kubeconfig", "context", "kube_cluster", "kube_user", "acts_as", "as_groups")
}
"""How a live cluster is reached, and as whom."""
RECORDED = {field: PLAN[field] for field in ("source", "at", "max_dump_bytes")}
"""Which recorded cluster is read."""
LIVE_PLAN = {field: declared for field, declared in PLAN.items() if field not in RECORDED}


max_size_option = option(
    *("--max-size", SIZE, "SIZE", "How much the folder may hold; the oldest moments go beyond that."),
    default="2Gi",
    show_default=True,
)
journal_option = option(
    "--journal", FILE, "FILE", "File in which each eviction is recorded before it is made."
)
cluster_name_option = option(
    *("--cluster-name cluster", None, "NAME"),
    "What you call the cluster: in plans, questions, the journal and Events, and as a label of metrics.",
    default="",
)


detailed_exitcode_option = click.option(
    "--detailed-exitcode",
    "detailed",
    is_flag=True,
    help="Exit with 10 where the plan moves pods, or two plans differ, and with 0 where not.",
)


def lease_option(meaning: str) -> Option:
    """The option that names the Lease of runs, with what it does for a command."""
    return option("--lease", OBJECT_NAME, "[NS/]NAME", meaning, default="rebalancer", show_default=True)


def max_duration_option(meaning: str) -> Option:
    """The option that ends a run in time, with what it does for a command."""
    return option("--max-duration max_duration_seconds", DURATION, "DURATION", meaning)


def namespace_option(meaning: str) -> Option:
    """The option that names a namespace, with what it does for a command."""
    return option("-n --namespace", None, "NAMESPACE", meaning, shell_complete=completion.namespaces)


def plan_options(**options: Option) -> Callable[[Command], Command]:
    """Give a command options by name; those in ``PLAN`` come as one ``PlanOptions`` named ``options``."""

    def decorate(command: Command) -> Command:
        def wrapped(**values: Any) -> Any:
            given = PlanOptions(**{name: values.pop(name) for name in options if name in PLAN})
            check_options(given)
            return command(options=given, **values)

        return with_options(command, wrapped, options.values())

    return decorate


# By the field of PlanOptions, in the order in which a command that is suggested has them.
_FLAGS = {
    "source": "--from",
    "at": "--at",
    "policy_path": "--policy",
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "kube_cluster": "--cluster",
    "kube_user": "--user",
    "acts_as": "--as",
    "as_groups": "--as-group",
    "now": "--now",
    "state_path": "--state",
    "state_config_map": "--state-config-map",
    "scheduler_config": "--scheduler-config",
    "assume_neutral": "--assume-neutral",
}


def _given(options: PlanOptions, fields: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """The flags of the fields that are set, with their values: one that may be repeated for each value."""
    for field in fields:
        value = getattr(options, field)
        for single_value in value if isinstance(value, tuple) else (value,):
            if single_value is not None:
                yield _FLAGS[field], single_value


def asked_again(command: str, options: PlanOptions) -> str:
    """A command that is suggested, under the name that the user typed and for the same cluster and policy."""
    words = [f"{flag} {shlex.quote(str(value))}" for flag, value in _given(options, _FLAGS)]
    return " ".join((command.replace(PROGRAM, program_name(), 1), *words))


def check_options(options: PlanOptions) -> None:
    """Refuse options for the cluster or the state of which one would be ignored."""
    if options.at is not None and options.source is None:
        raise InputError("--at is a moment of a recorded timeline", hint="name its folder with --from")
    given = dict.fromkeys(flag for flag, _ in _given(options, CONNECTION))
    if options.source is not None and given:
        raise InputError(
            f"--from reads a recorded cluster, {' and '.join(given)} a live one", hint="give one or the other"
        )
    if options.as_groups and options.acts_as is None:
        raise InputError("--as-group says in which groups --as acts", hint="add --as")
    if options.state_path is not None and options.state_config_map is not None:
        raise InputError(
            "--state and --state-config-map each name where the state is kept", hint="give one of them"
        )
    if options.source is not None and options.state_config_map is not None:
        raise InputError(
            "--state-config-map reads a live cluster, --from a recorded one",
            hint="give --state, or record the state with: rebalancer snapshot save --state-config-map",
        )


def _labels(text: str) -> LabelSelector:
    """A label selector, such as ``app=web,tier in (front,back)``."""
    from rebalancer.cluster.selectors import matcher, parse_labels  # noqa: PLC0415 - not for --help

    selector = parse_labels(text)
    matcher(selector)
    return selector


def _fields(text: str, noun: str) -> tuple[FieldRequirement, ...]:
    """Requirements on fields, as ``spec.nodeName=node-1``; others are refused, as the API server does."""
    from rebalancer.cluster.selectors import parse_fields  # noqa: PLC0415 - not for --help
    from rebalancer.reporting.chosen_rows import FIELDS  # noqa: PLC0415 - imports numpy

    requirements = parse_fields(text)
    for requirement in requirements:
        if requirement.path not in FIELDS[noun]:
            fields = ", ".join(FIELDS[noun])
            raise ValueError(f"field {requirement.path[:60]!a} is not supported; known: {fields}")
    return requirements


def _choice_options(noun: str, example: str, *others: Option) -> Callable[[Command], Command]:
    """Options that choose pods or nodes, with the names and meanings of kubectl's."""
    options = (
        *others,
        option(
            *("-l --selector labels", Text("selector", _labels), "SELECTOR"),
            f"Show only {noun} with these labels, e.g. app=web,tier!=cache.",
        ),
        option(
            "--field-selector fields",
            Text("selector", functools.partial(_fields, noun=noun)),
            "SELECTOR",
            f"Show only {noun} with these fields, e.g. {example}.",
        ),
    )

    def decorate(command: Command) -> Command:
        def wrapped(**values: Any) -> Any:
            namespace = values.pop("namespace", None)
            everywhere = values.pop("all_namespaces", False)
            if namespace is not None and everywhere:
                raise InputError("-n asks for one namespace, -A for all of them", hint="give one of them")
            from rebalancer.reporting.chosen_rows import Choice  # noqa: PLC0415 - imports numpy

            choice = Choice(namespace, values.pop("labels"), values.pop("fields") or ())
            return command(choice=choice, **values)

        return with_options(command, wrapped, options)

    return decorate


pod_choice_options = _choice_options(
    "pods",
    "spec.nodeName=node-1",
    namespace_option("Show only the pods of this namespace."),
    click.option(
        "-A", "--all-namespaces", is_flag=True, help="Show the pods of all namespaces (the default)."
    ),
)
"""Give a command the options that choose pods, as one ``Choice`` named ``choice``."""
node_choice_options = _choice_options("nodes", "spec.unschedulable=true")
"""The same for nodes."""


def default_journal() -> Path:
    """The journal of runs on a terminal. Raises InputError for a user without a home."""
    folder = state_folder()
    if folder is None:
        raise InputError("this user has no home folder, where journals are kept", hint="name a file")
    return folder / "journal.jsonl"


def prepare_state_folder() -> None:
    """Create the folder, readable by its owner only; InputError when that cannot be done."""
    folder = default_journal().parent
    with refusing("cannot create", folder, "name a file with --journal"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def refuse_one_file_for_two(options: PlanOptions, written: Mapping[str, Path | None]) -> None:
    """InputError when an option names a file to be written that another option names too."""
    read = _given(options, ("policy_path", "kubeconfig", "scheduler_config"))
    taken = {os.path.realpath(path): flag for flag, path in read}
    for option, path in {"--state": options.state_path, **written}.items():
        if path is None:
            continue
        other = taken.setdefault(os.path.realpath(path), option)
        if other != option:
            raise InputError(
                f"{other} and {option} name the same file, and one would destroy the other",
                where=str(path),
                hint="name two files",
            )
