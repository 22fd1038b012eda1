"""``rebalancer explain``: what a plan does with a pod, a node or a workload, or why it moves no more."""

from __future__ import annotations

import click
from msgspec.structs import replace

from rebalancer.cli import completion
from rebalancer.cli.options import (
    DOCUMENT_FORMATS,
    PLAN,
    asked_again,
    namespace_option,
    output_options,
    plan_options,
)
from rebalancer.cli.output import Output, emit, with_progress
from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions


@click.command(short_help="Explain a pod, a node or a workload, or why no more pods move.")
@click.argument("subject", metavar="[KIND/[NAMESPACE/]NAME]", nargs=-1, shell_complete=completion.subjects)
@namespace_option("The namespace of a name that has none.")
@plan_options(**PLAN)
@output_options(*DOCUMENT_FORMATS)
def explain(subject: tuple[str, ...], namespace: str | None, options: PlanOptions, output: Output) -> None:
    """Explain one pod, node or workload in full, or without one, why no more pods would move. Only reads.

    KIND is pod (po), node (no), deployment (deploy), statefulset (sts), daemonset (ds), replicaset (rs) or
    job; kubectl's KIND NAME will do as well, and NAME where only one thing has it.

    For a pod: whether it may be evicted and every rule that protects it, how the scheduler scores the nodes
    for its replacement, where that would run, and what leaving it costs. For a node: why it is hot, and for
    each pod its share of the load and why it would be evicted or not. For a workload: where its pods run, and
    what the plan does with each. Without a name: the settings that keep load on hot nodes, with the share of
    each, or how far the nodes are from being hot.

    \b
    rebalancer explain
    rebalancer explain node/node-1
    rebalancer explain pod/shop/api-7d9f-03 --policy policy.yaml
    rebalancer explain deploy web -n shop
    """
    if namespace is not None and not subject:
        raise InputError("-n is the namespace of a name", hint="name a pod or a workload, or leave it out")
    from rebalancer.run.plan import explain_cluster, explain_subject  # noqa: PLC0415 - not for --help

    if subject:
        explanation = with_progress(explain_subject, options, "/".join(subject), namespace or "")
        from rebalancer.reporting.tables.explain import explain_table  # noqa: PLC0415 - imports rich

        emit(explanation, output, explain_table)
        return
    answer = with_progress(explain_cluster, options)
    from rebalancer.reporting.tables.explain import cluster_table  # noqa: PLC0415 - imports rich

    steps = tuple(asked_again(step, options) for step in answer.next_steps)
    emit(replace(answer, next_steps=steps), output, cluster_table)
