"""Every answer to an eviction has one meaning, and none is a traceback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from rebalancer.errors import RightsError, StopRequestedError
from rebalancer.execution.evict import Attempt, Ends, EvictionClient, Patience, Verdict, evict
from rebalancer.execution.observed_pods import ObservedPod
from rebalancer.http import http_date
from rebalancer.planning.plan import Move
from tests.rows import rows
from tests.unit.execution.builders import NOW, a_move, a_pod_document
from tests.unit.execution.fake_api import (
    Answer,
    FakeTime,
    Request,
    Script,
    Transport,
    fake_api,
    not_found,
    refusal,
)

ACCEPTED = Answer(201, {"kind": "Status", "status": "Success"})
BUDGET = refusal(
    429,
    "Cannot evict pod as it would violate the pod's disruption budget.",
    causes=[{"reason": "DisruptionBudget", "message": "The disruption budget web needs 3 healthy pods"}],
)
ABSENT = not_found("/api/v1/namespaces/shop/pods/web-1")
LOST = ProtocolError("Connection aborted.", ConnectionResetError(104, "reset"))
TWO_BUDGETS = refusal(500, "This pod has more than one PodDisruptionBudget, which is not supported.")


def evicted(
    answers: Script,
    pod: Answer | Exception | Script | None = None,
    *,
    dry_run: bool = False,
    interrupted: bool = False,
    judge: Callable[[Move, ObservedPod], Move | str] = lambda move, _: move,
) -> tuple[Attempt[Move], Transport, FakeTime]:
    """An eviction of a pod that is there, and after the first request is ``pod``, or as before."""
    time = FakeTime(NOW)
    now: Answer | Exception | Script = the_pod()

    def handler(request: Request) -> Answer | Exception:
        nonlocal now
        if request.method == "POST":
            now = pod or now
            return answers(request)
        return now(request) if isinstance(now, Script) else now

    api, transport = fake_api(handler, time)
    client = EvictionClient(
        api,
        time.clock,
        patience=Patience(attempts=4, seconds=20),
        judge=judge,
        interrupted=lambda: interrupted,
        dry_run=dry_run,
    )
    return evict(client, a_move()), transport, time


def the_pod(**changes: object) -> Answer:
    return Answer(200, a_pod_document("web-1", resourceVersion="7", **changes))  # type: ignore[arg-type]


def test_an_eviction_names_the_uid_and_the_version_it_means() -> None:
    answer, transport, _ = evicted(Script(ACCEPTED))
    assert answer.verdict is Verdict.EVICTED
    [post] = transport.sent("POST")
    assert post.path == "/api/v1/namespaces/shop/pods/web-1/eviction"
    assert post.body["apiVersion"] == "policy/v1"
    preconditions = {"uid": "uid-web-1", "resourceVersion": "7"}
    assert post.body["deleteOptions"] == {"preconditions": preconditions}
    assert post.body["metadata"]["annotations"] == {"requester": "rebalancer", "reason": "hot is at 90%"}


def test_an_answer_that_names_the_version_of_the_deleted_pod_accepts_the_eviction() -> None:
    since_1_38 = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "9"},
        "status": "Success",
    }
    answer, transport, _ = evicted(Script(Answer(201, since_1_38)))
    assert (answer.verdict, answer.message) == (Verdict.EVICTED, "accepted by the API server")
    assert len(transport.sent("POST")) == 1


@rows(
    "answer, why",
    [
        (Answer(201, b"no gzip", {"Content-Encoding": "gzip"}), "has no body"),
        (Answer(201, b" " * (2 << 20)), "is no Status of the API server"),
    ],
)
def test_a_success_whose_body_cannot_be_read_is_told_by_what_becomes_of_the_pod(
    answer: Answer, why: str
) -> None:
    attempt, transport, _ = evicted(Script(answer), the_pod(terminating=True))
    assert attempt.verdict is Verdict.EVICTED
    assert attempt.message == f"the answer, with HTTP 201, {why}; the pod is terminating"
    assert len(transport.sent("POST")) == 1


def test_a_dry_run_asks_the_api_server_to_change_nothing() -> None:
    _, transport, _ = evicted(Script(ACCEPTED), dry_run=True)
    assert transport.sent("POST")[0].query["dryRun"] == "All"


def test_nothing_is_ever_deleted() -> None:
    for script in (Script(ACCEPTED), Script(BUDGET), Script(LOST), Script(TWO_BUDGETS)):
        _, transport, _ = evicted(script, the_pod())
        assert {request.method for request in transport.requests} <= {"GET", "POST"}


def test_a_budget_is_asked_again_within_patience_then_its_refusal_stands() -> None:
    answer, transport, time = evicted(Script(BUDGET))
    assert answer.verdict is Verdict.REFUSED
    assert answer.message.startswith("The disruption budget web needs 3 healthy pods")
    assert answer.requests == len(transport.sent("POST")) == 4
    assert sum(time.slept) <= 20


def test_a_budget_that_has_room_again_lets_the_pod_go() -> None:
    answer, _, _ = evicted(Script(BUDGET, ACCEPTED))
    assert (answer.verdict, answer.requests) == (Verdict.EVICTED, 2)


def test_retry_after_is_honoured() -> None:
    _, _, time = evicted(Script(refusal(429, "too many requests", retry_after=7), ACCEPTED))
    assert time.slept == [7]


def test_a_retry_after_longer_than_patience_is_a_refusal_at_once() -> None:
    answer, transport, time = evicted(Script(refusal(429, "too many requests", retry_after=86400)))
    assert answer.verdict is Verdict.REFUSED
    assert not time.slept
    assert len(transport.sent("POST")) == 1


@rows("value", ["-5", "nan", "inf", "soon", "1e400", ""])
def test_a_retry_after_that_is_none_is_not_waited_for(value: str) -> None:
    odd = Answer(429, {"kind": "Status", "message": "too many requests"}, {"Retry-After": value})
    answer, _, time = evicted(Script(odd, ACCEPTED))
    assert answer.verdict is Verdict.EVICTED
    assert time.slept == [0.5]


@pytest.mark.parametrize(
    "message",
    [
        'Eviction triggered evacuation of VMI "shop/web"',
        'admission webhook "x" denied the request: Evacuation in progress: '
        'Eviction triggered evacuation of VMI "shop/web"',
    ],
)
def test_an_evacuation_that_began_is_started_and_never_asked_again(message: str) -> None:
    answer, transport, time = evicted(Script(refusal(429, message, retry_after=1), ACCEPTED))
    assert (answer.verdict, answer.message, answer.requests) == (Verdict.STARTED, message, 1)
    assert len(transport.sent("POST")) == 1
    assert not time.slept


def test_the_same_words_in_another_answer_start_nothing() -> None:
    answer, _, _ = evicted(Script(refusal(403, "Eviction triggered evacuation of nothing")))
    assert answer.verdict is Verdict.REFUSED


@rows("status", [400, 405, 410, 413, 422])
def test_a_request_that_is_rejected_is_refused_at_once_with_its_status(status: int) -> None:
    answer, transport, time = evicted(Script(refusal(status, "no such thing", retry_after=1), ACCEPTED))
    assert (answer.verdict, answer.ends, answer.requests) == (Verdict.REFUSED, Ends.REJECTED, 1)
    words = f"the API server rejected the request with HTTP {status}: no such thing; the pod is still there"
    assert answer.message == words
    assert len(transport.sent("POST")) == 1
    assert not time.slept


def test_a_webhook_may_deny_one_pod_with_any_status() -> None:
    denied = refusal(422, 'admission webhook "x" denied the request: not this one')
    answer, _, _ = evicted(Script(denied))
    assert (answer.verdict, answer.ends) == (Verdict.REFUSED, None)
    assert "HTTP 422" in answer.message


def test_a_rejection_after_a_lost_answer_leaves_open_whether_the_pod_was_evicted() -> None:
    answer, _, _ = evicted(Script(LOST, refusal(405, "not served")), the_pod())
    assert answer.verdict is Verdict.UNKNOWN


def test_a_pod_of_two_budgets_is_refused_without_asking_again() -> None:
    answer, transport, _ = evicted(Script(TWO_BUDGETS), the_pod())
    assert answer.verdict is Verdict.REFUSED
    assert "more than one" in answer.message
    assert len(transport.sent("POST")) == 1


def test_a_pod_that_is_gone_before_the_request_is_not_asked_for() -> None:
    for pod in (ABSENT, the_pod(uid="its-successor"), the_pod(terminating=True)):
        api, transport = fake_api(lambda _, pod=pod: pod)  # type: ignore[misc]
        attempt = evict(EvictionClient(api, lambda: NOW), a_move())
        assert (attempt.verdict, attempt.requests) == (Verdict.GONE, 0)
        assert not transport.sent("POST")


@pytest.mark.parametrize("answer", [ABSENT, refusal(404, 'namespaces "shop" not found')])
def test_a_404_is_not_believed_of_a_pod_that_is_there(answer: Answer) -> None:
    attempt, _, _ = evicted(Script(answer))
    assert (attempt.verdict, attempt.ends) == (Verdict.REFUSED, Ends.REJECTED)


def test_a_pod_that_left_after_any_answer_at_all_is_remembered_as_evicted() -> None:
    for status in (400, 403, 422, 429, 500, 503, 504):
        for pod in (ABSENT, the_pod(terminating=True)):
            assert evicted(Script(refusal(status, "x")), pod)[0].verdict is Verdict.EVICTED


@rows("status", [302, 400, 403, 404, 418, 429, 500, 502, 503, 504, 599])
def test_what_does_not_bear_the_api_servers_own_status_leaves_open_what_happened(status: int) -> None:
    attempt, transport, _ = evicted(Script(Answer(status, b"upstream connect error")))
    assert attempt.verdict is Verdict.UNKNOWN
    assert "not the API server that answered" in attempt.message
    assert len(transport.sent("POST")) == (4 if status == 429 or status >= 500 else 1)


@pytest.mark.parametrize("sentence", ["Too many requests, please", "The apiserver is shutting down, please"])
def test_flow_control_turns_away_in_plain_text_and_has_carried_out_nothing(sentence: str) -> None:
    turned_away = Answer(429, f"{sentence} try again later.\n".encode(), {"Retry-After": "1"})
    attempt, _, time = evicted(Script(turned_away))
    assert attempt.verdict is Verdict.REFUSED
    assert time.slept[0] == 1


def test_a_pod_that_changed_since_its_move_was_checked_is_judged_before_its_request() -> None:
    attempt, transport, _ = evicted(Script(ACCEPTED), judge=lambda _, pod: f"{pod.full_name} is protected")
    assert (attempt.verdict, attempt.message) == (Verdict.SKIPPED, "shop/web-1 is protected")
    assert not transport.sent("POST")


def test_a_pod_that_is_protected_between_two_requests_is_not_asked_for_again() -> None:
    def judge(move: Move, pod: ObservedPod) -> Move | str:
        return "protected" if pod.metadata.annotations else move

    protected = the_pod(annotations={"safe": "no"})
    attempt, transport, _ = evicted(Script(refusal(409, "another version")), protected, judge=judge)
    assert (attempt.verdict, attempt.message) == (Verdict.SKIPPED, "protected")
    attempt, transport, _ = evicted(Script(LOST), protected, judge=judge)
    assert (attempt.verdict, attempt.message) == (Verdict.UNKNOWN, "protected")
    assert len(transport.sent("POST")) == 1


def test_a_pod_that_changes_again_and_again_is_given_up() -> None:
    attempt, transport, _ = evicted(Script(refusal(409, "another version")))
    assert attempt.verdict is Verdict.REFUSED
    assert len(transport.sent("POST")) == 4


def test_a_move_is_made_with_the_landings_it_has_when_it_is_requested() -> None:
    attempt, _, _ = evicted(Script(ACCEPTED), judge=lambda _, pod: a_move(to=("cold",)))
    assert attempt.move == a_move(to=("cold",))


def test_a_pod_that_cannot_be_looked_at_is_not_evicted() -> None:
    api, transport = fake_api(lambda _: refusal(403, "no"))
    attempt = evict(EvictionClient(api, lambda: NOW), a_move())
    assert (attempt.verdict, type(attempt.failure)) == (Verdict.SKIPPED, RightsError)
    assert not transport.sent("POST")


def test_a_conflict_on_the_same_pod_is_tried_again() -> None:
    answer, _, _ = evicted(Script(refusal(409, "the object has been modified"), ACCEPTED), the_pod())
    assert answer.verdict is Verdict.EVICTED


def test_a_missing_right_is_distinguished_from_a_refusal() -> None:
    rbac = 'pods "web-1" is forbidden: User "x" cannot create resource "pods/eviction" in API group ""'
    answer, _, _ = evicted(Script(refusal(403, rbac)))
    assert (answer.verdict, answer.ends) == (Verdict.REFUSED, Ends.RIGHTS)
    answer, _, _ = evicted(Script(refusal(403, 'admission webhook "guard" denied the request')))
    assert (answer.verdict, answer.ends) == (Verdict.REFUSED, None)


@pytest.mark.parametrize(
    "fault",
    [LOST, ReadTimeoutError(None, "/", "timed out"), ConnectionResetError(104, "reset")],
)
def test_an_eviction_whose_answer_is_lost_counts_when_the_pod_is_going(fault: Exception) -> None:
    assert evicted(Script(fault), the_pod(terminating=True))[0].verdict is Verdict.EVICTED
    assert evicted(Script(fault), ABSENT)[0].verdict is Verdict.EVICTED
    assert evicted(Script(fault), the_pod(uid="its-successor"))[0].verdict is Verdict.EVICTED


def test_an_eviction_whose_answer_is_lost_is_repeated_while_the_pod_stays() -> None:
    answer, transport, _ = evicted(Script(LOST, ACCEPTED), the_pod())
    assert answer.verdict is Verdict.EVICTED
    assert len(transport.sent("POST")) == 2


def test_a_pod_that_goes_between_two_tries_was_evicted_by_the_lost_one() -> None:
    for fault in (LOST, refusal(504, "timeout")):
        answer, transport, _ = evicted(Script(fault), Script(the_pod(), ABSENT))
        assert (answer.verdict, len(transport.sent("POST"))) == (Verdict.EVICTED, 1)
        answer, transport, _ = evicted(Script(fault, ABSENT), Script(the_pod(), the_pod(), ABSENT))
        assert (answer.verdict, len(transport.sent("POST"))) == (Verdict.EVICTED, 2)


def test_an_answer_that_stays_lost_is_unknown_even_if_the_pod_is_there() -> None:
    answer, transport, _ = evicted(Script(LOST), the_pod())
    assert answer.verdict is Verdict.UNKNOWN
    assert len(transport.sent("POST")) == 4


@rows("then", [BUDGET, TWO_BUDGETS, refusal(503, "shutting down"), refusal(403, "no")])
def test_a_refusal_after_a_lost_answer_is_unknown_for_the_lost_request_may_still_arrive(then: Answer) -> None:
    assert evicted(Script(LOST, then), the_pod())[0].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    "answer",
    [refusal(502, "bad gateway"), refusal(504, "timeout"), refusal(500, "etcdserver: request timed out")],
)
def test_an_eviction_that_somebody_stopped_waiting_for_is_unknown_for_it_may_still_be_made(
    answer: Answer,
) -> None:
    assert evicted(Script(answer), the_pod())[0].verdict is Verdict.UNKNOWN
    assert evicted(Script(answer, BUDGET), the_pod())[0].verdict is Verdict.UNKNOWN


def test_an_answer_that_is_lost_and_a_pod_that_cannot_be_read_are_unknown_at_once() -> None:
    answer, transport, _ = evicted(Script(LOST), LOST)
    assert answer.verdict is Verdict.UNKNOWN
    assert len(transport.sent("POST")) == 1


def test_a_server_error_is_looked_up_and_is_a_refusal_if_it_persists() -> None:
    answer, _, _ = evicted(Script(refusal(503, "apiserver is shutting down")), the_pod())
    assert answer.verdict is Verdict.REFUSED
    answer, _, _ = evicted(Script(refusal(504, "timeout")), the_pod(terminating=True))
    assert answer.verdict is Verdict.EVICTED


@rows("body", [b"", b"\xff\xfe", b"[" * 5000, b'{"message": 5}', b'{"details": []}', b"null"])
@rows("status", [302, 400, 401, 403, 404, 409, 418, 422, 429, 500, 599])
def test_odd_answers_are_verdicts(status: int, body: bytes) -> None:
    answer, _, _ = evicted(Script(Answer(status, body)), the_pod())
    assert answer.verdict is (Verdict.REFUSED if status == 401 else Verdict.UNKNOWN)
    assert answer.message


@rows("body", [b"", b"{", b"[]", b'{"metadata": 7}', b'{"metadata": {"uid": null}}'])
def test_a_pod_that_cannot_be_decoded_is_unknown(body: bytes) -> None:
    answer, _, _ = evicted(Script(LOST), Answer(200, body))
    assert answer.verdict is Verdict.UNKNOWN


def test_a_run_asked_to_stop_does_not_try_again() -> None:
    answer, transport, time = evicted(Script(BUDGET), interrupted=True)
    assert answer.verdict is Verdict.REFUSED
    assert len(transport.sent("POST")) == 1
    assert not time.slept


def test_the_servers_clock_counts_when_ours_is_ahead() -> None:
    date = "Tue, 14 Nov 2023 22:13:00 GMT"  # twenty seconds before NOW
    answer, _, _ = evicted(Script(replace(ACCEPTED, headers={"Date": date})))
    assert answer.not_before == NOW - 20
    assert evicted(Script(ACCEPTED))[0].not_before == NOW


@pytest.mark.parametrize("date", ["Tue, 14 Nov 2023 22:14:00 GMT", "Tue, 29 Dec 2026 08:00:00 GMT"])
def test_an_eviction_has_our_date_whatever_the_server_says(date: str) -> None:
    answer, _, _ = evicted(Script(replace(ACCEPTED, headers={"Date": date})))
    assert (answer.at, answer.not_before) == (NOW, NOW)


@pytest.mark.parametrize(
    "answer",
    [LOST, Answer(504, b"<html>"), replace(ACCEPTED, headers={"Date": "Tue, 14 Nov 2023 22:13:15 GMT"})],
    ids=["lost", "a proxy's", "late"],
)
def test_when_the_pod_was_read_its_clock_said_how_old_a_replacement_may_be(
    answer: Answer | Exception,
) -> None:
    """Where the answer is late or lost, the replacement may be older than that, and than our clock says."""
    read = replace(the_pod(), headers={"Date": "Tue, 14 Nov 2023 22:13:00 GMT"})  # twenty seconds before NOW
    requests: list[str] = []

    def handler(request: Request) -> Answer | Exception:
        requests.append(request.method)
        if request.method == "POST":
            return answer
        return read if "POST" not in requests else ABSENT

    time = FakeTime(NOW)
    api, _ = fake_api(handler, time)
    attempt = evict(EvictionClient(api, time.clock), a_move())
    assert attempt.verdict is Verdict.EVICTED
    assert NOW - 20 <= attempt.not_before < NOW - 5


@rows("date", ["", "yesterday", "Tue, 99 Nov 99999 22:13:00 GMT", None])
def test_a_date_that_is_none_is_ignored(date: str | None) -> None:
    assert http_date(date) is None


@rows("status", [401, 403, 409, 429, 500, 503])
def test_what_the_api_server_says_of_an_eviction_is_told_in_its_own_words(status: int) -> None:
    """A rejection with any other status is told with its number, because it is unusual."""
    answer, _, _ = evicted(Script(refusal(status, "not this one")))
    assert answer.message.startswith("not this one")


def test_an_answer_that_is_not_awaited_leaves_open_what_happened_unless_the_pod_shows_it() -> None:
    not_awaited = StopRequestedError("asked to stop")
    answer, _, _ = evicted(Script(not_awaited), interrupted=True)
    assert answer.verdict is Verdict.UNKNOWN
    assert answer.message == "the answer was not awaited (asked to stop); the pod is still there"
    answer, _, _ = evicted(Script(not_awaited), the_pod(terminating=True), interrupted=True)
    assert answer.verdict is Verdict.EVICTED
