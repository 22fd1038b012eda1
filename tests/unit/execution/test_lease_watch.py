"""A standby takes a lease that was given up at its next look, one whose holder died after its duration."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rebalancer.cluster.live import RawApi
from rebalancer.execution.lease import HeldLease, LeaseWatch
from tests.unit.execution.builders import NOW
from tests.unit.execution.fake_api import FakeTime, fake_api, refusal
from tests.unit.execution.lease_server import LeaseServer, lease_of, spec


@dataclass
class World:
    server: LeaseServer
    time: FakeTime
    api: RawApi

    def watch(self, identity: str = "two", *, skew: float = 0.0) -> LeaseWatch:
        return LeaseWatch(lease_of(self.api, self.time, identity, skew=skew))

    def taken(self, identity: str = "one") -> HeldLease:
        return lease_of(self.api, self.time, identity).acquire()


@pytest.fixture
def world() -> World:
    server, time = LeaseServer(), FakeTime(NOW)
    return World(server, time, fake_api(server, time)[0])


def test_a_free_lease_is_taken_at_the_first_look(world: World) -> None:
    held = world.watch().look()

    assert held is not None
    assert held.held
    found = spec(world.server)
    assert (found["holderIdentity"], found["leaseTransitions"]) == ("two", 1)
    assert found["acquireTime"] == found["renewTime"]


def test_a_lease_that_was_given_up_is_taken_at_the_next_look(world: World) -> None:
    held, watch = world.taken(), world.watch()
    assert watch.look() is None
    assert watch.holder == "one"
    held.release()
    assert watch.look() is not None


def test_a_lease_that_somebody_else_took_meanwhile_is_not_said_to_be_held_by_nobody(world: World) -> None:
    watch = world.watch()
    world.server.faults = [{"status": 409, "body": refusal(409, "already exists").body}]
    assert watch.look() is None
    assert watch.why_not == "changed just now, and is looked at again"
    world.taken()
    assert watch.look() is None
    assert watch.why_not == "is held by 'one'"


@pytest.mark.parametrize("skew", [-600, 0, 600])
def test_a_lease_of_a_holder_that_died_is_taken_after_its_whole_duration_and_not_before(
    world: World, skew: float
) -> None:
    dead, watch = world.taken(), world.watch(skew=skew)
    looks = 0
    while (mine := watch.look()) is None:
        looks += 1
        assert looks < 100
        world.time.now += 2.0
    assert not dead.held  # by the one clock that both count by
    assert mine.held
    assert world.time.now - NOW == 60.0  # at the very look with which its time is over


@pytest.mark.parametrize("skew", [-600, 0, 600])
def test_a_lease_that_is_renewed_is_never_taken(world: World, skew: float) -> None:
    held, watch = world.taken(), world.watch(skew=skew)
    for _ in range(200):
        assert watch.look() is None
        world.time.now += 7.0
        held.renew_if_due()
    assert held.held


def test_of_two_standbys_one_leads(world: World) -> None:
    held = world.taken()
    watches = [world.watch("two"), world.watch("three")]
    held.release()
    leaders = [found for watch in watches if (found := watch.look()) is not None]

    assert len(leaders) == 1


def test_whoever_writes_too_late_stands_by_on(world: World) -> None:
    world.server.faults = [refusal(409, "the object has been modified").__dict__]
    assert world.watch().look() is None


def test_a_write_whose_answer_was_lost_is_found_at_the_next_look(world: World) -> None:
    world.server.faults = ["lost"]
    watch = world.watch()
    assert watch.look() is None
    held = watch.look()
    assert held is not None
    assert held.held


@pytest.mark.parametrize("seconds", [121, 3600])
def test_a_lease_that_lasts_longer_than_anybody_waits_is_left_alone(world: World, seconds: int) -> None:
    world.taken()
    assert world.server.item is not None
    world.server.item["spec"]["leaseDurationSeconds"] = seconds
    watch = world.watch()
    for _ in range(50):
        assert watch.look() is None
        world.time.now += 100.0


def test_a_lease_that_lasts_just_as_long_as_anybody_waits_is_taken(world: World) -> None:
    world.taken()
    assert world.server.item is not None
    world.server.item["spec"]["leaseDurationSeconds"] = 120
    watch = world.watch()
    assert watch.look() is None
    world.time.now += 120.0
    assert watch.look() is not None
