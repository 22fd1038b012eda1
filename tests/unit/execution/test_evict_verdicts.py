"""Each row of the table of answers decides for an answer that is met: none hides another."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from rebalancer.cluster.live.failures import StatusError
from rebalancer.execution.evict import ANSWERS, NO_ANSWER, Ends, Verdict, row_of
from rebalancer.http import Answer
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


# An answer for each row, in order; may it still be carried out, does the pod decide, may another one help
ROWS = [
    (own(429, "Eviction triggered evacuation of VMI"), (False, False, False)),
    (own(429, "Cannot evict pod as it would violate the budget"), (False, True, True)),
    (foreign(429, "Too many requests, please try again later."), (False, True, True)),
    (foreign(429, "slow down"), (True, True, True)),
    (own(401, "Unauthorized"), (False, False, False)),
    (own(403, 'User "u" cannot create resource "pods/eviction"'), (False, False, False)),
    (own(403, "exceeded quota"), (False, True, False)),
    (own(404, DENIED), (False, True, False)),
    (own(404, 'pods "web-1" not found'), (False, True, False)),
    (own(409, "the ResourceVersion in the precondition does not match"), (False, True, True)),
    (own(422, DENIED), (False, True, False)),
    (own(500, "This pod has more than one PodDisruptionBudget"), (False, True, False)),
    (own(500, "etcdserver: request timed out"), (True, True, True)),
    (own(504, "Timeout: request did not complete"), (True, True, True)),
    (own(500, "failed calling webhook"), (False, True, True)),
    (foreign(503, "upstream connect error"), (True, True, True)),
    (own(405, "not served"), (False, True, False)),
    (foreign(302, ""), (True, True, False)),
]


@pytest.mark.parametrize(("row", "answer", "follows"), [(row, *item) for row, item in enumerate(ROWS)])
def test_each_row_decides_for_an_answer_that_is_met(
    row: int, answer: StatusError, follows: tuple[bool, bool, bool]
) -> None:
    found = row_of(answer)
    assert found is ANSWERS[row]
    assert (found.open, found.look, found.again) == follows


def test_every_row_is_met() -> None:
    assert len(ROWS) == len(ANSWERS)


@pytest.mark.parametrize("status", range(300, 600))
def test_only_the_api_servers_own_status_says_what_it_did(status: int) -> None:
    """All else is open, but for the login that a proxy asks for and for flow control."""
    assert row_of(foreign(status)).open == (status != 401)
    assert not row_of(own(status)).open or status >= 500


@pytest.mark.parametrize("status", range(300, 600))
@pytest.mark.parametrize("make", [own, foreign])
def test_nothing_is_final_without_a_look_at_the_pod_but_what_login_and_rights_forbid(
    make: Callable[[int], StatusError], status: int
) -> None:
    assert row_of(make(status)).look == (status != 401)


def test_only_a_missing_object_or_a_precondition_say_that_there_was_nothing_to_evict() -> None:
    gone = {status for status in range(300, 600) if row_of(own(status)).absent is Verdict.GONE}
    assert gone == {404, 409}
    assert NO_ANSWER.absent is Verdict.EVICTED


POLICY = "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'x' with binding 'y' denied request: no"


@pytest.mark.parametrize("words", [DENIED, POLICY])
def test_a_webhook_or_a_policy_that_denies_one_pod_does_not_end_the_run(words: str) -> None:
    for status in range(400, 500):
        expected = Ends.RIGHTS if status == 401 else None
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
