"""The options by which several clusters are named, and the clusters that they name.

--context eu --context us     live clusters
--from 'recorded/*'           recorded ones
"""

from __future__ import annotations

import functools
import glob
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from rebalancer import files
from rebalancer.cli import completion
from rebalancer.cli.options import PATH, PLAN, Command, Option, check_options, option, plan_options
from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions

if TYPE_CHECKING:
    from rebalancer_lab.fleet.clusters import Cluster

SOURCES = option(
    *("--from source", PATH, "PATH"),
    "Read a recorded cluster: a file or folder of kubectl dumps; a pattern such as 'recorded/*' reads all "
    "that match, a row for each.",
)
CONTEXTS = option(
    *("--context contexts", None, "NAME"),
    "The kubeconfig's context; repeated, a row for each.",
    multiple=True,
    shell_complete=completion.contexts,
)
PLAN_OF_EACH: Mapping[str, Option] = {
    **{field: plan_option for field, plan_option in PLAN.items() if field not in ("source", "context")},
    "source": SOURCES,
    "contexts": CONTEXTS,
}
_OF_ONE = {"state_path"}  # what a plan is made from that several clusters cannot share


def several_clusters(options: Mapping[str, Option]) -> Callable[[Command], Command]:
    """Give a command these options, and the clusters that they name as ``fleet``, of which there are some."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(options: PlanOptions, contexts: tuple[str, ...] = (), **values: Any) -> Any:
            if options.source is None and not contexts:
                raise InputError("which clusters?", hint="give --context for each, or --from 'recorded/*'")
            for context in contexts or (None,):
                check_options(replace(options, context=context))
            from rebalancer_lab.fleet.clusters import clusters_of  # noqa: PLC0415 - not for --help

            return command(fleet=clusters_of(options, contexts), **values)

        return plan_options(**options)(wrapped)  # type: ignore[return-value] # under the command's name

    return decorate


def fleet_options(
    *of_fleets: str, options: Mapping[str, Option] = PLAN_OF_EACH
) -> Callable[[Command], Command]:
    """As ``plan_options``, for one cluster or several; ``of_fleets`` are other options that suit several."""
    allowed = {
        *options,
        *of_fleets,
        "output_format",
        "everything",
        "top",
        "width",
        "no_headers",
        "verbose",
    } - _OF_ONE

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(options: PlanOptions, contexts: tuple[str, ...] = (), **values: Any) -> Any:
            first_options = replace(options, context=contexts[0]) if contexts else options
            check_options(first_options)
            fleet: tuple[Cluster, ...] = ()
            source = first_options.source
            pattern = source is not None and glob.has_magic(str(source)) and not files.is_there(source)
            if pattern or len(set(contexts)) > 1:
                from rebalancer_lab.fleet.clusters import clusters_of  # noqa: PLC0415 - not for --help

                fleet = clusters_of(first_options, contexts)
            if fleet:
                _refuse_others(allowed)
            return command(options=first_options, fleet=fleet, **values)

        return plan_options(**options)(wrapped)  # type: ignore[return-value] # under the command's name

    return decorate


def _refuse_others(allowed: set[str]) -> None:
    """Refuse what was given and says nothing of several clusters."""
    context = click.get_current_context()
    given = [
        parameter.opts[0] if isinstance(parameter, click.Option) else str(parameter.metavar)
        for parameter in context.command.params
        if parameter.name not in allowed
        and context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise InputError(
            f"{' and '.join(given)} asks about one cluster, and several are named", hint="leave one out"
        )
