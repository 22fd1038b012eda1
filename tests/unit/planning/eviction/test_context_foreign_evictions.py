"""Evictions that somebody else asked for are known, unknown, or none, never assumed to be none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rebalancer.planning.eviction.context import ForeignEvictions
from tests.builders import a_recording


def test_where_the_api_is_not_served_nobody_asks_for_an_eviction() -> None:
    found = ForeignEvictions(a_recording())
    assert found.unread is None
    assert found.why_leaving("shop", "web-0", "uid") == ""


@pytest.mark.parametrize("plural", ["evictionrequests", "evictions"])
def test_requests_that_could_not_be_listed_are_unread(plural: str) -> None:
    recording = replace(a_recording(), unread={plural: "forbidden"})
    unread = ForeignEvictions(recording).unread
    assert unread is not None
    assert unread.plural == plural


def test_a_request_that_cannot_be_read_may_mean_any_pod_of_its_namespace() -> None:
    broken = {"metadata": {"namespace": "shop", "name": "odd"}, "spec": {"target": 7}}
    found = ForeignEvictions(a_recording(evictionrequests=[broken]))
    assert found.why_leaving("shop", "web-0", "uid") == "EvictionRequest odd of its namespace cannot be read"
    assert found.why_leaving("bank", "web-0", "uid") == ""
