"""``rebalancer what-if`` and ``rebalancer fit``: a change, or more pods, on a copy of the cluster."""

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
    namespace_option,
    option,
    output_options,
    plan_options,
)
from rebalancer.cli.output import Output, emit, with_progress
from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions


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
    from rebalancer_lab.what_if.asking import what_if_changed  # noqa: PLC0415 - not for --help
    from rebalancer_lab.what_if.changes import parse_changes  # noqa: PLC0415 - not for --help
    from rebalancer_lab.what_if.tables import what_if_table  # noqa: PLC0415 - imports rich

    changes = parse_changes(drained, cordoned, added, scaled)
    before = replace(options, scheduler_config=current)
    emit(with_progress(what_if_changed, before, changes, options.scheduler_config), output, what_if_table)


@click.command(short_help="Show how many more pods fit, and where they land.")
@click.argument("path", type=click.Path(dir_okay=False, allow_dash=True), metavar="PODSPEC")
@namespace_option("The namespace of the pods, where the file names none; by default `default`.")
@option(
    *("--object named", None, "KIND/NAME"),
    "The object of the file to ask about, where several make pods, e.g. deploy/web.",
    default="",
)
@option(
    "--at-most", click.IntRange(1, 100_000), "N", "Stop after so many pods.", default=1000, show_default=True
)
@plan_options(**PLAN)
@output_options(*DOCUMENT_FORMATS)
def fit(
    path: str, namespace: str | None, named: str, at_most: int, options: PlanOptions, output: Output
) -> None:
    """Show how many more pods fit, where they land, and what stops the next one. Only reads.

    PODSPEC is a file as kubectl reads it, with a Pod or what makes pods: a Deployment, StatefulSet,
    DaemonSet, Job, CronJob, ReplicaSet, PodTemplate, or an Argo Rollout; - reads standard input. Other
    objects in it are passed over. The pods are placed one by one on a copy of the cluster, each at its
    likeliest node; of a DaemonSet, the answer is which nodes cannot take one more.

    \b
    rebalancer fit web.yaml
    kubectl get deployment web -o yaml | rebalancer fit - -n shop
    helm template ./chart | rebalancer fit - --object deploy/web
    rebalancer fit web.yaml --from recorded/ -o json
    """
    from rebalancer.documents.manifests import MAX_MANIFEST_BYTES  # noqa: PLC0415 - imports yaml
    from rebalancer.documents.reading import read_stream, read_text  # noqa: PLC0415 - imports yaml
    from rebalancer_lab.what_if.asking import fit_pods  # noqa: PLC0415 - not for --help
    from rebalancer_lab.what_if.tables import fit_table  # noqa: PLC0415 - imports rich

    source = "standard input" if path == "-" else path
    try:
        text = (
            read_stream(sys.stdin.buffer, source, largest=MAX_MANIFEST_BYTES)
            if path == "-"
            else read_text(path, largest=MAX_MANIFEST_BYTES)
        )
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            error.hint = (
                "fit takes a file with pods to come, or -; about pods of the cluster ask rebalancer explain "
                "pod/NAMESPACE/NAME"
            )
        raise
    emit(with_progress(fit_pods, options, text, source, namespace, named, at_most), output, fit_table)
