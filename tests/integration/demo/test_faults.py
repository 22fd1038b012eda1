"""Injected faults reach the client as the real thing would."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import urllib3

from rebalancer_demo import Fault, Faults, Sandbox
from tests.integration.demo.builders import a_config_map, a_pod, connected, eviction_of, refusal

PATH = "/namespaces/shop/configmaps"


def quiet() -> Sandbox:
    objects = [*(a_config_map(f"map-{at}") for at in range(5)), a_pod("web", node="n1")]
    return Sandbox(objects, controllers=False)


def lost(call: Callable[[], object]) -> bool:
    try:
        call()
    except urllib3.exceptions.HTTPError:
        return True
    return False


def test_a_reset_before_leaves_the_request_undone() -> None:
    with connected(quiet()) as (sandbox, core):
        sandbox.faults.add(Fault("reset-before", path="eviction"))
        assert lost(lambda: core.create_namespaced_pod_eviction("web", "shop", eviction_of("web")))
        pod = sandbox.pod("shop", "web")
    assert pod is not None
    assert "deletionTimestamp" not in pod["metadata"]


def test_a_reset_after_loses_the_answer_of_a_request_that_was_carried_out() -> None:
    with connected(quiet()) as (sandbox, core):
        sandbox.faults.add(Fault("reset-after", path="eviction", method="POST"))
        assert lost(lambda: core.create_namespaced_pod_eviction("web", "shop", eviction_of("web")))
        pod = sandbox.pod("shop", "web")
    assert pod is not None
    assert "deletionTimestamp" in pod["metadata"]


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_status_is_answered_as_often_as_asked_and_then_no_more(code: int) -> None:
    with connected(quiet()) as (sandbox, core):
        sandbox.faults.add(Fault("status", path=PATH, code=code, retry_after=7, times=2))
        for _ in range(2):
            found, status, headers = refusal(lambda: core.list_namespaced_config_map("shop"))
            assert (found, status["code"], headers["Retry-After"]) == (code, code, "7")
        assert len(core.list_namespaced_config_map("shop").items) == 5
        assert sandbox.faults.hits == 2


def test_a_fault_can_wait_for_the_nth_request() -> None:
    with connected(quiet()) as (sandbox, core):
        sandbox.faults.add(Fault("status", path=PATH, skip=2))
        for _ in range(2):
            core.list_namespaced_config_map("shop")
        assert refusal(lambda: core.list_namespaced_config_map("shop"))[0] == 503


def test_a_truncated_body_breaks_the_answer() -> None:
    with connected(quiet()) as (sandbox, core):
        sandbox.faults.add(Fault("truncate", path=PATH))
        assert lost(lambda: core.list_namespaced_config_map("shop", _preload_content=False).data)
        assert len(core.list_namespaced_config_map("shop").items) == 5


def test_a_continued_list_can_be_made_to_expire() -> None:
    with connected(quiet()) as (sandbox, core):
        sandbox.faults.add(Fault("expire-continue", path=PATH))
        token = core.list_namespaced_config_map("shop", limit=2).metadata._continue
        code, status, _ = refusal(lambda: core.list_namespaced_config_map("shop", limit=2, _continue=token))
        assert (code, status["reason"]) == (410, "Expired")
        assert len(core.list_namespaced_config_map("shop", limit=2, _continue=token).items) == 2


def test_latency_delays_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(quiet()) as (sandbox, core):
        waits: list[float] = []
        monkeypatch.setattr(sandbox._server.stopping, "wait", waits.append)
        sandbox.faults.add(Fault("latency", path=PATH, seconds=0.2))
        assert len(core.list_namespaced_config_map("shop").items) == 5
    assert waits == [0.2]


def test_the_same_seed_hits_the_same_requests() -> None:
    def hits(seed: int) -> list[bool]:
        faults = Faults(seed)
        faults.add(Fault("status", probability=0.5, times=0))
        return [bool(faults.pick("GET", "/api/v1/pods")) for _ in range(50)]

    assert hits(1) == hits(1) != hits(2)
    assert 10 < sum(hits(1)) < 40
