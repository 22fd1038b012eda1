"""However slow the API server is, the loop of a service takes no longer than /healthz was told beforehand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rebalancer.errors import UnreachableError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.reporting.metrics import RunMetrics
from rebalancer.service import Service, ServiceOptions
from rebalancer.service.endpoints import Health
from rebalancer.service.service import COMPARING_SECONDS, Runs
from tests.conftest import some_of
from tests.unit.execution.fake_api import Answer, FakeTime, Request, fake_api, not_found
from tests.unit.execution.lease_server import LeaseServer

HOURS = 3 * 3600.0


class SlowCluster:
    """Answers each request after so long, or not at all where nobody waits for that long."""

    def __init__(self, seconds: float, health: Health, time: FakeTime) -> None:
        self.lease = LeaseServer()
        self._seconds, self._health, self._time = seconds, health, time
        self.asked: set[str] = set()
        self.failed_probes: list[str] = []

    def passes(self, seconds: float, where: str) -> None:
        """Time passes; the kubelet asks all the while."""
        for _ in range(10):
            self._time.now += seconds / 10
            if not self._health.alive:
                self.failed_probes.append(where)

    def exchange(self, client: Any, method: str, path: str, *_: Any, deadline: Any, **_options: Any) -> Any:
        where = f"{method} {path.rpartition('/')[2]}"
        self.asked.add(where)
        allowed = min(65.0, deadline.request_at - self._time.now)
        self.passes(max(0.0, min(self._seconds, allowed)), where)
        if self._seconds > allowed:
            raise UnreachableError("no whole answer in time")
        return None


@pytest.mark.many_cases
@pytest.mark.parametrize("seconds", some_of([31.0, 0.1, 5.0, 19.0, 29.0, 45.0, 59.0, 64.0, 1000.0]))
def test_a_slow_api_server_never_fails_the_probe_that_has_a_service_restarted(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = FakeTime()
    clocks = SimpleNamespace(time=time.clock, monotonic=time.clock)
    for module in ("service", "waiting"):
        monkeypatch.setattr(f"rebalancer.service.{module}.time", clocks)
    options = PlanOptions(state_config_map="rebalancer/state")
    service = Service(options, ServiceOptions(act=True))
    service._health = health = Health(time.clock)
    cluster = SlowCluster(seconds, health, time)

    def answer(request: Request) -> Answer | Exception:
        if request.path.endswith("/configmaps/state"):
            return not_found(request.path)
        return cluster.lease(request)

    api, _ = fake_api(answer, time)
    send = type(api.client).exchange

    def slowly(client: Any, method: str, path: str, *more: Any, **options: Any) -> Any:
        cluster.exchange(client, method, path, *more, **options)
        return send(client, method, path, *more, **options)

    monkeypatch.setattr(type(api.client), "exchange", slowly)

    class Stop:
        """Asks to stop after some hours."""

        def is_set(self) -> bool:
            return time.now > begins + HOURS

        def is_over(self, _grace: float = 0.0) -> bool:
            return self.is_set()

        def wait(self, seconds: float) -> None:
            cluster.passes(seconds, "waits")

    begins = time.now
    stop: Any = Stop()
    runs = Runs(options, service._settings, api, None, stop, service._policy, RunMetrics())  # type: ignore[arg-type]
    longest = runs.longest_seconds

    def act(_held: Any) -> Any:
        cluster.passes(longest + service._policy.loaded.policy.execution.wave_timeout + 110.0, "a run")
        return SimpleNamespace(exit_code=0, stopped="")

    def compare() -> None:
        cluster.passes(COMPARING_SECONDS, "decisions are compared")
        raise UnreachableError("no answer in time")

    monkeypatch.setattr(runs, "act", act)
    monkeypatch.setattr(runs, "compare", compare)
    monkeypatch.setattr(runs, "read_cluster", lambda _deadline: None)
    service._compete(api, stop, runs)
    assert not cluster.failed_probes
    assert "GET rebalancer" in cluster.asked
    if seconds < 30.0:
        assert "GET state" in cluster.asked, "it has led"
