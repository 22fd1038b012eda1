"""What an API server serves is what its documents name, each of which is read once."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.cluster.kinds import DISRUPTION_BUDGETS
from rebalancer.cluster.live.discovery import Discovery, NotServedError
from rebalancer.errors import UnreachableError
from tests.rows import rows
from tests.unit.execution.fake_api import SERVED, Answer, Transport, fake_api

VERSION = {"major": "1", "minor": "35"}
POLICY = {"kind": "APIGroupList", "groups": [{"name": "policy", "versions": [{"version": "v1"}]}]}


@pytest.fixture(autouse=True)
def every_document_is_the_tests_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SERVED, "/api/v1")


def resources(group_version: str, *rows: dict[str, str]) -> dict[str, Any]:
    return {"kind": "APIResourceList", "groupVersion": group_version, "resources": list(rows)}


def discovery_of(documents: dict[str, Any]) -> tuple[Discovery, Transport]:
    """What is known of a server with these documents."""
    api, transport = fake_api(lambda request: Answer(200, documents[request.path]))
    return Discovery(api), transport


def test_pods_are_evicted_in_the_version_that_is_named_beside_them() -> None:
    row = {"name": "pods/eviction", "group": "policy", "version": "v1beta1"}
    discovery, _ = discovery_of({"/api/v1": resources("v1", {"name": "pods"}, row)})

    assert discovery.eviction_version() == "policy/v1beta1"


@rows(
    "row",
    [
        {"name": "pods"},
        {"name": "pods/eviction"},
        {"name": "pods/eviction", "group": "policy"},
        {"name": "pods/eviction", "version": "v1"},
    ],
)
@rows("version, server", [(VERSION, "API server 1.35"), ({}, "the API server")])
def test_where_no_version_is_named_pods_cannot_be_evicted(
    row: dict[str, str], version: dict[str, str], server: str
) -> None:
    discovery, _ = discovery_of({"/api/v1": resources("v1", row), "/version/": version})

    with pytest.raises(NotServedError) as caught:
        discovery.eviction_version()
    assert caught.value.message == f"{server} does not serve pods/eviction"


def test_each_document_is_read_once() -> None:
    budgets = resources("policy/v1", {"name": DISRUPTION_BUDGETS.path_name})
    documents = {"/apis": POLICY, "/apis/policy/v1": budgets}
    discovery, transport = discovery_of(documents)

    for _ in range(2):
        assert discovery.form(DISRUPTION_BUDGETS) == DISRUPTION_BUDGETS
    read = [request.path for request in transport.requests]
    assert len(read) == len(set(read))


def test_the_document_of_another_group_proves_no_absence() -> None:
    discovery, _ = discovery_of({"/apis": POLICY, "/apis/policy/v1": resources("apps/v1")})

    with pytest.raises(UnreachableError, match="it is of 'apps/v1'"):
        discovery.form(DISRUPTION_BUDGETS)


def test_a_kind_that_is_needed_and_not_served_is_named() -> None:
    discovery, _ = discovery_of({"/version/": VERSION})

    error = discovery.not_served(DISRUPTION_BUDGETS)
    assert error.message == "API server 1.35 does not serve poddisruptionbudgets.policy"
