"""Each kind is read in the newest version that is served; absent is what no document of the server names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence

import pytest
import urllib3

from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.kinds import KINDS, METRICS, REQUIRED, Kind
from rebalancer.cluster.live.watching.live_cluster import LiveCluster
from rebalancer_demo import Surface
from tests.integration.reading.servers import Answer, a_sandbox, answering, api_of, reading

HTML: Answer = 404, b"<html>404 Not Found</html>", "text/html"
PLAIN: Answer = 404, b"404 page not found\n", "text/plain"
NAMELESS: Answer = (
    404,
    json.dumps(
        {
            "kind": "Status",
            "status": "Failure",
            "reason": "NotFound",
            "message": "the server could not find the requested resource",
            "code": 404,
        }
    ).encode(),
)
OPTIONAL = [kind for kind in KINDS if kind not in REQUIRED and kind not in METRICS]


@pytest.fixture
def pool() -> Iterator[urllib3.PoolManager]:
    pool = urllib3.PoolManager()
    yield pool
    pool.clear()


def recording_behind(
    pool: urllib3.PoolManager, answer: Callable[[str], Answer | None], *, minor: int = 35
) -> Recording:
    """What is read through a proxy that answers some paths itself."""
    with a_sandbox(surface=Surface(minor)) as sandbox:

        def passed_on(path: str) -> Answer:
            own = answer(path)
            if own is not None:
                return own
            found = pool.request("GET", sandbox.url + path, retries=False)
            return found.status, found.data

        with answering(passed_on) as url, reading(url, protobuf=False) as reader:
            return reader.read()


@pytest.mark.parametrize("minor", [19, 20, 21, 22, 23, 24, 25, 26, 35])
def test_every_kind_of_a_server_of_any_age_is_read_or_proven_absent(minor: int) -> None:
    with a_sandbox(surface=Surface(minor)) as sandbox, reading(sandbox.url) as reader:
        recording = reader.read()

    assert recording.unread == {}
    assert set(recording.listings) == {kind.plural for kind in KINDS}
    (budget,) = recording.listings["poddisruptionbudgets"].records
    assert budget.metadata.name == "web"


@pytest.mark.parametrize(
    ("minor", "budgets", "autoscalers"),
    [
        (20, "policy/v1beta1", "autoscaling/v2beta2"),
        (22, "policy/v1", "autoscaling/v2beta2"),
        (35, "policy/v1", "autoscaling/v2"),
    ],
)
def test_the_newest_served_version_is_read(minor: int, budgets: str, autoscalers: str) -> None:
    with a_sandbox(surface=Surface(minor)) as sandbox, reading(sandbox.url) as reader:
        listings = reader.read().listings

    assert listings["poddisruptionbudgets"].kind.api_version == budgets
    assert listings["horizontalpodautoscalers"].kind.api_version == autoscalers


def test_a_kind_in_an_older_version_is_followed_as_any_other() -> None:
    with (
        a_sandbox(surface=Surface(20)) as sandbox,
        api_of(sandbox.url) as api,
        LiveCluster(api, sandbox.clock, watch_above=0) as cluster,
    ):
        cluster.current()
        sandbox.store.mutate(
            "poddisruptionbudgets", "default", "web", lambda item: item["spec"].update(maxUnavailable=7)
        )
        second = cluster.current()
        followed = {kind.api_version for kind in cluster.feeds if kind.plural == "poddisruptionbudgets"}

    assert followed == {"policy/v1beta1"}
    assert second.unread == {}
    (budget,) = second.listings["poddisruptionbudgets"].records
    assert budget.spec.max_unavailable == 7  # type: ignore[attr-defined]


def documents_that_serve(kinds: Sequence[Kind]) -> dict[str, bytes]:
    """What is served, by path: the groups of these kinds, and each group's kinds."""
    groups = [
        {"name": kind.group, "versions": [{"groupVersion": kind.api_version, "version": kind.version}]}
        for kind in kinds
    ]
    documents = {"/apis": json.dumps({"kind": "APIGroupList", "groups": groups}).encode()}
    for kind in kinds:
        of_group = [{"name": other.path_name} for other in kinds if other.api_version == kind.api_version]
        listed = {"kind": "APIResourceList", "groupVersion": kind.api_version, "resources": of_group}
        documents[kind.path.rpartition("/")[0]] = json.dumps(listed).encode()
    return documents


@pytest.mark.parametrize("foreign", [HTML, PLAIN, NAMELESS], ids=["html", "plain", "nameless"])
def test_a_404_for_kinds_that_are_served_is_unread_and_never_empty(
    pool: urllib3.PoolManager, foreign: Answer
) -> None:
    documents = documents_that_serve(OPTIONAL)
    paths = {kind.path for kind in OPTIONAL}

    def answer(path: str) -> Answer | None:
        if path in documents:
            return 200, documents[path]
        return foreign if path.partition("?")[0] in paths else None

    recording = recording_behind(pool, answer)

    for kind in OPTIONAL:
        assert kind.plural not in recording.listings
        assert f"although the API server serves {kind.api_version}" in recording.unread[kind.plural]


def test_a_404_is_unread_where_what_is_served_cannot_be_read(pool: urllib3.PoolManager) -> None:
    documents = re.compile(r"/api(s(/[^/]+)?)?/?[^/]*$")
    paths = {kind.path for kind in OPTIONAL}

    def answer(path: str) -> Answer | None:
        path = path.partition("?")[0]
        return HTML if path in paths or documents.fullmatch(path) else None

    recording = recording_behind(pool, answer)

    for kind in OPTIONAL:
        assert kind.plural not in recording.listings
        assert "what the API server serves is not known" in recording.unread[kind.plural]


@pytest.mark.parametrize(
    "document",
    [
        b"<html>",
        b"null",
        b"{}",
        b'{"kind": "Status", "status": "Success"}',
        b'{"kind": "APIGroupList"}',
        b'{"kind": "APIResourceList", "groupVersion": "v1", "resources": []}',
        b'{"kind": "Status", "groups": []}',
    ],
)
def test_what_is_no_document_of_discovery_proves_no_absence(
    pool: urllib3.PoolManager, document: bytes
) -> None:
    recording = recording_behind(pool, lambda path: (200, document) if path == "/apis" else None)

    assert "verticalpodautoscalers" not in recording.listings
    assert "what the API server serves is not known" in recording.unread["verticalpodautoscalers"]


def test_a_kind_that_is_served_in_unknown_versions_alone_is_unread_and_says_so(
    pool: urllib3.PoolManager,
) -> None:
    groups = {
        "kind": "APIGroupList",
        "groups": [{"name": "lifecycle.k8s.io", "versions": [{"version": "v9"}]}],
    }
    listed = {
        "kind": "APIResourceList",
        "groupVersion": "lifecycle.k8s.io/v9",
        "resources": [{"name": "evictionrequests"}],
    }
    documents = {"/apis": groups, "/apis/lifecycle.k8s.io/v9": listed}

    def answer(path: str) -> Answer | None:
        return (200, json.dumps(documents[path]).encode()) if path in documents else None

    recording = recording_behind(pool, answer)

    assert "evictions" in recording.listings
    assert recording.unread["evictionrequests"] == (
        "API server 1.35 serves evictionrequests.lifecycle.k8s.io as v9 alone, which rebalancer does not read"
    )


def test_a_list_of_groups_without_the_one_by_which_pods_are_evicted_proves_no_absence(
    pool: urllib3.PoolManager,
) -> None:
    """Half of discovery: budgets would be taken to be absent, and pods evicted as if there were none."""
    groups = {"kind": "APIGroupList", "groups": [{"name": "apps", "versions": [{"version": "v1"}]}]}

    def answer(path: str) -> Answer | None:
        if path == "/apis":
            return 200, json.dumps(groups).encode()
        return PLAIN if path.startswith("/apis/policy/") else None

    recording = recording_behind(pool, answer)

    assert "poddisruptionbudgets" not in recording.listings
    assert "it lacks policy, by which pods/eviction is served" in recording.unread["poddisruptionbudgets"]
    assert "verticalpodautoscalers" in recording.listings  # which this server does not have
