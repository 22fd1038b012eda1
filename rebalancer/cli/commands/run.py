"""``rebalancer run``: plan, evict in waves, verify every landing."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
from msgspec.structs import replace

from rebalancer import __version__, files
from rebalancer.addresses import checked_address
from rebalancer.cli.invocation import LOGGER, Session, is_closed
from rebalancer.cli.options import (
    FILE,
    LIVE_PLAN,
    RUN_FORMATS,
    cluster_name_option,
    default_journal,
    journal_option,
    lease_option,
    max_duration_option,
    option,
    output_options,
    plan_options,
    prepare_state_folder,
    refuse_one_file_for_two,
)
from rebalancer.cli.output import Output, console, emit, progress, show, style, write_page
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import ExitCode, InputError, RebalancerError, StopRequestedError
from rebalancer.observe.plan_options import MAX_CONFIRMATION_SECONDS, PlanOptions, RunOptions, policy_of
from rebalancer.reporting.render import TABLES, Format
from rebalancer.traces import exported_traces

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from rebalancer.execution.outcomes import Outcomes
    from rebalancer.planning.plan import Plan
    from rebalancer.policy.schema import RebalancePolicy
    from rebalancer.reporting.metrics import RunMetrics

_PUSH_SECONDS = 10.0


@click.command()
@plan_options(**LIVE_PLAN)
@click.option(
    "--dry-run", is_flag=True, help="Ask the API server whether it would allow each eviction; evict nothing."
)
@journal_option
@max_duration_option(
    "Start no new wave after this time, whatever execution.maxDuration says; the run ends at most "
    "execution.waveTimeout later."
)
@lease_option("The Lease that keeps two runs from acting at the same time.")
@option("--metrics-textfile", FILE, "FILE", "File to which Prometheus metrics of the run are written.")
@option(
    *("--metrics-push", None, "URL"),
    "Pushgateway to which Prometheus metrics of the run are pushed, as job rebalancer.",
)
@cluster_name_option
@click.option(
    "--yes",
    is_flag=True,
    help="Do not ask for confirmation; needed without a terminal, except by the account of its own pod.",
)
@output_options(*RUN_FORMATS)
@click.pass_obj
def run(
    session: Session,
    /,
    options: PlanOptions,
    output: Output,
    yes: bool,
    **run_values: object,
) -> int:
    """Plan, evict in waves and verify every landing.

    run and serve --act evict pods. pause and resume annotate their Lease; every other command only reads.

    \b
    rebalancer run --policy policy.yaml --dry-run
    rebalancer run --policy policy.yaml --journal evictions.jsonl
    rebalancer run --policy policy.yaml --yes --max-duration 30m
    """
    run_options = RunOptions(**run_values)  # type: ignore[arg-type] # click converted each
    if options.policy_path is None:
        raise InputError(
            "run evicts by a policy, and none is given",
            hint="rebalancer policy init writes one; then --policy FILE",
        )
    if options.now is not None and not run_options.dry_run:
        # At another time than now, old figures look fresh, cooldowns are over and windows are open.
        raise InputError("a run acts now, not at the time of --now", hint="add --dry-run, or leave out --now")
    run_options = _with_journal(run_options)
    written = {"--journal": run_options.journal, "--metrics-textfile": run_options.metrics_textfile}
    refuse_one_file_for_two(options, written)
    for name, path in written.items():
        _check_written(name, path)
    _check_gateway(run_options.metrics_push)
    ask = not yes and not run_options.dry_run
    if ask and not _can_be_asked():
        _refuse_unattended(options)
        ask = False
    policy = _policy_for_page(options) if output.format is Format.HTML else None
    code = int(ExitCode.INTERNAL)
    metrics = _wanted_metrics(run_options)
    with exported_traces(__version__):
        try:
            dry_run = run_options.dry_run
            stop = StopRequest()
            options = replace(options, cluster_name=run_options.cluster)
            shown = functools.partial(_show_plan, stop=stop, output=output, dry_run=dry_run, ask=ask)
            plan, outcomes = _carried_out(options, run_options, stop, shown, metrics)
            code = session.exit_code = outcomes.exit_code
        except RebalancerError as error:
            code = int(error.exit_code)
            raise
        finally:
            if metrics is not None:
                metrics.ended(code, time.time())
                _export(metrics.registry, run_options)
    from rebalancer.reporting.tables.outcomes import outcomes_table  # noqa: PLC0415

    if policy is not None:
        write_page(plan, policy, {}, outcomes)
        return code
    emit(outcomes, output, outcomes_table)
    return code


def _export(registry: CollectorRegistry, options: RunOptions) -> None:
    """Write and push metrics; a failure is only a warning."""
    from http.client import HTTPException  # noqa: PLC0415 - slow to import, as the next one

    from prometheus_client import generate_latest, push_to_gateway, write_to_textfile  # noqa: PLC0415

    path = options.metrics_textfile
    gateway = options.metrics_push
    if path is not None:
        try:
            if files.is_there(path) and not files.is_file(path):
                path.write_bytes(generate_latest(registry))  # /dev/stderr and its like are not replaced
            else:
                write_to_textfile(os.path.realpath(path), registry)
        except OSError as error:
            LOGGER.warning("cannot write metrics to %s: %s", str(path), error.strerror or error)
    if gateway is not None:
        try:
            checked_address(gateway if "://" in gateway else f"http://{gateway}")  # says nothing of a login
            push = functools.partial(push_to_gateway, gateway, job="rebalancer", registry=registry)
            # Its own timeout begins anew with every byte.
            limit = Deadline().within(_PUSH_SECONDS)
            limit.bound("push metrics", functools.partial(push, timeout=_PUSH_SECONDS))
        except (OSError, ValueError, HTTPException) as error:
            LOGGER.warning("cannot push metrics to %s: %s", gateway, getattr(error, "reason", error))


def _policy_for_page(options: PlanOptions) -> RebalancePolicy:
    """The policy as it is before the run, which may last long enough for the file to change."""
    path = options.policy_path
    if path is not None and not files.is_file(path):
        raise InputError("-o html reads the policy twice", where=str(path), hint="give a file to --policy")
    return policy_of(options).policy


def _check_gateway(gateway: str | None) -> None:
    """Refuse a Pushgateway whose address is none, before anything is evicted."""
    if gateway is None:
        return
    try:
        url = urlsplit(checked_address(gateway if "://" in gateway else f"http://{gateway}"))
        is_address = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        is_address &= "://" in gateway or url.port is not None
        has_more = "@" in url.netloc or bool(url.query or url.fragment)
    except ValueError:
        is_address = False
        has_more = False
    if is_address and has_more:  # what pushes takes the login for a part of the host, and appends its path
        raise InputError(
            "--metrics-push takes an address without a login, ? and #",
            hint="use --metrics-textfile where a Pushgateway wants a login",
        )
    if not is_address:
        raise InputError("--metrics-push is not the address of a Pushgateway", hint="give HOST:PORT or a URL")


def _check_written(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written, before the cluster is read."""
    if path is None:
        return
    where = str(path)
    if not files.is_folder(path.parent):
        raise InputError("its folder does not exist", where=where, hint=f"make it, or give another {option}")
    if files.is_folder(path):
        raise InputError("is a folder", where=where, hint=f"give a file to {option}")
    if not os.access(path if files.may_exist(path) else path.parent, os.W_OK):
        raise InputError("may not be written", where=where, hint=f"give another file to {option}")


def _carried_out(
    options: PlanOptions,
    run_options: RunOptions,
    stop: StopRequest,
    show_plan: Callable[[Plan], None],
    metrics: RunMetrics | None,
) -> tuple[Plan, Outcomes]:
    from rebalancer.reporting.run_observers import observer  # noqa: PLC0415
    from rebalancer.run.run import run  # noqa: PLC0415 - not for --help

    waiting = contextlib.ExitStack()

    def planned(plan: Plan) -> None:
        waiting.close()  # the run's observer shows what the run reads and plans
        if metrics is not None:
            metrics.planned(plan)
        show_plan(plan)

    journaled = run_options.journal is None  # then it goes to stderr, where the log goes
    with (
        observer(console(stderr=True), LOGGER, dry_run=run_options.dry_run, journaled=journaled) as watching,
        waiting,
    ):
        report = waiting.enter_context(progress())
        return run(
            replace(options, progress=report),
            run_options,
            (watching,) if metrics is None else (watching, metrics.follow),
            stop,
            planned,
        )


def _refuse_unattended(options: PlanOptions) -> None:
    """Refuse to evict where nobody can be asked, unless a pod was started in the cluster for that."""
    from rebalancer.cluster.live.login import Identity, is_of_own_pod  # noqa: PLC0415 - not for --help

    identity = Identity(options.kube_cluster, options.kube_user)
    if not is_of_own_pod(options.kubeconfig, options.context, identity):
        raise InputError(
            "run evicts pods, and nobody can be asked: there is no terminal",
            hint="add --yes to evict without a question, or --dry-run to evict nothing",
        )


def _can_be_asked() -> bool:
    return sys.stdin.isatty() and _is_watched()


def _is_watched() -> bool:
    return sys.stderr.isatty()


def _with_journal(run_options: RunOptions) -> RunOptions:
    """On a terminal the journal goes to a file: its lines would tear the progress bar."""
    if run_options.journal is not None or not _is_watched():
        return run_options
    path = default_journal()
    prepare_state_folder()
    LOGGER.info("journal: %s (show it with: rebalancer journal show)", path)
    return replace(run_options, journal=path)


def _show_plan(
    plan: Plan,
    *,
    stop: StopRequest,
    output: Output,
    dry_run: bool = False,
    ask: bool = False,
) -> None:
    """Say what is evicted where, show people the plan, and ask them; programs read the outcomes.

    A plan that its reader does not want to see is not carried out.
    """
    from rebalancer.reporting.run_observers import intent_words  # noqa: PLC0415 - imports rich
    from rebalancer.reporting.tables.plan import plan_table  # noqa: PLC0415

    intent = intent_words(plan, plan.source)
    if not ask:
        LOGGER.info("%s %s", "would evict" if dry_run else "evicts", intent)
        if plan.runs:
            LOGGER.info("%s", plan.runs)

    if output.format in TABLES and not output.no_headers:
        target = console()
        try:
            if dry_run:
                target.print("DRY RUN: nothing is changed")
            table = plan_table(plan, style(target, output))

            def shown() -> None:
                show(target, table)
                target.print()
                target.file.flush()

            Deadline(stop=stop).bound("show the plan", shown)  # its reader may be slow, or stand still
        except OSError as error:
            if not is_closed(error):
                raise
            raise StopRequestedError(
                "the output was closed before the plan was shown: nothing was evicted"
            ) from error
    if ask and (plan.moves or plan.cleanups) and not _confirmed(f"Evict {intent}?", stop):
        raise StopRequestedError("not confirmed: nothing was evicted")


def _confirmed(question: str, stop: StopRequest) -> bool:
    """Ask, and wait for the answer as long as other runs are let wait for the lease."""
    _forget_what_was_typed()
    waits = Deadline(stop=stop).within(MAX_CONFIRMATION_SECONDS)
    try:
        click.echo(f"{question} [y/N]: ", nl=False, err=True)
        answer = waits.bound("confirm the plan", sys.stdin.readline)
    except TimeoutError as error:
        click.echo(err=True)
        raise StopRequestedError(
            f"not confirmed within {MAX_CONFIRMATION_SECONDS:.0f} s: nothing was evicted"
        ) from error
    except OSError as error:
        raise StopRequestedError("not confirmed, the terminal was closed: nothing was evicted") from error
    return answer.strip().lower() in ("y", "yes")


def _forget_what_was_typed() -> None:
    """Drop what was typed before the question: nobody had seen the plan by then."""
    try:
        import termios  # noqa: PLC0415 - there is none on Windows
    except ImportError:
        return
    # The terminal may be closed by now, or be none: whoever embeds the program answers in its place.
    with contextlib.suppress(termios.error, OSError, ValueError, TypeError):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _wanted_metrics(run_options: RunOptions) -> RunMetrics | None:
    """What follows the run; None where no option asks for metrics."""
    if run_options.metrics_textfile is None and run_options.metrics_push is None:
        return None
    from rebalancer.reporting.metrics import RunMetrics  # noqa: PLC0415 - imports prometheus_client

    return RunMetrics(run_options.cluster)
