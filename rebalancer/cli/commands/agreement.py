"""``rebalancer agreement``: do schedulers decide as computed? ``agreement why``: one of their decisions."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource
from msgspec.structs import replace

from rebalancer.cli.options import (
    DOCUMENT_FORMATS,
    DURATION,
    FILE,
    LIVE_PLAN,
    PLAN,
    option,
    output_options,
    plan_options,
)
from rebalancer.cli.output import Output, emit, progress, with_progress, write
from rebalancer.errors import ExitCode, InputError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.reporting.render import Format


@click.group(
    invoke_without_command=True, short_help="Compare each decision of the scheduler with what is computed."
)
@option(
    *("--for seconds", DURATION, "DURATION", "How long to follow the cluster."),
    default="10m",
    show_default=True,
)
@option("--decisions", click.IntRange(1), "N", "Stop after so many decisions.")
@plan_options(**{field: declared for field, declared in LIVE_PLAN.items() if field != "now"})
@output_options(*DOCUMENT_FORMATS, Format.HTML)
@click.pass_context
def agreement(
    context: click.Context, seconds: float, decisions: int | None, options: PlanOptions, output: Output
) -> int:
    """Follow the cluster, and compare each decision of its schedulers with what is computed. Only reads.

    For every pod that a scheduler binds, the decision is computed on the cluster as it was just before: is
    the node chosen one of those computed, and with what chance? A miss names the plugins that could be the
    difference. A signal ends it early, and what was found so far is shown.

    \b
    rebalancer agreement --for 1h
    rebalancer agreement --decisions 1000 -o json
    rebalancer agreement --for 1h -o html > agreement.html
    rebalancer agreement why pod/shop/api-7d9f-03
    """
    if context.invoked_subcommand is not None:
        _refuse_before_subcommand(context)
        return int(ExitCode.DONE)
    from rebalancer.agreement.following import watch_agreement  # noqa: PLC0415 - imports the whole pipeline
    from rebalancer.agreement.tables import agreement_table, headline  # noqa: PLC0415 - imports rich

    with progress() as report:
        watched = watch_agreement(
            replace(options, progress=report),
            seconds,
            decisions,
            lambda tally, _: report(f"the cluster's decisions: {headline(tally.decisions, tally.landed)}"),
        )
    if output.format is Format.HTML:
        from rebalancer.agreement.tables import agreement_page  # noqa: PLC0415 - imports jinja2

        write(agreement_page(watched))
    else:
        emit(watched, output, agreement_table)
    return int(ExitCode.DONE)


def _refuse_before_subcommand(context: click.Context) -> None:
    """Refuse options that follow the cluster where a subcommand does something else."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            raise InputError(
                f"{parameter.opts[-1]} stands before {context.invoked_subcommand}",
                hint=f"put it behind, if {context.invoked_subcommand} has such an option",
            )


@agreement.command()
@click.argument("subject", metavar="pod/[NAMESPACE/]NAME", nargs=-1, required=True)
@option("-n --namespace", None, "NAMESPACE", "The namespace of a name that has none.")
@option(
    *("--decisions recorded", FILE, "FILE"),
    "Look into what agreement -o json or serve --decisions wrote, instead of computing anew.",
)
@plan_options(**PLAN)
@output_options(*DOCUMENT_FORMATS)
def why(
    subject: tuple[str, ...],
    namespace: str | None,
    recorded: Path | None,
    options: PlanOptions,
    output: Output,
) -> None:
    """Explain why a pod is on its node: every node that could have taken it, by score plugin. Only reads.

    With --decisions as it was when the pod was bound; without, computed on the cluster as it is now, with the
    pod taken away. Of a timeline (--from), computed at the moment when the pod was bound.

    \b
    rebalancer agreement why pod/shop/api-7d9f-03
    rebalancer agreement why pod/shop/api-7d9f-03 --decisions agreement.json
    """
    from rebalancer.agreement.following import why_there  # noqa: PLC0415 - imports the whole pipeline
    from rebalancer.agreement.tables import why_table  # noqa: PLC0415 - imports rich

    emit(with_progress(why_there, options, "/".join(subject), namespace or "", recorded), output, why_table)
