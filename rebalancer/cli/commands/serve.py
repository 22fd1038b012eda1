"""``rebalancer serve``: a run at every interval, until it is asked to stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from rebalancer import __version__
from rebalancer.cli.invocation import LOGGER
from rebalancer.cli.options import (
    FILE,
    LIVE_PLAN,
    PATH,
    Text,
    address,
    cluster_name_option,
    journal_option,
    lease_option,
    max_duration_option,
    max_size_option,
    option,
    plan_options,
    refuse_one_file_for_two,
)
from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions

if TYPE_CHECKING:
    from rebalancer.planning.inputs import Observation
    from rebalancer.state.run_state import RunState


def _recorder(folder: Path, max_bytes: int) -> Callable[[Observation, RunState | None], None]:
    """Writes what was observed; a folder that cannot be written to ends no run."""
    from rebalancer.observe.timeline import TimelineWriter  # noqa: PLC0415 - not for --help

    writer = TimelineWriter(folder, max_bytes)

    def write(observation: Observation, state: RunState | None) -> None:
        try:
            if not writer.write(observation, state):
                LOGGER.warning("this moment is not recorded: %s", writer.why_nothing)
        except InputError as error:
            LOGGER.warning("this moment is not recorded: %s", error)

    return write


@click.command(short_help="Plan, or run, again and again for as long as it lives.")
@plan_options(**{field: declared for field, declared in LIVE_PLAN.items() if field != "now"})
@click.option("--act", is_flag=True, help="Evict what is planned; without it nothing is ever changed.")
@option(
    *("--listen", Text("address", address), "[ADDRESS]:PORT"),
    "Where /healthz, /readyz and /metrics are answered.",
    default="127.0.0.1:8080",
    show_default=True,
)
@max_duration_option("A run starts no new wave after this time; by default execution.maxDuration, else 5m.")
@lease_option("The Lease by which one of several replicas leads; runs of other kinds wait for it too.")
@journal_option
@option(
    "--record", PATH, "FOLDER", "Write what each run read into the timeline of this folder, which plans read."
)
@max_size_option
@option(
    *("--decisions", FILE, "FILE"),
    "Append every decision of a scheduler that is compared to this file, which agreement why reads.",
)
@cluster_name_option
def serve(
    options: PlanOptions, listen: tuple[str, int], record: Path | None, max_size: int, **values: Any
) -> int:
    """Plan at every hotNodes.runInterval of the policy, and with --act carry the plan out.

    Answers probes and Prometheus, takes over a changed policy between two runs, and hands over to another
    replica when it is asked to stop.
    """
    if values["act"] and options.policy_path is None:
        raise InputError(
            "serve --act evicts by a policy, and none is given",
            hint="rebalancer policy init writes one; then --policy FILE",
        )
    refuse_one_file_for_two(options, {"--journal": values["journal"], "--decisions": values["decisions"]})
    from rebalancer.service import Service, ServiceOptions  # noqa: PLC0415 - imports the whole pipeline
    from rebalancer.traces import LEAVING_SECONDS, exported_traces  # noqa: PLC0415 - only here

    if record is not None:
        options = replace(options, observed=_recorder(record, max_size))
    options = replace(options, cluster_name=values["cluster"])
    settings = ServiceOptions(host=listen[0], port=listen[1], **values)
    with exported_traces(__version__, LEAVING_SECONDS):
        return Service(options, settings).serve()
