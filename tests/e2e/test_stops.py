"""A command that is asked to stop, or killed, at any moment ends soon and leaves nothing behind.

With the fifty killed runs of ``test_crashes`` these are some two hundred moments; ``REBALANCER_MOMENTS`` says
how many for each command and signal.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from rebalancer.errors import ExitCode
from rebalancer.execution.journal import in_flight, read_journal
from tests.conftest import SUMMARY
from tests.e2e.faulty_proxy import Answer, FaultyProxy, Request
from tests.e2e.hot_cluster import HotCluster, Round, untruths
from tests.e2e.moments import MAX_SECONDS, PLACES, SEED, Course, Moment, Tally, course_of, disturbed, moments

pytestmark = pytest.mark.safety

RUNS = int(os.environ.get("REBALANCER_MOMENTS", "18"))  # by each of the signals that ask
PLANS = RUNS  # by each of all four
ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
MAX_SECONDS_TO_END = 8.0  # an answer that an eviction waits for, the state and the lease, on a busy machine

Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HotCluster]:
    with HotCluster.started(tmp_path_factory.mktemp("stops")) as started:
        yield started


@pytest.fixture(scope="module")
def whole_run(cluster: HotCluster) -> Course:
    """A run that nobody disturbs."""
    return course_of(cluster, "run")


@pytest.mark.parametrize("number", ASKING, ids=lambda number: number.name)
def test_a_run_that_is_asked_to_stop_at_any_moment_ends_in_order(
    cluster: HotCluster, whole_run: Course, number: signal.Signals, record_property: Record
) -> None:
    record_property("seed", SEED)
    tally = Tally(f"run, {number.name}")
    for moment in moments(number, RUNS, whole_run, PLACES):
        if found := disturbed(cluster, moment):
            run, seconds, output = found
            tally.seconds.append(seconds)
            check_an_orderly_end(cluster, run, moment, output, tally)
    assert max(tally.seconds) < MAX_SECONDS_TO_END
    assert tally.counts["pods evicted before"] >= RUNS // 2
    assert tally.counts["interrupted"] >= RUNS // 2
    record_property(SUMMARY, tally.line(("interrupted", "done", "pods evicted before")))


def check_an_orderly_end(cluster: HotCluster, run: Round, moment: Moment, output: str, tally: Tally) -> None:
    """It released what it held, and journal, state, outcomes and audit log agree."""
    assert moment.process is not None
    code = moment.process.returncode
    # A signal before the program's first line ends the interpreter.
    assert code in (ExitCode.INTERRUPTED, ExitCode.DONE, -moment.number)
    assert cluster.lease_holder() == ""
    assert run.leftovers() == []
    asked = cluster.evictions()
    accepted = {eviction.uid for eviction in asked if eviction.accepted}
    lines = read_journal(run.journal) if run.journal.exists() else ()
    assert untruths(lines, asked) == []
    assert in_flight(lines) == ()
    assert accepted <= set(run.state())
    if code == -moment.number:
        assert output or not lines
    elif lines:
        assert lines[-1]["event"] == "run-finished"
        said = lines[-1]["exitCode"]
        # One that comes while the outcomes are printed ends that.
        assert code == said or (code, said) == (ExitCode.INTERRUPTED, ExitCode.DONE)
    tally.counts["interrupted" if code == ExitCode.INTERRUPTED else "done"] += 1
    tally.counts["pods evicted before"] += len(accepted)


@pytest.mark.parametrize("number", [*ASKING, signal.SIGKILL], ids=lambda number: number.name)
def test_a_plan_that_is_ended_at_any_moment_leaves_nothing(
    cluster: HotCluster, number: signal.Signals, record_property: Record
) -> None:
    record_property("seed", SEED)
    methods: set[str] = set()
    api_server = cluster.control_plane
    tally = Tally(f"plan, {number.name}")
    ends: list[int] = []

    def tap(request: Request, answer: Answer | None) -> bool:
        methods.add(request.method)
        return current[0].tap(request, answer)

    course = course_of(cluster, "plan")
    current: list[Moment] = []
    with FaultyProxy(api_server.url, api_server.certificate, tap=tap) as proxy:
        met = cluster.new_round(proxy.url)
        for moment in moments(number, PLANS, course, ("time", "request", "answer")):
            current[:] = [moment]
            moment.begin(lambda: met.start("plan"))
            seconds, _, errors = moment.await_end(MAX_SECONDS)
            assert moment.process is not None
            assert "Traceback" not in errors, errors
            assert "Fatal Python error" not in errors, errors
            if moment.sent:
                tally.seconds.append(seconds)
                ends.append(moment.process.returncode)
                assert number == signal.SIGKILL or met.leftovers() == []
    assert methods == {"GET"}
    assert set(ends) <= {ExitCode.INTERRUPTED, ExitCode.DONE, -number}
    assert number == signal.SIGKILL or ends.count(ExitCode.INTERRUPTED) >= PLANS // 2
    assert max(tally.seconds) < MAX_SECONDS_TO_END / 2
    tally.counts.update("interrupted" if code else "done" for code in ends)
    record_property(SUMMARY, tally.line(("interrupted", "done")))
