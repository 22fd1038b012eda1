"""``rebalancer plan``: what would be evicted, why, and where it would land."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from rebalancer import analysis
from rebalancer.cli.options import (
    DOCUMENT_FORMATS,
    FILE,
    PLAN,
    ROW_FORMATS,
    cluster_name_option,
    detailed_exitcode_option,
    option,
    output_options,
    plan_options,
    pod_choice_options,
)
from rebalancer.cli.output import Output, Rows, emit, with_progress, write_page
from rebalancer.errors import ExitCode, InputError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.reporting.render import DOCUMENTS, TABLES, Format

if TYPE_CHECKING:
    from rich.text import Text

    from rebalancer.cluster.snapshot import Snapshot
    from rebalancer.planning.plan import Plan
    from rebalancer.reporting.chosen_rows import Choice
    from rebalancer.reporting.tables.text import Style

_ORDERS = ("wave", "gain", "chance", "pod", "from", "to")


@click.command()
@plan_options(**PLAN)
@output_options(*ROW_FORMATS)
@pod_choice_options
@click.option(
    "--sort",
    type=click.Choice(_ORDERS),
    default="wave",
    show_default=True,
    help="Order of the moves: as they are carried out, the highest gain or chance first, or by name.",
)
@option(
    *("--diff other", FILE, "PLAN_OR_POLICY"),
    "Show what is different with another policy, or in a plan that was written to a file, and why.",
)
@cluster_name_option
@detailed_exitcode_option
def plan(
    options: PlanOptions,
    output: Output,
    choice: Choice,
    sort: str,
    other: Path | None,
    cluster: str,
    *,
    detailed: bool,
) -> int:
    """Show what would be evicted, why, and where it would land. Only reads.

    -n, -l and --field-selector filter the output only. --from also takes a plan that -o html or -o json
    wrote, and shows it again.

    \b
    rebalancer plan
    rebalancer plan --policy policy.yaml -l app=web --sort gain
    rebalancer plan --from recorded/ -o html > plan.html
    rebalancer plan --policy policy.yaml --diff bolder.yaml
    rebalancer plan --from yesterday.json --diff today.json
    """
    if cluster and options.source is not None:
        raise InputError("--cluster-name names a live cluster, and --from reads a recorded one")
    options = replace(options, cluster_name=cluster)
    changes = _show_plan(options, output, choice, sort, other)
    return int(ExitCode.CHANGES if detailed and changes else ExitCode.DONE)


def _show_plan(options: PlanOptions, output: Output, choice: Choice, sort: str, other: Path | None) -> bool:
    """Write the plan of one cluster; whether it evicts pods, or differs from that of the other policy."""
    chosen = bool(choice) or sort != "wave"
    if other is not None:
        return _write_difference(options, output, other, chosen=chosen)
    recorded_plan = _recorded_plan(options)
    if chosen and output.format in {*DOCUMENTS, Format.HTML}:
        raise InputError(
            f"-n, -l, --field-selector and --sort choose and order rows, and -o {output.format} prints the "
            "whole plan",
            hint="leave one of them out",
        )
    if output.format is not Format.HTML:
        return _write_rows(options, output, recorded_plan, choice, sort)
    if recorded_plan is not None:
        raise InputError("this is a plan already", where=str(options.source), hint="copy it")
    from rebalancer.run.plan import make_reported_plan  # noqa: PLC0415 - not for --help

    plan, policy, tables = with_progress(make_reported_plan, options)
    write_page(plan, policy, tables)
    return bool(plan.moves or plan.cleanups)


def _recorded_plan(options: PlanOptions) -> Plan | None:
    """The plan in a file that --from names; None for a cluster."""
    if options.source is None:
        return None
    from rebalancer.reporting.html.embedded import holds_plan, read_plan_file  # noqa: PLC0415 - imports yaml

    if not holds_plan(options.source):
        return None
    if options != PlanOptions(source=options.source):
        raise InputError(
            "this is a plan that was made, with its policy and its moment",
            where=str(options.source),
            hint="give --from alone",
        )
    return read_plan_file(options.source)


def _write_rows(
    options: PlanOptions, output: Output, recorded_plan: Plan | None, choice: Choice, sort: str
) -> bool:
    """Write the plan to stdout, with the moves and pods of the choice; whether it moves pods."""
    whole, snapshot = _plan_and_snapshot(options, recorded_plan, choice)
    from rebalancer.reporting.chosen_rows import chosen_pods, sorted_moves  # noqa: PLC0415 - after the reading

    def table(plan: Plan, style: Style) -> Text:
        from rebalancer.reporting.tables.plan import plan_table  # noqa: PLC0415 - imports rich

        return plan_table(plan, style, rows=rows, choice=str(choice))

    rows = sorted_moves(chosen_pods(whole, choice, snapshot), sort)
    names = (f"pod/{move.pod.full_name}" for move in rows.moves)
    emit(whole if output.format in TABLES else rows, output, table, Rows(names, analysis.moves))
    return bool(whole.moves or whole.cleanups)


def _plan_and_snapshot(
    options: PlanOptions, recorded_plan: Plan | None, choice: Choice
) -> tuple[Plan, Snapshot | None]:
    """The plan, and the cluster that it was made for if pods cannot be chosen without that."""
    from rebalancer.run.plan import make_plan, make_plan_and_snapshot  # noqa: PLC0415 - not for --help

    if recorded_plan is not None:
        if choice.needs_snapshot:
            raise InputError("a plan does not hold what -l and this --field-selector choose by")
        return recorded_plan, None
    if choice.needs_snapshot or choice.namespace is not None:
        from rebalancer.reporting.chosen_rows import ensure_namespace  # noqa: PLC0415 - after the reading

        plan, snapshot = with_progress(make_plan_and_snapshot, options)
        ensure_namespace(choice, snapshot)
        return plan, snapshot
    return with_progress(make_plan, options), None


def _write_difference(options: PlanOptions, output: Output, other: Path, *, chosen: bool) -> bool:
    """Write what is different in another plan to stdout; whether anything is."""
    from rebalancer.reporting.html.embedded import holds_plan, read_plan_file  # noqa: PLC0415
    from rebalancer.reporting.tables.plan import difference_table  # noqa: PLC0415 - imports rich
    from rebalancer.run.plan import diff_policies, make_plan  # noqa: PLC0415 - not for --help

    if output.format not in {*TABLES, *DOCUMENT_FORMATS}:
        raise InputError(
            f"--diff shows two plans side by side, -o {output.format} lists the rows of one",
            hint="leave one of them out",
        )
    if chosen:
        raise InputError("--diff compares whole plans", hint="leave out -n, -l, --field-selector and --sort")
    recorded_plan = _recorded_plan(options)
    if holds_plan(other):
        from rebalancer.planning.plan import difference  # noqa: PLC0415 - after the options are checked

        theirs = read_plan_file(other)
        compared = difference(recorded_plan or with_progress(make_plan, options), theirs)
    elif recorded_plan is not None:
        raise InputError(
            "a plan that was made is compared with another plan", where=str(other), hint="give a plan"
        )
    else:
        compared = with_progress(diff_policies, options, other)
    emit(compared, output, difference_table)
    return bool(compared.changed)
