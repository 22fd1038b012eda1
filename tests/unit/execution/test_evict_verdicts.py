"""Each row of the table of answers decides for an answer that is met: none hides another."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from rebalancer.cluster.live.failures import StatusError
from rebalancer.execution.evict import ANSWERS, Ends, Verdict, row_of
from rebalancer.http import Answer
from tests.rows import rows
from tests.unit.execution.fake_api import Answer as FakeAnswer
from tests.unit.execution.fake_api import Script, refusal
from tests.unit.execution.test_evict import ABSENT, ACCEPTED, LOST, evicted, the_pod

DENIED = 'admission webhook "x" denied the request: no'


def own(status: int, message: str = "x") -> StatusError:
    """An answer with the API server's own Status."""
    return StatusError(Answer(msgspec.json.encode(refusal(status, message).body), status))


def foreign(status: int, text: str = "<html>") -> StatusError:
    """An answer of something that stands between."""
    return StatusError(Answer(text.encode(), status))


# An answer for each row, in order; may it still be carried out, may another one help
ROWS = [
    (own(429, "Eviction triggered evacuation of VMI"), (False, False)),
    (own(429, "Cannot evict pod as it would violate the budget"), (False, True)),
    (foreign(429, "Too many requests, please try again later."), (False, True)),
    (foreign(429, "slow down"), (True, True)),
    (own(401, "Unauthorized"), (False, False)),
    (own(403, 'User "u" cannot create resource "pods/eviction"'), (False, False)),
    (own(403, "exceeded quota"), (False, False)),
    (own(409, "the ResourceVersion in the precondition does not match"), (False, True)),
    (own(422, DENIED), (False, False)),
    (own(500, "This pod has more than one PodDisruptionBudget"), (False, False)),
    (own(500, "etcdserver: request timed out"), (True, True)),
    (own(504, "Timeout: request did not complete"), (True, True)),
    (own(500, "failed calling webhook"), (False, True)),
    (foreign(503, "upstream connect error"), (True, True)),
    (own(405, "not served"), (False, False)),
    (foreign(302, ""), (True, False)),
]


@rows("row, answer, follows", [(row, *item) for row, item in enumerate(ROWS)])
def test_each_row_decides_for_an_answer_that_is_met(
    row: int, answer: StatusError, follows: tuple[bool, bool]
) -> None:
    found = row_of(answer)
    assert found is ANSWERS[row]
    assert (found.open, found.again) == follows


def test_every_row_is_met() -> None:
    assert len(ROWS) == len(ANSWERS)


def test_only_the_api_servers_own_status_says_what_it_did() -> None:
    """All else is open, but for the login that a proxy asks for and for flow control."""
    for status in range(300, 600):
        assert row_of(foreign(status)).open == (status != 401), status
        assert not row_of(own(status)).open or status >= 500, status


# One for each row, their neighbours, and what no row names.
STATUSES = (*range(300, 600, 50), 302, 399, 401, 402, 403, 404, 405, 409, 422, 429, 499, 502, 503, 504, 599)
WORDS = ("x", DENIED, "cannot create resource", "more than one PodDisruptionBudget", "etcdserver: x")


def any_answers() -> Iterator[FakeAnswer]:
    """Each of these statuses with the API server's own words, and with somebody else's."""
    for status in STATUSES:
        yield FakeAnswer(status, b"<html>")
        yield from (refusal(status, words) for words in WORDS)


@pytest.mark.parametrize("pod", [ABSENT, the_pod(terminating=True), the_pod(uid="its-successor")])
def test_after_a_request_a_pod_that_is_leaving_or_gone_was_evicted_whatever_the_answer(
    pod: FakeAnswer,
) -> None:
    for answer in any_answers():
        attempt, transport, _ = evicted(Script(answer), pod)
        assert attempt.verdict is Verdict.EVICTED
        assert attempt.is_granted
        assert len(transport.sent("POST")) == 1


@pytest.mark.parametrize("first", [LOST, refusal(409, "conflict"), refusal(429, "a budget")])
def test_a_pod_that_is_gone_before_another_request_was_evicted_by_the_first(
    first: FakeAnswer | Exception,
) -> None:
    for gone in (ABSENT, the_pod(terminating=True)):
        attempt, transport, _ = evicted(Script(first), Script(the_pod(), gone))
        assert (attempt.verdict, len(transport.sent("POST"))) == (Verdict.EVICTED, 1)


@pytest.mark.parametrize(
    "unread", [refusal(401, "Unauthorized"), FakeAnswer(404, b"<html>"), FakeAnswer(200, b"{}")]
)
def test_nothing_is_refused_without_a_look_at_a_pod_that_still_stands_there(unread: FakeAnswer) -> None:
    """What cannot be read is not known, also where the login or a right is missing."""
    for answer in any_answers():
        assert evicted(Script(answer), unread)[0].verdict is Verdict.UNKNOWN


def test_a_dry_run_evicts_nothing_whatever_becomes_of_the_pod() -> None:
    for gone in (ABSENT, the_pod(terminating=True)):
        assert evicted(Script(refusal(409, "x")), gone, dry_run=True)[0].verdict is Verdict.GONE


@pytest.mark.parametrize("status", [200, 201])
def test_a_success_whose_status_says_failure_is_none(status: int) -> None:
    failure = FakeAnswer(status, {"kind": "Status", "status": "Failure", "code": 500, "message": "no"})
    answer, _, _ = evicted(Script(failure))
    assert (answer.verdict, answer.ends) == (Verdict.UNKNOWN, Ends.REJECTED)
    assert "is a failure: no" in answer.message
    assert evicted(Script(failure), ABSENT)[0].verdict is Verdict.EVICTED


POLICY = "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no"


@pytest.mark.parametrize("words", [DENIED, POLICY])
def test_a_webhook_or_a_policy_that_denies_one_pod_does_not_end_the_run(words: str) -> None:
    for status in range(400, 500):
        expected = Ends.LOGIN if status == 401 else None
        assert row_of(own(status, words)).ends is expected


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_success_that_is_not_the_api_servers_own_is_none_unless_the_pod_goes(dry_run: bool) -> None:
    """What stands between may answer with 200 to anything, such as a page for its login."""
    page = FakeAnswer(200, b"<html>")
    answer, transport, _ = evicted(Script(page), dry_run=dry_run)
    assert (answer.verdict, answer.ends) == (Verdict.UNKNOWN, Ends.REJECTED)
    said = "the answer, with HTTP 200, is no Status of the API server; the pod is still there"
    assert answer.message == said
    assert len(transport.sent("POST")) == 1
    assert evicted(Script(page), the_pod(terminating=True))[0].verdict is Verdict.EVICTED
    assert evicted(Script(page), ABSENT)[0].verdict is Verdict.EVICTED
    assert evicted(Script(page), LOST)[0].verdict is Verdict.UNKNOWN


def test_a_success_whose_body_is_lost_is_asked_for_again_unless_the_pod_goes() -> None:
    cut_off = FakeAnswer(201, b"")
    assert evicted(Script(cut_off), the_pod(terminating=True))[0].message == (
        "the answer, with HTTP 201, has no body; the pod is terminating"
    )
    answer, _, _ = evicted(Script(cut_off, ACCEPTED))
    assert (answer.verdict, answer.requests) == (Verdict.EVICTED, 2)
    assert evicted(Script(cut_off))[0].verdict is Verdict.UNKNOWN
