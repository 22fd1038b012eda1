"""The options by which a command is asked of several clusters, and how their rows are written.

    --context eu --context us     live clusters
    --from 'recorded/*'           recorded ones

A command gets the clusters as ``fleet``, empty where one cluster is meant.
"""

from __future__ import annotations

import functools
import glob
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from msgspec.structs import replace

from rebalancer import analysis
from rebalancer.cli import completion
from rebalancer.cli.options import PATH, PLAN, Command, Option, check_options, option, plan_options
from rebalancer.cli.output import Output, Rows, emit, progress_bar
from rebalancer.errors import InputError, RebalancerError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.reporting.render import DOCUMENTS, Format

if TYPE_CHECKING:
    from rebalancer.planning.inputs import PlanningInputs
    from rebalancer.planning.plan import Plan
    from rebalancer.reporting.tables.fleet import ClusterRow
    from rebalancer.run.fleet import Cluster

Answer = TypeVar("Answer")

SOURCES = option(
    *("--from source", PATH, "PATH"),
    "Read a recorded cluster: a file or folder of kubectl dumps; a pattern such as 'recorded/*' reads all "
    "that match, a row for each.",
)
_CONTEXTS = option(
    *("--context contexts", None, "NAME"),
    "The kubeconfig's context to use; repeated, a row for each cluster.",
    multiple=True,
    shell_complete=completion.contexts,
)
_PLAN_OF_EACH: Mapping[str, Option] = {
    **{field: item for field, item in PLAN.items() if field not in ("source", "context")},
    "source": SOURCES,
    "contexts": _CONTEXTS,
}
_OF_ONE = {"state_path"}  # what a plan is made from that several clusters cannot share


def fleet_options(
    *of_fleets: str, options: Mapping[str, Option] = _PLAN_OF_EACH
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
            one = replace(options, context=contexts[0]) if contexts else options
            check_options(one)
            fleet: tuple[Cluster, ...] = ()
            if len(set(contexts)) > 1 or glob.has_magic(str(one.source)):
                from rebalancer.run.fleet import clusters_of  # noqa: PLC0415 - not for one cluster

                fleet = clusters_of(one, contexts)
            if fleet:
                _refuse_others(allowed)
            return command(options=one, fleet=fleet, **values)

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


def show_fleet(
    fleet: tuple[Cluster, ...],
    output: Output,
    answer: Callable[[PlanningInputs, Plan], Any],
) -> int:
    """Write a row for the plan of each cluster; ``answer`` is added where programs read it."""
    from rebalancer.run.fleet import planned_row  # noqa: PLC0415 - not for --help

    wanted = answer if output.format in DOCUMENTS else None
    return show_rows(fleet, output, lambda name, options: [planned_row(name, options, wanted)])


def show_rows(
    fleet: tuple[Cluster, ...],
    output: Output,
    rows_of: Callable[[str, PlanOptions], list[ClusterRow]],
) -> int:
    """Write the rows of each cluster, and those that failed; the exit code of all of them."""
    if output.format is Format.HTML:
        raise InputError("-o html shows one cluster", hint="write -o markdown for several")
    from rebalancer.reporting.tables.fleet import fleet_table  # noqa: PLC0415 - imports rich
    from rebalancer.run.fleet import failed_rows, joined  # noqa: PLC0415 - not for --help

    found = joined([row for rows in ask_fleet(fleet, rows_of, failed_rows) for row in rows])
    names = (f"cluster/{row.cluster}" for row in found.clusters)
    emit(found, output, fleet_table, Rows(names, lambda value: analysis.clusters(value.clusters)))
    return found.exit_code


def ask_fleet(
    fleet: Sequence[Cluster],
    ask: Callable[[str, PlanOptions], Answer],
    failed: Callable[[str, RebalancerError], Answer],
) -> Sequence[Answer]:
    """What ``ask`` finds of each cluster, or what ``failed`` makes of its error, while a bar counts them."""
    from rebalancer.run.fleet import ask_each  # noqa: PLC0415 - not for --help

    with progress_bar("clusters", len(fleet)) as advance:
        return list(ask_each(fleet, ask, failed, advance))
