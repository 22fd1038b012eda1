"""``rebalancer version``: which version this is, and which schedulers it is verified against."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from rebalancer import __version__
from rebalancer.cli.options import DOCUMENT_FORMATS, output_options
from rebalancer.cli.output import Output, emit

if TYPE_CHECKING:
    from rich.text import Text

    from rebalancer.reporting.tables.text import Style


@click.command(short_help="Show the version, and the Kubernetes versions verified.")
@output_options(*DOCUMENT_FORMATS, lists=False)
def version(output: Output) -> None:
    """Show the version, and the Kubernetes versions it is verified against.

    It does not ask a cluster.
    """
    from rebalancer.scheduling.versions.verified import VERIFIED  # noqa: PLC0415 - not for --help

    value = {
        "apiVersion": "rebalancer/v1alpha1",
        "kind": "Version",
        "version": __version__,
        "verifiedKubernetes": list(VERIFIED),
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    emit(value, output, _table)


def _table(value: Mapping[str, Any], style: Style) -> Text:
    from rebalancer.reporting.tables.text import Lines  # noqa: PLC0415 - imports rich

    table = Lines(style)
    table.add(f"rebalancer {value['version']}")
    table.add(f"verified against kube-scheduler {', '.join(value['verifiedKubernetes'])}")
    table.add(f"Python {value['python']} on {value['platform']}")
    return table.text
