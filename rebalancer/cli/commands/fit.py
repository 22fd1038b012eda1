"""``rebalancer fit``: how many more pods of one kind the cluster has room for, and where they land."""

from __future__ import annotations

import sys

import click
from msgspec.structs import replace

from rebalancer.cli.options import DOCUMENT_FORMATS, output_options, pipeline_options
from rebalancer.cli.output import Output, emit, progress
from rebalancer.observe.plan_options import PlanOptions


@click.command(short_help="Show how many more pods fit, and where they land.")
@click.argument("path", type=click.Path(dir_okay=False, allow_dash=True), metavar="PODSPEC")
@click.option(
    "-n",
    "--namespace",
    metavar="NAMESPACE",
    help="The namespace of the pods, where the file names none; by default `default`.",
)
@click.option(
    "--at-most",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    metavar="N",
    help="Stop after so many pods.",
)
@pipeline_options
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
    from rebalancer.reporting.tables.questions import fit_table  # noqa: PLC0415 - imports rich
    from rebalancer.run.questions import fit_pods  # noqa: PLC0415 - not for --help

    text, source = _text(path)
    with progress() as report:
        found = fit_pods(replace(options, progress=report), text, source, namespace, at_most)
    emit(found, output, fit_table)


def _text(path: str) -> tuple[str, str]:
    """What a file or standard input holds, and what errors call it."""
    from rebalancer.documents import read_stream, read_text  # noqa: PLC0415 - imports yaml

    if path != "-":
        return read_text(path), path
    return read_stream(sys.stdin.buffer, "standard input"), "standard input"
