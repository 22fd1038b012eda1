"""``rebalancer explain``: the full explanation for one pod, one node or one workload."""

from __future__ import annotations

import click
from msgspec.structs import replace

from rebalancer.cli.options import DOCUMENT_FORMATS, output_options, pipeline_options
from rebalancer.cli.output import Output, emit, progress
from rebalancer.observe.plan_options import PlanOptions


@click.command()
@click.argument("subject", metavar="KIND/[NAMESPACE/]NAME", nargs=-1, required=True)
@click.option("-n", "--namespace", metavar="NAMESPACE", help="The namespace of a name that has none.")
@pipeline_options
@output_options(*DOCUMENT_FORMATS)
def explain(subject: tuple[str, ...], namespace: str | None, options: PlanOptions, output: Output) -> None:
    """Explain one pod, node or workload in full. Only reads.

    KIND is pod (po), node (no), deployment (deploy), statefulset (sts), daemonset (ds), replicaset (rs) or
    job; kubectl's KIND NAME will do as well.

    For a pod: whether it may be evicted, how the scheduler scores the nodes for its replacement, where that
    would run, and what leaving it costs. For a node: why it is hot, and for each pod its share of the load
    and why it would be evicted or not. For a workload: where its pods run, and what the plan does with each.
    """
    from rebalancer.reporting.tables.explain import explain_table  # noqa: PLC0415 - imports rich
    from rebalancer.run.plan import explain_subject  # noqa: PLC0415 - not for --help

    name = "/".join(subject)
    with progress() as report:
        looking = replace(options, progress=report)
        explanation = explain_subject(looking, name, namespace or "")
    emit(explanation, output, explain_table)
