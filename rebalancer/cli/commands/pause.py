"""``rebalancer pause`` and ``rebalancer resume``: the brake of all runs that share a Lease."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from rebalancer.cli.options import CONNECTION, PLAN, lease_option, plan_options
from rebalancer.cli.output import write
from rebalancer.observe.plan_options import PlanOptions, open_api

if TYPE_CHECKING:
    from rebalancer.execution.lease import RunLease

_LEASE = lease_option("The Lease of the runs.")
_OPTIONS = {**CONNECTION, "request_seconds": PLAN["request_seconds"], "lease": _LEASE}


@click.command()
@click.argument("reason")
@plan_options(**_OPTIONS)
def pause(reason: str, options: PlanOptions, lease: str) -> None:
    """Let no run evict anything, also one that is at work.

    Annotates the Lease of the runs, which they read before each eviction: pods that were evicted before are
    still followed. Where no run was made yet, the Lease is made.

    \b
    rebalancer pause "incident 42"
    kubectl -n rebalancer annotate lease rebalancer rebalancer/paused=why
    """
    run_lease = _lease(options, lease)
    run_lease.pause(reason)
    write(f"{run_lease.why_paused()}\n")


@click.command()
@plan_options(**_OPTIONS)
def resume(options: PlanOptions, lease: str) -> None:
    """Let runs evict again that were paused with rebalancer pause.

    \b
    rebalancer resume
    kubectl -n rebalancer annotate lease rebalancer rebalancer/paused-
    """
    run_lease = _lease(options, lease)
    changed = run_lease.pause(None)
    before = "" if changed else "they were not paused: "
    write(f"{before}runs with the {run_lease.where} may evict at {run_lease.api.host}\n")


def _lease(options: PlanOptions, lease: str) -> RunLease:
    from rebalancer.execution.lease import RunLease, holder_identity  # noqa: PLC0415 - not for --help

    api = open_api(options)
    assert api is not None  # no option names a recorded cluster
    namespace, name = lease.split("/")
    return RunLease(api, namespace, name, holder_identity("pause"), time.time)
