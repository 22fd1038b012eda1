"""The options that several commands share, and the values they are converted to."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from rebalancer.cli.invocation import PROGRAM, program_name
from rebalancer.cli.options.decorated import Command, with_options
from rebalancer.cli.options.formats import DATA_FORMATS, DOCUMENT_FORMATS, ROW_FORMATS, output_options
from rebalancer.cli.options.values import FILE, PATH, Duration, Moment, ObjectName, Size
from rebalancer.errors import InputError
from rebalancer.pipeline import PipelineOptions

__all__ = [
    "DATA_FORMATS",
    "DOCUMENT_FORMATS",
    "FILE",
    "PATH",
    "ROW_FORMATS",
    "Duration",
    "ObjectName",
    "asked_again",
    "check_source",
    "check_state",
    "context_option",
    "journal_option",
    "kubeconfig_option",
    "lease_option",
    "live_pipeline_options",
    "max_dump_size_option",
    "max_duration_option",
    "neutral_option",
    "now_option",
    "output_options",
    "pipeline_options",
    "policy_option",
    "request_timeout_option",
    "scheduler_config_option",
    "service_pipeline_options",
    "source_option",
    "state_config_map_option",
]


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


_PIPELINE: Sequence[Callable[[Any], Any]] = (
    policy_option,
    source_option,
    max_dump_size_option,
    kubeconfig_option,
    context_option,
    request_timeout_option,
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
    "request_seconds",
    "now",
    "state_path",
    "state_config_map",
    "scheduler_config",
    "assume_neutral",
)


def pipeline_options(command: Command) -> Command:
    """Give a command the options of a plan's inputs, as one ``PipelineOptions`` named ``options``."""

    def wrapped(**values: Any) -> Any:
        options = PipelineOptions(**{name: values.pop(name) for name in _FIELDS})
        check_source(options.source, options.kubeconfig, options.context)
        check_state(options.source, options.state_path, options.state_config_map)
        return command(options=options, **values)

    return with_options(command, wrapped, _PIPELINE)


def asked_again(command: str, options: PipelineOptions) -> str:
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


def live_pipeline_options(command: Command) -> Command:
    """The same for a command that acts: what is about recorded clusters is refused, and so not shown."""
    return _without(("source", "max_dump_bytes"), command)


def service_pipeline_options(command: Command) -> Command:
    """The same for a service: it plans for the present, so another time is refused and not shown either."""
    return _without(("source", "max_dump_bytes", "now"), command)


def _without(hidden: Sequence[str], command: Command) -> Command:
    decorated = pipeline_options(command)
    for parameter in decorated.__click_params__:  # type: ignore[attr-defined] # set by click
        parameter.hidden = parameter.name in hidden
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
