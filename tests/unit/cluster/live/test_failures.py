"""What the transport noticed is translated to what is wrong; what is not known keeps its own words."""

from __future__ import annotations

import json

import pytest

from rebalancer.cluster.live.failures import RequestRejectedError, StatusError, connection_failure
from rebalancer.errors import ExitCode, RebalancerError, RightsError, UnreachableError
from rebalancer.http import Answer
from tests.rows import rows
from tests.unit.execution.fake_api import fake_api, refusal

VERIFY = "SSLError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"
CLIENT, LISTENS, NETWORK = "client certificate", "nothing listens", "over the network"
BROKE_OFF = "the answer broke off, or came damaged"
SEEN = {
    "SSLError: [SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)": "speaks plain HTTP",
    f"{VERIFY}: certificate has expired (_ssl.c:1006)": "certificate has expired",
    f"{VERIFY}: certificate is not yet valid (_ssl.c:1006)": "not valid yet",
    f"{VERIFY}: Hostname mismatch, certificate is not valid for 'a'. (_ssl.c:1006)": "another name",
    f"{VERIFY}: IP address mismatch, certificate is not valid for '::1'. (_ssl.c:1006)": "another name",
    f"{VERIFY}: self-signed certificate (_ssl.c:1006)": "nobody who is trusted",
    f"{VERIFY}: unable to get local issuer certificate (_ssl.c:1006)": "nobody who is trusted",
    "SSLError: [SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] alert certificate required": CLIENT,
    "SSLError: [SSL: SSLV3_ALERT_BAD_CERTIFICATE] sslv3 alert bad certificate": CLIENT,
    "NewConnectionError: Failed to establish a connection: [Errno 111] Connection refused": LISTENS,
    "NameResolutionError: Failed to resolve 'a.invalid' ([Errno -2] not known)": "resolved",
    "ConnectTimeoutError: Connection to 10.0.0.1 timed out. (connect timeout=5.0)": NETWORK,
    "NewConnectionError: Failed to establish a connection: [Errno 113] No route to host": NETWORK,
    "TimeoutError: no whole answer within 65 s": "TimeoutError: no whole answer within 65 s",
    "ReadTimeoutError: Read timed out. (read timeout=60)": "(read timeout=60)",
    "ProxyError: Unable to connect to proxy": "the proxy does not let",
    "ProtocolError: Connection broken: IncompleteRead(94 bytes read, 95 more expected)": BROKE_OFF,
    "ProtocolError: Response ended prematurely": BROKE_OFF,
    "DecodeError: Received response with content-encoding: gzip, but failed to decode it.": BROKE_OFF,
    "ProtocolError: Connection aborted.": "was closed before an answer",
    "ConnectionResetError: [Errno 104] Connection reset by peer": "was closed before an answer",
}


@rows("words", SEEN)
def test_what_the_transport_says_becomes_what_is_wrong_and_what_to_do(words: str) -> None:
    message, hint = connection_failure(words)

    assert SEEN[words] in message
    assert hint


def test_what_is_not_known_keeps_its_words() -> None:
    message, hint = connection_failure("LocationParseError: Failed to parse it")

    assert message == "LocationParseError: Failed to parse it"
    assert hint == "is the API server up, and does the kubeconfig name it?"


@rows(
    "status, error",
    [
        (302, RequestRejectedError),
        (401, RightsError),
        (402, RequestRejectedError),
        (403, RightsError),
        (404, RequestRejectedError),
        (429, UnreachableError),
        (499, RequestRejectedError),
        (500, UnreachableError),
        (501, UnreachableError),
    ],
)
def test_the_status_says_whether_a_right_is_missing_the_request_is_wrong_or_the_server_fails(
    status: int, error: type[RebalancerError]
) -> None:
    api, _ = fake_api(lambda _request: refusal(status, "no"))

    with pytest.raises(RebalancerError, match="list pods: no") as caught:
        api.get("list pods", "/api/v1/pods")
    assert type(caught.value) is error


@rows("message", [None, "", 7, ["no"]])
def test_a_status_without_words_is_reported_by_the_status_line(message: object) -> None:
    body = json.dumps({"kind": "Status", "message": message}).encode()

    assert StatusError(Answer(body, 409, reason="Conflict")).message == "HTTP 409 Conflict"


def test_a_server_that_wants_https_is_reported_so() -> None:
    error = StatusError(Answer(b"Client sent an HTTP request to an HTTPS server.\n", 400))

    assert error.message == "the server speaks HTTPS, and the address begins with http://"


@rows(
    "words",
    [
        'admission webhook "policy.example.com" denied the request: no',
        "configmaps 'state' is forbidden: ValidatingAdmissionPolicy 'x' denied request: no",
        'configmaps "state" is forbidden: exceeded quota: objects, requested: configmaps=1, limited: 9',
        'configmaps "state" is forbidden: unable to create new content in namespace rebalancer because it is '
        "being terminated",
    ],
)
def test_what_admission_forbids_is_no_missing_right(words: str) -> None:
    api, _ = fake_api(lambda _request: refusal(403, words))

    with pytest.raises(RequestRejectedError) as caught:
        api.write("write configmap rebalancer/state", "POST", "/api/v1/namespaces/rebalancer/configmaps", {})
    assert caught.value.exit_code is ExitCode.REJECTED
    assert words in caught.value.message
    assert not caught.value.hint


def test_what_the_authorizer_forbids_is_a_missing_right() -> None:
    words = 'configmaps "state" is forbidden: User "me" cannot get resource "configmaps" in API group ""'
    api, _ = fake_api(lambda _request: refusal(403, words))

    with pytest.raises(RightsError, match="cannot get resource"):
        api.get("read configmap rebalancer/state", "/api/v1/namespaces/rebalancer/configmaps/state")
