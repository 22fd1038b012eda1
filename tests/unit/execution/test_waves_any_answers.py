"""Whatever the API server answers, a run says the truth about what it did, and stops when it must."""

from __future__ import annotations

import io

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from urllib3.exceptions import ProtocolError

from rebalancer.execution.journal import Journal
from rebalancer.execution.outcomes import Outcomes
from rebalancer.execution.waves import carry_out
from rebalancer.state.results import Result
from tests.conftest import examples
from tests.unit.execution.builders import NOW, a_move, a_plan
from tests.unit.execution.contexts import a_context
from tests.unit.execution.fake_api import Answer, FakeTime, Request, fake_api, refusal
from tests.unit.execution.tiny_cluster import TinyCluster

LOST: Exception = ProtocolError("Connection aborted.")
REFUSALS: dict[str, Answer | Exception] = {
    "lost before": LOST,
    "busy": refusal(429, "too many requests", retry_after=1),
    "broken": refusal(500, "internal error"),
    "down": refusal(503, "shutting down"),
    "conflict": refusal(409, "modified"),
    "forbidden": refusal(403, "no"),
    "odd": Answer(400, b"\xff"),
}
SPOILT: dict[str, Answer | Exception] = {
    "accepted, lost": LOST,
    "accepted, broken": refusal(504, "timeout"),
}
ANSWERS = st.sampled_from(["accepted", "accepted", "accepted, lost", "accepted, broken", *REFUSALS])
LANDINGS = st.sampled_from(["cool", "cool", "cool", "other", "hot", ""])


class Moody(TinyCluster):
    """A cluster that answers each eviction, and places each replacement, as a list says."""

    def __init__(self, time: FakeTime, names: list[str], answers: list[str], landings: list[str]) -> None:
        super().__init__(time, *names)
        self.answers, self.landings = answers, landings
        self.journal = io.StringIO()
        self.journaled_first = True
        self.unreadable = False

    def __call__(self, request: Request) -> Answer | Exception:
        if request.method == "GET" and self.unreadable and request.path.rsplit("/", 2)[-2] == "pods":
            return LOST
        if request.method != "POST":
            return super().__call__(request)
        name = request.path.split("/")[-2]
        last = msgspec.json.decode(self.journal.getvalue().splitlines()[-1])
        self.journaled_first &= (last["event"], last["pod"]) == ("evicting", f"shop/{name}")
        answer = self.answers.pop(0) if self.answers else "accepted"
        if answer in REFUSALS:
            return REFUSALS[answer]
        self.lands_on = self.landings.pop(0) if self.landings else "cool"
        accepted = super().__call__(request)
        if isinstance(accepted, Answer) and accepted.status != 201:
            return accepted
        return SPOILT.get(answer, accepted)


def carried_out(cluster: Moody, time: FakeTime, waves: list[int]) -> Outcomes:
    api, _ = fake_api(cluster, time)
    moves = [a_move(f"web-{index}", wave=wave) for index, wave in enumerate(waves)]
    journal = Journal(cluster.journal, "run-1", time.clock)
    return carry_out(a_plan(*moves), a_context(api, journal, time.clock, time.sleep))


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=5),
    st.lists(ANSWERS, max_size=12),
    st.lists(LANDINGS, max_size=5),
    st.booleans(),
)
def test_a_run_says_the_truth_whatever_it_is_answered(
    waves: list[int], answers: list[str], landings: list[str], unreadable: bool
) -> None:
    time = FakeTime(NOW)
    cluster = Moody(time, [f"web-{index}" for index in range(len(waves))], answers, landings)
    cluster.unreadable = unreadable
    outcomes = carried_out(cluster, time, waves)
    by_name = {outcome.move.pod.name: outcome for outcome in outcomes.outcomes}

    assert len(by_name) == len(waves)
    assert cluster.journaled_first
    for name in cluster.evicted:
        assert by_name[name].evicted_at is not None
        assert by_name[name].result not in (Result.SKIPPED, Result.REFUSED)
    for outcome in outcomes.outcomes:
        if outcome.move.pod.name not in cluster.evicted:
            assert outcome.result in (Result.SKIPPED, Result.REFUSED, Result.UNKNOWN, Result.GONE)
    stopped_in = [outcome.move.wave for outcome in outcomes.outcomes if outcome.result.ends_run()]
    if stopped_in:
        assert outcomes.stopped
        later = [outcome for outcome in outcomes.outcomes if outcome.move.wave > min(stopped_in)]
        assert all(outcome.result is Result.SKIPPED for outcome in later)
    if outcomes.exit_code == 0:
        assert len(cluster.evicted) == len(waves)
    assert time.now - NOW < len(waves) * 1000
