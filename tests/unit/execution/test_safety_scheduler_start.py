"""When a scheduler started is read from its Lease, else from its pods, and never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.cluster import times
from rebalancer.execution.safety import scheduler_start
from rebalancer.planning.inputs import SchedulerStart
from rebalancer.planning.scheduler_location import SchedulerLocation
from tests.unit.execution.builders import NOW
from tests.unit.execution.fake_api import Answer, Request, fake_api, refusal
from tests.unit.execution.schedulers import BY_IMAGE, BY_LEASE, a_scheduler_pod

ACQUIRED = NOW - 35


def start(location: SchedulerLocation, lease: Any = (), pods: Any = ()) -> SchedulerStart:
    def handler(request: Request) -> Answer:
        found, kind = (lease, "LeaseList") if request.path.endswith("/leases") else (pods, "PodList")
        if isinstance(found, Answer):
            return found
        return Answer(200, {"kind": kind, "metadata": {}, "items": list(found)})

    return scheduler_start(fake_api(handler)[0], location, NOW)


def acquired(text: str | None) -> dict[str, Any]:
    return {"metadata": {"name": "trimaran"}, "spec": {"acquireTime": text, "holderIdentity": "node-1"}}


def test_it_started_at_the_latest_when_it_acquired_its_lease() -> None:
    when = times.render_micro(ACQUIRED)
    found = start(BY_LEASE, [acquired(when)])
    assert found.at == ACQUIRED
    assert "acquired lease kube-system/trimaran" in found.because


@pytest.mark.parametrize("text", [None, "", "yesterday"])
def test_a_lease_that_does_not_tell_leaves_it_unknown(text: str | None) -> None:
    found = start(BY_LEASE, [acquired(text)])
    assert found.at is None
    assert "does not say when it was acquired" in found.because


def test_a_lease_that_is_not_there_leaves_it_unknown() -> None:
    found = start(BY_LEASE)
    assert found == SchedulerStart(
        None, "lease kube-system/trimaran does not exist, and where its pods run is not known"
    )


def test_a_right_that_is_missing_leaves_it_unknown() -> None:
    assert start(BY_LEASE, refusal(403, "leases is forbidden")).at is None


def test_without_a_lease_the_pod_that_became_ready_last_counts() -> None:
    later = a_scheduler_pod("trimaran-1")
    for condition in later["status"]["conditions"]:
        condition["lastTransitionTime"] = times.render(NOW - 20)
    found = start(BY_IMAGE, pods=[a_scheduler_pod(), later])
    assert found.at == NOW - 20
    assert "sched/trimaran-1" in found.because


def test_a_pod_that_is_not_ready_may_be_starting_now() -> None:
    found = start(BY_IMAGE, pods=[a_scheduler_pod(), a_scheduler_pod("t-2", ready="False")])
    assert found.at == NOW


def test_without_lease_and_pods_it_is_unknown() -> None:
    found = start(BY_IMAGE)
    assert found.at is None
    assert "there is no pod in" in found.because


def test_when_another_scheduler_acquired_the_lease_says_nothing_of_this_one() -> None:
    location = SchedulerLocation("trimaran", BY_LEASE.lease, other_hosts={"node-1": "kube-system/first"})
    found = start(location, [acquired(times.render_micro(ACQUIRED))])
    assert found.at is None
    assert "is held by pod kube-system/first of another scheduler" in found.because
