"""``rebalancer policy test``: holds the plan of a policy to assertions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rebalancer.cli.options import DOCUMENT_FORMATS, FILE, option, output_options
from rebalancer.cli.output import Output, emit, with_progress
from rebalancer.errors import ExitCode, InputError
from rebalancer.files import named
from rebalancer.observe.plan_options import PlanOptions
from rebalancer_lab.fleet.options import fleet_options

TEST_FAILED = 9  # the exit code where an assertion does not hold; the program has no other meaning for it

if TYPE_CHECKING:
    from rebalancer_lab.fleet.clusters import Cluster


@click.command()
@click.argument("files", type=FILE, nargs=-1, required=True, metavar="ASSERTIONS...")
@option("--junit", FILE, "FILE", "Write the results as JUnit XML too.")
@fleet_options("files", "junit")
@output_options(*DOCUMENT_FORMATS, lists=False)
def check(
    files: tuple[Path, ...],
    junit: Path | None,
    options: PlanOptions,
    fleet: tuple[Cluster, ...],
    output: Output,
) -> int:
    """Hold the plan of a policy to assertions, for a CI. Only reads; exits with 9 if one does not hold.

    ASSERTIONS are YAML files with kind: PolicyTest and mustMove, mustStay, maxEvictions, minEvictions,
    hotNodes, coolNodes or relievedNodes; clusters names those of several that they are about.

    \b
    rebalancer policy test assertions.yaml --from recorded/ --policy policy.yaml
    rebalancer policy test assertions.yaml --from 'recorded/*' --junit junit.xml
    """
    from rebalancer_lab.fleet.clusters import ask_fleet  # noqa: PLC0415 - not for --help
    from rebalancer_lab.policy_tests.checking import check_policy, not_read, read_tests  # noqa: PLC0415
    from rebalancer_lab.policy_tests.reports import (  # noqa: PLC0415 - imports rich
        PolicyTestReports,
        junit_xml,
        policy_tests_table,
    )

    if fleet:
        tests = read_tests(files, [name for name, _ in fleet])
        by_cluster = ask_fleet(
            fleet, lambda name, cluster_options: check_policy(cluster_options, tests, name), not_read
        )
        reports = tuple(report for of_cluster in by_cluster for report in of_cluster)
    else:
        name = options.context or (named(Path(options.source.name)) if options.source else "")
        reports = with_progress(check_policy, options, read_tests(files, [name]), name)
    if junit is not None:
        try:
            junit.write_text(junit_xml(reports), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write: {error.strerror or error}", where=str(junit)) from error
    failed = sum(report.failed for report in reports)
    emit(PolicyTestReports(reports=reports, failed=failed), output, policy_tests_table)
    unread = ExitCode.PARTLY_DONE if any(report.error for report in reports) else ExitCode.DONE
    return int(TEST_FAILED if failed else unread)
