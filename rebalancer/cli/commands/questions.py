"""The commands that answer a question about a cluster, or about two plans, and change nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from msgspec.structs import replace

from rebalancer.cli import completion
from rebalancer.cli.options import (
    DOCUMENT_FORMATS,
    FILE,
    PLAN,
    asked_again,
    detailed_exitcode_option,
    namespace_option,
    option,
    output_options,
    plan_options,
)
from rebalancer.cli.output import Output, emit, with_progress
from rebalancer.cli.studies import Cluster, fleet_options, study
from rebalancer.errors import ExitCode, InputError
from rebalancer.observe.plan_options import PlanOptions


@click.command()
@click.argument(
    "subject", metavar="KIND/[NAMESPACE/]NAME", nargs=-1, required=True, shell_complete=completion.subjects
)
@namespace_option("The namespace of a name that has none.")
@plan_options(**PLAN)
@output_options(*DOCUMENT_FORMATS)
def explain(subject: tuple[str, ...], namespace: str | None, options: PlanOptions, output: Output) -> None:
    """Explain one pod, node or workload in full. Only reads.

    KIND is pod (po), node (no), deployment (deploy), statefulset (sts), daemonset (ds), replicaset (rs) or
    job; kubectl's KIND NAME will do as well.

    For a pod: whether it may be evicted, how the scheduler scores the nodes for its replacement, where that
    would run, and what leaving it costs. For a node: why it is hot, and for each pod its share of the load
    and why it would be evicted or not. For a workload: where its pods run, and what the plan does with each.

    \b
    rebalancer explain node/node-1
    rebalancer explain pod/shop/api-7d9f-03 --policy policy.yaml
    rebalancer explain deploy web -n shop
    """
    from rebalancer.run.plan import explain_subject  # noqa: PLC0415 - not for --help

    found = with_progress(explain_subject, options, "/".join(subject), namespace or "")
    from rebalancer.reporting.tables.explain import explain_table  # noqa: PLC0415 - imports rich

    emit(found, output, explain_table)


@click.command("why-not")
@click.argument("subject", metavar="[NODE|POD]", nargs=-1, shell_complete=completion.subjects)
@namespace_option("The namespace of a pod that is named without one.")
@fleet_options()
@output_options(*DOCUMENT_FORMATS)
def why_not(
    subject: tuple[str, ...],
    namespace: str | None,
    options: PlanOptions,
    fleet: tuple[Cluster, ...],
    output: Output,
) -> int:
    """Explain why no pods, or no more pods, would move. Only reads.

    For the cluster or one node: the settings that keep load on hot nodes, with the share of each; or how far
    the nodes are from being hot. For a pod: every rule that keeps it, not only the first. Of several
    clusters, --context again or --from 'recorded/*', each is a row.

    \b
    rebalancer why-not
    rebalancer why-not node/node-1
    rebalancer why-not pod/shop/api-7d9f-03
    """
    from rebalancer.reporting.tables.questions import why_not_table  # noqa: PLC0415 - imports rich
    from rebalancer.run.questions import why_nothing_moves  # noqa: PLC0415 - not for --help

    if fleet:
        from rebalancer.questions import why_not as question  # noqa: PLC0415 - not for --help

        looking = tuple((name, replace(one, ignore_coverage=True)) for name, one in fleet)
        return int(
            study("fleet").show_fleet(looking, output, lambda inputs, _: question.why_not(inputs, None))
        )
    found = with_progress(why_nothing_moves, options, "/".join(subject), namespace or "")
    steps = tuple(asked_again(step, options) for step in found.next_steps)
    emit(replace(found, next_steps=steps), output, why_not_table)
    return int(ExitCode.DONE)


@click.command("what-if")
@option(
    *("--drain drained", None, "NODE"),
    "Cordon a node and evict its pods, as kubectl drain does; may be repeated.",
    multiple=True,
    shell_complete=completion.nodes,
)
@option(
    *("--cordon cordoned", None, "NODE", "Cordon a node; may be repeated."),
    multiple=True,
    shell_complete=completion.nodes,
)
@option(
    *("--add-node added", None, "NODE=N", "Add N nodes like NODE; may be repeated."),
    multiple=True,
    shell_complete=completion.numbered_nodes,
)
@option(
    *("--scale scaled", None, "KIND/[NS/]NAME=N"),
    "Scale a workload to N replicas, e.g. deploy/shop/api=5; may be repeated.",
    multiple=True,
    shell_complete=completion.numbered_workloads,
)
@option(
    *("--current-scheduler-config current", FILE, "FILE"),
    "The KubeSchedulerConfiguration before the change, instead of the policy's.",
)
@plan_options(
    **{
        **PLAN,
        "scheduler_config": option(
            *("--scheduler-config", FILE, "FILE"),
            "What if the scheduler had this KubeSchedulerConfiguration? The same pods by both.",
        ),
    }
)
@output_options(*DOCUMENT_FORMATS)
def what_if(
    drained: tuple[str, ...],
    cordoned: tuple[str, ...],
    added: tuple[str, ...],
    scaled: tuple[str, ...],
    current: Path | None,
    options: PlanOptions,
    output: Output,
) -> None:
    """Show what a change would do to pods and nodes. Only reads; nothing is changed.

    Shows where the affected pods would land, which stay because of a budget, which fit nowhere, and the hot
    nodes before and after. Changes may be combined.

    \b
    rebalancer what-if --drain node-1 --drain node-2
    rebalancer what-if --drain node-1 --add-node node-2=1
    rebalancer what-if --scale deployment/shop/api=12
    rebalancer what-if --scheduler-config other.yaml --from recorded/
    """
    from rebalancer.questions.changes import parse_changes  # noqa: PLC0415 - not for --help
    from rebalancer.reporting.tables.questions import what_if_table  # noqa: PLC0415 - imports rich
    from rebalancer.run.questions import what_if_changed  # noqa: PLC0415 - not for --help

    changes = parse_changes(drained, cordoned, added, scaled)
    before = replace(options, scheduler_config=current)
    emit(with_progress(what_if_changed, before, changes, options.scheduler_config), output, what_if_table)


@click.command(short_help="Show how many more pods fit, and where they land.")
@click.argument("path", type=click.Path(dir_okay=False, allow_dash=True), metavar="PODSPEC")
@namespace_option("The namespace of the pods, where the file names none; by default `default`.")
@option(
    "--at-most", click.IntRange(1, 100_000), "N", "Stop after so many pods.", default=1000, show_default=True
)
@plan_options(**PLAN)
@output_options(*DOCUMENT_FORMATS)
def fit(path: str, namespace: str | None, at_most: int, options: PlanOptions, output: Output) -> None:
    """Show how many more pods fit, where they land, and what stops the next one. Only reads.

    PODSPEC is a YAML or JSON file with a Pod, PodTemplate, Deployment, ReplicaSet, StatefulSet, Job or
    CronJob; - reads standard input. The pods are placed one by one on a copy of the cluster, each at its
    likeliest node.

    \b
    rebalancer fit web.yaml
    kubectl get deployment web -o yaml | rebalancer fit - -n shop
    rebalancer fit web.yaml --from recorded/ -o json
    """
    from rebalancer.documents import read_stream, read_text  # noqa: PLC0415 - imports yaml
    from rebalancer.reporting.tables.questions import fit_table  # noqa: PLC0415 - imports rich
    from rebalancer.run.questions import fit_pods  # noqa: PLC0415 - not for --help

    source = "standard input" if path == "-" else path
    try:
        text = read_stream(sys.stdin.buffer, source) if path == "-" else read_text(path)
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            error.hint = (
                "fit takes a file with pods to come, or -; about pods of the cluster ask rebalancer explain "
                "pod/NAMESPACE/NAME, and why-not"
            )
        raise
    emit(with_progress(fit_pods, options, text, source, namespace, at_most), output, fit_table)


@click.command()
@click.argument("first", type=FILE, metavar="PLAN")
@click.argument("second", type=FILE, metavar="OTHER_PLAN")
@detailed_exitcode_option
@output_options(*DOCUMENT_FORMATS)
def diff(first: Path, second: Path, output: Output, *, detailed: bool) -> int:
    """Show what changes from one plan to another, and why.

    A plan is a file that rebalancer plan -o json or -o html wrote.

    \b
    rebalancer diff yesterday.json today.html
    """
    from rebalancer.planning.plan import difference  # noqa: PLC0415 - imports msgspec
    from rebalancer.reporting.html.embedded import read_plan_file  # noqa: PLC0415
    from rebalancer.reporting.tables.plan import difference_table  # noqa: PLC0415 - imports rich

    found = difference(read_plan_file(first), read_plan_file(second))
    emit(found, output, difference_table)
    return int(ExitCode.CHANGES if detailed and found.changed else ExitCode.DONE)
