"""Whatever goes wrong on the way to the API server: no eviction is lost or made twice, and the run says so.

Faults are made by a proxy before a real API server. What a run says is compared with the server's audit log
and with the pods there are. A run watches nothing, so there is no watch to cut: that is checked too.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from rebalancer.errors import ExitCode
from rebalancer_demo import Fault, Faults
from tests.conftest import SUMMARY
from tests.e2e.api import Object
from tests.e2e.command import Finished
from tests.e2e.faulty_proxy import Answer, FaultyProxy, Request
from tests.e2e.hot_cluster import HOT_NODES, HotCluster, Round, untruths

pytestmark = pytest.mark.safety

MIXTURES = 20
ALL = 0  # hits of a fault: no end
EVICTION = r"/eviction(\?|$)"
STATE = "/configmaps"
LEASE = "/leases"
PODS = "/pods"
_MAX_RUN_SECONDS = 300.0

LANDED = {"Landed", "LandedElsewhere"}
BADLY_ENDED = {"Unexpected", "Pending", "NotReady", "NotReplaced"}
UNTOUCHED = {"Refused", "Skipped", "Gone"}
NAMES = {code.value: code.name for code in ExitCode}
STOPS = {
    "LeaseLost": ExitCode.STOPPED,
    "Brake": ExitCode.STOPPED,  # what cannot be read of the scheduler is one
    "Outcome": ExitCode.STOPPED,
    "Unreachable": ExitCode.UNREACHABLE,
    "Rejected": ExitCode.REJECTED,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HotCluster]:
    with HotCluster.started(tmp_path_factory.mktemp("faults")) as started:
        yield started


@dataclass(frozen=True)
class Faulty:
    """A run that met faults, and what really happened."""

    round: Round
    finished: Finished
    proxy: FaultyProxy
    accepted: Counter[str]  # by uid

    @property
    def results(self) -> list[str]:
        return [outcome["result"] for outcome in self.outcomes]

    @property
    def outcomes(self) -> list[Object]:
        found: list[Object] = self.finished.document["outcomes"] if self.finished.stdout else []
        return found


def run_through(
    cluster: HotCluster,
    *faults: Fault,
    seed: int = 0,
    once: bool = True,
    late_seconds: float | None = None,
    page_size: int | None = None,
    tap: Callable[[Request, Answer | None], bool] = lambda _request, _answer: True,
    wave_timeout: str = "60s",
) -> Faulty:
    """A run that meets these faults; what must hold for any is checked here."""
    server = cluster.control_plane
    chosen = Faults(seed)
    for fault in faults:
        chosen.add(fault)
    with FaultyProxy(
        server.url, server.certificate, chosen, tap=tap, late_seconds=late_seconds, page_size=page_size
    ) as proxy:
        met = cluster.new_round(proxy.url, wave_timeout=wave_timeout)
        finished = met.run(seconds=_MAX_RUN_SECONDS)
    cluster.wait_until_audited(proxy.evictions)
    cluster.wait_until_whole()
    if cluster.lease_holder():
        cluster.expire_lease()  # where its release was lost, time frees it
    evictions = cluster.evictions()
    accepted = Counter(eviction.uid for eviction in evictions if eviction.accepted)

    assert "Traceback" not in finished.stderr
    assert sum(line.startswith(("error", "internal")) for line in finished.stderr.splitlines()) <= 1
    assert untruths(finished.journal, evictions) == []
    assert not once or set(accepted.values()) <= {1}, "evicted twice"
    assert set(met.before) - cluster.uids() == set(accepted), "lost or made behind our back"
    assert set(accepted) <= set(met.state()), "the next run does not know of them"
    faulty = Faulty(met, finished, proxy, accepted)
    check_outcomes(cluster, faulty)
    return faulty


def check_outcomes(cluster: HotCluster, faulty: Faulty) -> None:
    """The outcomes and the exit code tell what happened."""
    finished = faulty.finished
    if not finished.stdout:
        assert not faulty.accepted, f"pods went and no outcome was reported\n{finished.stderr}"
        assert finished.exit_code == ExitCode.UNREACHABLE, finished.stderr
        return
    assert finished.exit_code == finished.document["exitCode"] == right_exit_code(finished.document)
    pods = {pod["metadata"]["uid"]: pod for pod in cluster.pods()}
    reported = set()
    for outcome in faulty.outcomes:
        uid, result = outcome["move"]["pod"]["uid"], outcome["result"]
        reported.add(uid)
        if result in UNTOUCHED:
            assert uid not in faulty.accepted, outcome
        elif result != "Unknown":
            assert uid in faulty.accepted, outcome
        if result in LANDED:
            assert pods[outcome["replacementUid"]]["spec"]["nodeName"] == outcome["node"]
    assert set(faulty.accepted) <= reported


def right_exit_code(outcomes: Object) -> ExitCode:
    """What the documentation of the exit codes says of these outcomes."""
    if outcomes.get("stop"):
        return STOPS[outcomes["stop"]]
    results = {outcome["result"] for outcome in outcomes["outcomes"]}
    if results <= LANDED | {"Gone", "Started"}:
        return ExitCode.DONE
    return ExitCode.STOPPED if results & BADLY_ENDED else ExitCode.PARTLY_DONE


# What a run overcomes


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([Fault("latency", seconds=0.1, times=ALL)], id="latency everywhere"),
        pytest.param(
            [Fault("reset-after", EVICTION, times=ALL)], id="every eviction accepted, no answer seen"
        ),
        pytest.param([Fault("reset-before", EVICTION, times=2)], id="evictions that never arrive"),
        pytest.param([Fault("truncate", EVICTION, times=ALL)], id="half answers to evictions"),
        pytest.param([Fault("status", EVICTION, code=500, times=2)], id="500 to evictions"),
        pytest.param([Fault("status", EVICTION, code=503, times=2)], id="503 to evictions"),
        pytest.param(
            [Fault("status", EVICTION, code=429, retry_after=1, times=2)], id="429 to evictions, flow control"
        ),
        pytest.param(
            [Fault("status", code=429, retry_after=1, probability=0.1, times=ALL)], id="429 to one in ten"
        ),
        pytest.param(
            [Fault("status", method="GET", code=500, probability=0.1, times=ALL)], id="500 to one read in ten"
        ),
        pytest.param(
            [Fault("status", method="GET", code=503, probability=0.1, times=ALL)], id="503 to one read in ten"
        ),
        pytest.param(
            [Fault("reset-before", method="GET", probability=0.1, times=ALL)], id="resets of one read in ten"
        ),
        pytest.param(
            [Fault("truncate", method="GET", probability=0.1, times=ALL)],
            id="half answers to one read in ten",
        ),
        pytest.param([Fault("reset-after", STATE, "PUT", times=2)], id="state written, no answer seen"),
        pytest.param([Fault("truncate", STATE, "POST")], id="state created, half an answer"),
        pytest.param([Fault("reset-after", LEASE, "PUT", times=2)], id="lease renewed, no answer seen"),
        pytest.param([Fault("reset-before", LEASE, "PUT", times=2)], id="renewals that never arrive"),
        pytest.param([Fault("reset-before", "/events", "POST", times=ALL)], id="events that never arrive"),
    ],
)
def test_a_run_does_all_it_planned_through(cluster: HotCluster, faults: list[Fault]) -> None:
    faulty = run_through(cluster, *faults)
    assert faulty.proxy.faults.hits > 0
    assert set(faulty.results) <= LANDED, faulty.finished.stderr
    assert len(faulty.accepted) == HOT_NODES
    assert faulty.finished.exit_code == ExitCode.DONE


def test_a_run_watches_nothing_so_no_watch_can_be_cut(cluster: HotCluster) -> None:
    paths: list[str] = []

    def tap(request: Request, _answer: Answer | None) -> bool:
        paths.append(request.path)
        return True

    assert set(run_through(cluster, tap=tap).results) <= LANDED
    assert paths
    assert not any("watch=" in path for path in paths)


def test_a_run_reads_no_whole_namespace_while_it_waits(cluster: HotCluster) -> None:
    paths: list[str] = []

    def tap(request: Request, _answer: Answer | None) -> bool:
        paths.append(request.path)
        return True

    assert set(run_through(cluster, tap=tap).results) <= LANDED
    lists = [path for path in paths if path.startswith("/api/v1/namespaces/default/pods?")]
    assert lists
    assert [path for path in lists if "labelSelector=" not in path] == []


def test_a_list_that_expires_between_two_pages_is_read_again(cluster: HotCluster) -> None:
    faulty = run_through(cluster, Fault("expire-continue", PODS, times=2), page_size=7)
    assert faulty.proxy.faults.hits == 2
    assert set(faulty.results) <= LANDED
    assert len(faulty.accepted) == HOT_NODES


def test_an_eviction_that_seems_lost_and_arrives_late_is_one_eviction(cluster: HotCluster) -> None:
    # Repeated evictions of one pod arrive together; the uid they carry keeps its successor safe.
    faulty = run_through(cluster, Fault("reset-before", EVICTION, times=ALL), late_seconds=1.0, once=False)
    assert set(faulty.results) <= LANDED, faulty.finished.stderr
    assert len(faulty.accepted) == HOT_NODES


# What ends a run, and how it says so


def test_an_eviction_that_is_refused_to_the_end_is_refused_and_the_others_are_made(
    cluster: HotCluster,
) -> None:
    faulty = run_through(cluster, Fault("status", EVICTION, code=503, times=5))
    assert faulty.results.count("Refused") == 1
    assert len(faulty.accepted) == HOT_NODES - 1
    assert faulty.finished.exit_code == ExitCode.PARTLY_DONE


def test_an_eviction_that_timed_out_and_was_carried_out_later_is_unknown_never_refused(
    cluster: HotCluster,
) -> None:
    # Later than the last attempt, however long the attempts take.
    faulty = run_through(
        cluster, Fault("status", EVICTION, code=504, times=ALL), late_seconds=math.inf, once=False
    )
    assert faulty.results[0] == "Unknown"
    assert len(faulty.accepted) == 1
    assert faulty.finished.exit_code == ExitCode.STOPPED


def test_a_list_that_expires_whenever_it_is_read_is_no_cluster_to_act_on(cluster: HotCluster) -> None:
    faulty = run_through(cluster, Fault("expire-continue", PODS, times=ALL), page_size=7)
    assert faulty.finished.exit_code == ExitCode.UNREACHABLE
    assert "list pods: expired 3 times between pages" in faulty.finished.stderr
    assert not faulty.accepted


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault("reset-before", times=ALL), "the connection was closed"),
        (Fault("status", code=503, times=ALL), "the proxy says so"),
        (Fault("truncate", "/nodes", times=ALL), "list nodes"),
    ],
    ids=["resets only", "503 only", "half lists of nodes"],
)
def test_without_a_usable_answer_nothing_is_evicted_and_one_line_says_why(
    cluster: HotCluster, fault: Fault, said: str
) -> None:
    faulty = run_through(cluster, fault)
    assert faulty.finished.exit_code == ExitCode.UNREACHABLE
    *retries, line = faulty.finished.stderr.splitlines()
    assert line.startswith("error: ")
    assert said in line
    assert [text for text in retries if not text.startswith("info: ")] == []
    assert not faulty.accepted


@pytest.mark.parametrize("where", [STATE, LEASE], ids=["state", "lease"])
def test_what_cannot_be_written_keeps_a_run_from_evicting(cluster: HotCluster, where: str) -> None:
    faulty = run_through(
        cluster,
        Fault("status", where, "POST", code=503, times=ALL),
        Fault("status", where, "PUT", code=503, times=ALL),
    )
    assert faulty.finished.exit_code == ExitCode.UNREACHABLE
    assert not faulty.accepted


def test_an_api_server_that_is_lost_after_an_eviction_leaves_a_run_that_says_so(cluster: HotCluster) -> None:
    gone: list[bool] = []

    def tap(request: Request, answer: Answer | None) -> bool:
        if request.evicts and answer is not None:
            gone.append(True)
            return True
        return not gone

    faulty = run_through(cluster, tap=tap, wave_timeout="5s")
    assert faulty.results[0] == "Unknown"
    assert set(faulty.results[1:]) == {"Skipped"}
    assert len(faulty.accepted) == 1
    assert faulty.finished.exit_code in (ExitCode.STOPPED, ExitCode.UNREACHABLE)


# Everything at once


def test_in_any_mixture_no_eviction_is_lost_or_doubled_and_the_outcomes_are_true(
    cluster: HotCluster, record_property: Callable[[str, object], None]
) -> None:
    codes: Counter[str] = Counter()
    evicted = hits = 0
    for seed in range(MIXTURES):
        record_property("seed", seed)
        faulty = run_through(cluster, *mixture(seed), seed=seed)
        codes[NAMES[faulty.finished.exit_code]] += 1
        evicted += len(faulty.accepted)
        hits += faulty.proxy.faults.hits
    assert set(codes) <= {"DONE", "STOPPED", "PARTLY_DONE", "UNREACHABLE"}
    assert hits >= 5 * MIXTURES
    assert evicted >= MIXTURES
    reported = ", ".join(f"{name} {count}" for name, count in sorted(codes.items()))
    record_property(
        SUMMARY,
        f"faults: {MIXTURES} mixtures, {hits} requests spoilt: {evicted} pods evicted, none lost or twice; "
        f"exits: {reported}",
    )


def mixture(seed: int) -> list[Fault]:
    """Faults that spoil one request in ten altogether, in shares drawn from the seed."""
    draw = random.Random(seed)
    kinds = [
        Fault("latency", seconds=0.3),
        Fault("reset-before"),
        Fault("reset-after"),
        Fault("truncate"),
        Fault("status", code=429, retry_after=1),
        Fault("status", code=500),
        Fault("status", code=503),
    ]
    shares = [draw.random() for _ in kinds]
    return [
        replace(kind, times=ALL, probability=0.1 * share / sum(shares))
        for kind, share in zip(kinds, shares, strict=True)
    ]
