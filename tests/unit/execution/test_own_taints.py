"""The soft taints of a run: set once, taken away for certain, and never anybody else's."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from urllib3.exceptions import ProtocolError

from rebalancer.cluster.records import Taint
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import RebalancerError, RightsError, SafetyError, StopRequestedError, UnreachableError
from rebalancer.execution.own_taints import OwnTaints
from rebalancer.planning.taints import EMPTIED, TAINT_KEY
from rebalancer_demo.api.bodies import json_patch
from rebalancer_demo.objects import StatusError
from tests.rows import rows
from tests.unit.execution.fake_api import Answer, FakeTime, Request, fake_api, not_found, refusal

LOST: Exception = ProtocolError("Connection aborted.")
GPU = {"key": "gpu", "effect": "NoSchedule"}
DISK = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
THEIRS = {"key": "team", "value": "x", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
LEASE = ("rebalancer", "rebalancer")


class Nodes:
    """Nodes as an API server keeps them: a write must name the version that is stored."""

    def __init__(self, **taints: list[dict[str, Any]]) -> None:
        self.taints = {name: list(items) for name, items in taints.items()}
        self.versions = dict.fromkeys(taints, 1)
        self.time = FakeTime()
        self.before_write: Callable[[], None] = lambda: None
        self.refuses: dict[str, Answer] = {}
        self.lost: set[str] = set()  # nodes the answer to whose next change is lost
        self.api, self.transport = fake_api(self.answer, self.time)

    def answer(self, request: Request) -> Answer | Exception:
        name = request.path.rsplit("/", 1)[1]
        if name not in self.taints:
            return not_found(request.path)
        if request.method == "PATCH":
            read = str(self.versions[name])
            self.before_write()
            if isinstance(request.body, dict):
                read = request.body["metadata"]["resourceVersion"]
            if read != str(self.versions[name]):
                return refusal(409, "the object has been modified")
            if name in self.refuses:
                return self.refuses[name]
            try:
                self.taints[name] = self._patched(name, request.body)
            except StatusError as error:
                return refusal(error.code, error.message)
            self.versions[name] += 1
            if name in self.lost:
                self.lost.remove(name)
                return LOST
        return Answer(body=self._node(name))

    def _node(self, name: str) -> dict[str, Any]:
        taints = {"taints": self.taints[name]} if self.taints[name] else {}
        metadata = {"name": name, "resourceVersion": str(self.versions[name])}
        return {"metadata": metadata, "spec": {**taints, "providerID": "x"}}

    def _patched(self, name: str, body: Any) -> list[dict[str, Any]]:
        """The taints that a patch leaves; no two may have one key and one effect."""
        spec = json_patch(self._node(name), body)["spec"] if isinstance(body, list) else body["spec"]
        taints: list[dict[str, Any]] = spec.get("taints") or []
        if len({(taint["key"], taint["effect"]) for taint in taints}) < len(taints):
            raise StatusError(422, "Invalid", "taints must be unique by key and effect pair")
        return taints

    def run(self, run: str = "run", lease: tuple[str, str] = LEASE, lasts: float = 600.0) -> OwnTaints:
        return OwnTaints(self.api, lease, run, self.time.now + lasts, lambda: self.time.now)

    def seen(self) -> dict[str, list[Taint]]:
        """The taints of each node as an observation has them."""
        return {name: msgspec.convert(items, list[Taint]) for name, items in self.taints.items()}

    def sent(self) -> list[str]:
        """The methods of all requests since this was asked last."""
        found = [request.method for request in self.transport.requests]
        self.transport.requests.clear()
        return found

    def ours(self) -> set[str]:
        return {name for name, items in self.taints.items() if any(i["key"] == TAINT_KEY for i in items)}


def test_taints_are_set_and_taken_away_and_others_stay_as_they_are() -> None:
    nodes = Nodes(a=[THEIRS], b=[], c=[])
    taints = nodes.run()

    taints.begin(("a", "b"), ())
    assert nodes.ours() == {"a", "b"}
    assert nodes.taints["a"][0] == THEIRS
    owner, run, until = nodes.taints["b"][0]["value"].split(".")
    assert (len(owner), run, float(until)) == (8, "run", nodes.time.now + 600)

    assert taints.end() == ()
    assert nodes.taints == {"a": [THEIRS], "b": [], "c": []}


def test_what_a_killed_run_left_is_taken_away_by_the_next_one() -> None:
    nodes = Nodes(a=[], b=[])
    nodes.run("killed").begin(("a", "b"), ())
    next_run = nodes.run("next")
    nodes.sent()

    next_run.begin(("b",), ("a", "b"), nodes.seen())
    assert nodes.sent() == ["GET", "PATCH"] * 2, "both are read: whose taint is there is to be known"
    assert nodes.ours() == {"b"}
    assert ".next." in nodes.taints["b"][0]["value"]
    next_run.end()
    assert nodes.ours() == set()


def test_a_later_plan_renews_the_time_of_its_taints_and_sets_none_that_is_gone() -> None:
    nodes = Nodes(a=[THEIRS], b=[])
    taints = nodes.run()
    taints.begin(("a", "b"), ())
    nodes.taints["b"] = []  # somebody took it away, as a run that got the lease meanwhile does

    taints.renew(nodes.time.now + 900)
    assert nodes.ours() == {"a"}
    assert [float(item["value"].split(".")[2]) for item in nodes.taints["a"][1:]] == [nodes.time.now + 900]
    assert taints.end() == ()
    assert nodes.taints == {"a": [THEIRS], "b": []}


@rows("value", [None, "", "mine", "a.b.c", "other.run.1"])
@rows("renewed", [False, True])
def test_a_taint_whose_value_somebody_changed_goes_with_the_run_all_the_same(
    value: str | None, renewed: bool
) -> None:
    nodes = Nodes(a=[THEIRS], b=[])
    taints = nodes.run()
    taints.begin(("a", "b"), (), nodes.seen())
    changed = {"key": TAINT_KEY, "effect": "PreferNoSchedule"}
    nodes.taints["a"][1] = changed if value is None else {**changed, "value": value}
    if renewed:
        taints.renew(nodes.time.now + 900)
        assert {items[-1]["value"].split(".")[1] for items in nodes.taints.values()} == {"run"}

    assert taints.end() == ()
    assert nodes.taints == {"a": [THEIRS], "b": []}


def test_a_run_that_lost_its_lease_takes_no_taint_of_its_successor() -> None:
    nodes = Nodes(a=[])
    slow, successor = nodes.run("slow"), nodes.run("successor")
    slow.begin(("a",), ())
    successor.begin(("a",), ("a",))

    slow.end()
    assert ".successor." in nodes.taints["a"][0]["value"]


def test_a_run_under_another_lease_is_left_alone_until_its_time_is_over() -> None:
    nodes = Nodes(a=[])
    nodes.run("other", ("ops", "other"), lasts=100).begin(("a",), ())

    with pytest.raises(SafetyError, match="another lease steers: node a"):
        nodes.run().begin((), ("a",))
    nodes.time.now += 101
    nodes.run().begin((), ("a",))
    assert nodes.ours() == set()


@rows("value", ["", "other", "other.run", "99999999999", "other.run.253402300800", "a.b.c.9e9"])
def test_a_taint_whose_value_no_run_wrote_is_taken_away(value: str) -> None:
    taint = {"key": TAINT_KEY, "value": value, "effect": "PreferNoSchedule"}
    nodes = Nodes(a=[taint], b=[THEIRS, taint])

    nodes.run().begin(("b",), ("a", "b"))
    assert nodes.ours() == {"b"}
    assert ".run." in nodes.taints["b"][1]["value"]


def test_a_node_that_changes_meanwhile_is_read_anew() -> None:
    nodes = Nodes(a=[])
    changes = iter([True, True, False])

    def touch() -> None:
        if next(changes, False):
            nodes.versions["a"] += 1
            nodes.taints["a"] = [THEIRS]

    nodes.before_write = touch
    nodes.run().begin(("a",), ())
    assert [taint["key"] for taint in nodes.taints["a"]] == ["team", TAINT_KEY]


def test_a_node_that_changes_for_ever_ends_the_attempt() -> None:
    nodes = Nodes(a=[])

    def touch() -> None:
        nodes.versions["a"] += 1

    nodes.before_write = touch
    with pytest.raises(RebalancerError):
        nodes.run().begin(("a",), ())
    assert len(nodes.transport.sent("PATCH")) <= 10


def test_a_node_that_is_gone_needs_nothing() -> None:
    nodes = Nodes(a=[])
    taints = nodes.run()
    taints.begin(("a", "gone"), ("gone too",))
    assert taints.end() == ()


@pytest.mark.parametrize("asks", ["begin", "end"])
def test_what_is_answered_and_not_stored_is_noticed(asks: str) -> None:
    """As by an admission webhook, or by a proxy that carries nothing out."""
    nodes = Nodes(a=[])
    taints = nodes.run()
    if asks == "begin":
        nodes.refuses["a"] = Answer(200, nodes._node("a"))
        with pytest.raises(UnreachableError, match="stored other taints than were sent"):
            taints.begin(("a",), ())
        return
    taints.begin(("a",), ())
    nodes.refuses["a"] = Answer(200, nodes._node("a"))
    assert taints.end() == ("a",)


@pytest.mark.parametrize("answer", [Answer(404, b"<html>"), refusal(404, "no such path"), refusal(403, "no")])
def test_a_taint_stays_where_its_node_cannot_be_read_or_changed(answer: Answer) -> None:
    nodes = Nodes(a=[])
    taints = nodes.run()
    taints.begin(("a",), ())
    nodes.transport.handler = lambda _request: answer
    assert taints.end() == ("a",)


def test_a_node_whose_taints_are_as_they_were_seen_takes_one_request_a_change() -> None:
    nodes = Nodes(a=[THEIRS], b=[], c=[THEIRS, GPU])
    taints = nodes.run()

    taints.begin(("a", "b", "c"), (), nodes.seen())
    assert (nodes.ours(), nodes.sent()) == ({"a", "b", "c"}, ["PATCH"] * 3)
    nodes.versions = dict.fromkeys(nodes.versions, 7)  # a kubelet says anew how its node is
    taints.renew(nodes.time.now + 900)
    assert nodes.sent() == ["PATCH"] * 3
    assert {items[-1]["value"].split(".")[2] for items in nodes.taints.values()} == {
        f"{nodes.time.now + 900:.0f}"
    }
    assert taints.end() == ()
    assert nodes.sent() == ["PATCH"] * 3
    assert nodes.taints == {"a": [THEIRS], "b": [], "c": [THEIRS, GPU]}


@rows("seen", [{}, {"a": [Taint(key="seen", effect="NoSchedule")]}])
@rows("there", [[], [THEIRS], [THEIRS, GPU]])
def test_whatever_taints_were_seen_those_of_others_stay_as_they_are(
    seen: dict[str, list[Taint]], there: list[dict[str, Any]]
) -> None:
    nodes = Nodes(a=there)
    taints = nodes.run()

    taints.begin(("a",), (), seen)
    assert nodes.taints["a"][:-1] == there
    assert nodes.ours() == {"a"}
    nodes.taints["a"].insert(0, DISK)
    taints.renew(nodes.time.now + 900)
    assert nodes.taints["a"][:-1] == [DISK, *there]
    nodes.taints["a"].remove(DISK)
    assert taints.end() == ()
    assert nodes.taints["a"] == there


def test_a_taint_that_another_run_has_set_since_the_nodes_were_read_ends_this_one() -> None:
    nodes = Nodes(a=[], b=[THEIRS])
    nodes.run("other", ("ops", "other")).begin(("a", "b"), ())
    other = {name: list(items) for name, items in nodes.taints.items()}

    for name, there in itertools.product("ab", ([], [THEIRS], other["b"])):
        seen = Nodes(**{name: there}).seen()
        with pytest.raises(SafetyError, match=f"another lease steers: node {name}"):
            nodes.run().begin((name,), (), seen)
    assert nodes.taints == other


def test_a_node_that_is_closed_already_is_closed_anew_by_its_only_taint_of_that_kind() -> None:
    nodes = Nodes(a=[THEIRS])
    closing = [
        OwnTaints(nodes.api, LEASE, run, nodes.time.now + 600, nodes.time.clock, EMPTIED)
        for run in ("x", "y")
    ]
    closing[0].begin(("a",), (), nodes.seen())
    nodes.sent()

    closing[1].begin(("a",), (), nodes.seen())
    assert nodes.sent() == ["GET", "PATCH"]
    assert [taint["value"].split(".")[1] for taint in nodes.taints["a"][1:]] == ["y"]


def test_where_an_answer_is_lost_the_node_is_read() -> None:
    nodes = Nodes(a=[], b=[])
    taints = nodes.run()
    nodes.lost = {"a"}

    taints.begin(("a", "b"), ())
    assert nodes.ours() == {"a", "b"}
    assert len(nodes.taints["a"]) == 1
    nodes.lost = {"b"}
    assert taints.end() == ()
    assert nodes.ours() == set()


def test_after_a_request_to_stop_no_further_node_is_tainted() -> None:
    nodes = Nodes(a=[], b=[], c=[])
    stop = StopRequest(nodes.time.clock, nodes.time.sleep)
    nodes.api = nodes.api.until(Deadline(clock=nodes.time.clock, stop=stop))
    nodes.before_write = stop.set
    taints = nodes.run()

    with pytest.raises(StopRequestedError):
        taints.begin(("a", "b", "c"), ())
    assert nodes.ours() == {"a"}, "the request that was under way is finished"
    assert taints.end() == ()
    assert nodes.ours() == set()


def test_taints_are_given_up_after_a_time_where_the_server_answers_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = [f"n{number:02d}" for number in range(40)]
    nodes = Nodes(**{name: [] for name in names})
    taints = nodes.run()
    taints.begin(names, ())
    began = nodes.time.now

    def late(_request: Request) -> Exception:
        nodes.time.now += 30.0
        return LOST

    nodes.transport.handler = late
    with caplog.at_level(logging.WARNING):
        assert taints.end() == tuple(names)
    assert nodes.time.now - began <= 5 + 40 / 2 + 30
    said = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage().partition(" until ")[0] for record in said] == [
        *(f"the taint {TAINT_KEY} stays on node {name}" for name in names[:5]),
        f"the taint {TAINT_KEY} stays on 35 more nodes",
    ]


def test_a_lacking_right_names_what_grants_it_and_no_taint_is_said_to_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api, _ = fake_api(lambda _: refusal(403, "nodes is forbidden"))
    taints = OwnTaints(api, LEASE, "run", 1.0, lambda: 0.0)

    with pytest.raises(RightsError) as caught:
        taints.begin(("a",), ())
    assert "k8s/components/steer" in caught.value.hint
    assert taints.end() == ()
    assert not caplog.messages, "it never had the taint"


def test_no_taint_is_set_that_would_be_over_however_many_nodes_a_slow_server_is_asked_for() -> None:
    names = [f"n{number}" for number in range(50)]
    nodes = Nodes(**{name: [] for name in names})

    def take_long() -> None:
        nodes.time.now += 50.0

    nodes.before_write = take_long
    taints = nodes.run(lasts=600.0)

    with pytest.raises(UnreachableError):
        taints.begin(names, ())
    assert len(nodes.ours()) == 12
    nodes.before_write = lambda: None
    assert taints.end() == ()
    assert nodes.ours() == set()


def test_where_no_login_is_accepted_no_right_is_said_to_be_missing() -> None:
    api, _ = fake_api(lambda _: refusal(401, "Unauthorized"))
    with pytest.raises(RightsError) as caught:
        OwnTaints(api, LEASE, "run", 1.0, lambda: 0.0).begin(("a",), ())
    assert "k8s/components/steer" not in caught.value.hint
    assert "log in again" in caught.value.hint


def test_a_taint_that_cannot_be_taken_away_is_said_with_its_end(caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes(a=[], b=[])
    taints = nodes.run()
    taints.begin(("a", "b"), ())
    nodes.refuses["a"] = refusal(403, "nodes is forbidden")

    with caplog.at_level(logging.WARNING):
        assert taints.end() == ("a",)
    assert nodes.ours() == {"a"}, "the other one is taken away all the same"
    assert "stays on node a until" in caplog.text


def test_an_answer_that_is_no_node_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    api, _ = fake_api(lambda _: Answer(body=[1]))
    with pytest.raises(RebalancerError, match="the answer is not a Node"):
        OwnTaints(api, LEASE, "run", 1.0, lambda: 0.0).begin(("a",), ())


def test_the_taint_of_an_emptied_node_stays_for_so_long_after_the_end_of_the_run_and_no_longer() -> None:
    """It was set for as long as the run may take, and that longer, in case the run is killed."""
    nodes = Nodes(a=[THEIRS], b=[], c=[], late=[])
    closing = nodes.run(lasts=600.0)
    closing = OwnTaints(nodes.api, LEASE, "run", closing.until, lambda: nodes.time.now, EMPTIED, 60.0)
    closing.begin(("a", "b", "c"), ())
    nodes.taints["b"] = []  # somebody took it away
    nodes.time.now += 100

    assert closing.end(("a", "b")) == ()
    assert [item["key"] for item in nodes.taints["a"]] == ["team", EMPTIED.key]
    assert float(nodes.taints["a"][1]["value"].split(".")[2]) == nodes.time.now + 60
    assert nodes.taints["b"] == nodes.taints["c"] == []
