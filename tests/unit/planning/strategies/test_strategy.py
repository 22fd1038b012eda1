"""What is written once for all strategies: wishes, groups, objections, reports, checks before later waves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.cluster.arrays import BoolArray, PodRow
from rebalancer.errors import InputError
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.explanation import PodExplanation
from rebalancer.planning.landing.purpose import Landings
from rebalancer.planning.plan import Plan, decode, encode
from rebalancer.planning.planner import Planner
from rebalancer.planning.strategies import STRATEGIES, label_of
from rebalancer.planning.strategies.strategy import Strategy
from rebalancer.planning.subjects import find_subject
from rebalancer.policy.model import PolicyModel
from rebalancer.policy.policy_file import parse_policy, schema
from rebalancer.policy.schema import RebalancePolicy
from tests.builders import a_node
from tests.unit.planning.builders import a_policy, a_workload, because, kept, moved, plan_of, planning_inputs
from tests.unit.planning.strategies.registered import registered


class TeamSettings(PolicyModel):
    """Whose pods move."""

    team: str = "blue"
    together: bool = False
    shunned: str = ""


class Team(Strategy):
    """Moves the pods of a team, and lets them land anywhere but on one node."""

    name = "team"
    description = "Move the pods of a team."
    settings_type = TeamSettings
    settings: TeamSettings

    def pods(self, plan: PlanBuilder) -> Iterable[PodRow]:
        """The last by name first."""
        return reversed(list(super().pods(plan)))

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        team = self.prepared.pods.class_of(pod).labels.get("team")
        return f"it is of team {team}" if team == self.settings.team else ""

    def group(self, pod: PodRow) -> str:
        return self.settings.team if self.settings.together else ""

    def objection(self, landings: Landings, at: int) -> str:
        name = self.prepared.nodes.names[landings.rows[at]]
        return "is shunned" if name == self.settings.shunned else ""


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registered(Team):
        yield


def inputs(*, free: str = "8", policy: RebalancePolicy | None = None, **settings: Any) -> Any:
    """Two pods of team blue on node a, which is cool, and room on node b."""
    workloads = [
        a_workload(name, ["a"], labels={"team": team})
        for name, team in (("api", "blue"), ("db", "red"), ("web", "blue"))
    ]
    nodes = [a_node("a", unschedulable=True), a_node("b", cpu=free)]
    chosen = policy or a_policy(strategies={"team": settings or True})
    return planning_inputs(nodes, workloads, policy=chosen)


def plan(**case: Any) -> Plan:
    return plan_of(inputs(**case))


def test_what_it_wishes_moves_and_nothing_else() -> None:
    assert moved(plan()) == {"api-0": "b", "web-0": "b"}
    assert plan(policy=a_policy()).moves == ()


def test_a_move_says_whose_wish_it_is_and_why() -> None:
    move = plan().moves[0]

    assert move.strategy == "team"
    assert move.because == "it is of team blue; its replacement will be placed on b"
    assert move.gain == {}


def test_pods_move_in_the_order_that_it_gives() -> None:
    assert [move.pod.name for move in plan().moves] == ["web-0", "api-0"]


def test_a_wish_that_cannot_be_met_is_kept_with_the_reason_and_the_wish() -> None:
    found = plan(policy=a_policy(strategies={"team": True}, limits={"perRun": 1}))

    assert (list(moved(found)), kept(found)) == (["web-0"], {"api-0": "Limit"})
    assert because(found, "api-0") == "perRun 1 is reached (team: it is of team blue)"


def test_a_landing_that_it_objects_to_is_not_acceptable() -> None:
    found = plan(shunned="b")

    assert kept(found) == {"api-0": "NoBetterLanding", "web-0": "NoBetterLanding"}
    assert because(found, "web-0").startswith("may land (100%) where it must not: b is shunned")


class Keeper(Strategy):
    """Moves nothing while node b has no pod of team blue, and would move every pod of it on."""

    name = "keeper"
    description = "Keep a team off node b."

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        return ""

    def spoils(self, landings: Landings) -> BoolArray | None:
        assert landings.state is not None
        assert landings.replacement is not None
        if landings.state.classes[landings.replacement].labels.get("team") != "blue":
            return None
        names = self.prepared.nodes.names
        return np.array([names[row] == "b" for row in landings.rows.tolist()])

    def spoiled(self, landings: Landings, at: int) -> str:
        return "is not for team blue"


def test_nobody_lands_a_pod_where_another_strategy_would_move_it_on() -> None:
    with registered(Team, Keeper):
        both = a_policy(strategies={"team": True, "keeper": True})
        found, alone = plan(policy=both), plan()
        red = plan(policy=a_policy(strategies={"team": {"team": "red"}, "keeper": True}))
        case = inputs(policy=both)
        explained = Planner(case).explain(find_subject(case.snapshot, "pod/default/web-0"))

    refused = "b is not for team blue, so keeper would move pods again"
    assert set(moved(alone)) == {"api-0", "web-0"}
    assert kept(found) == {"api-0": "NoBetterLanding", "web-0": "NoBetterLanding"}
    assert because(found, "web-0").startswith(f"may land (100%) where it must not: {refused}")
    assert moved(red) == {"db-0": "b"}
    assert isinstance(explained, PodExplanation)
    assert explained.table is not None
    assert [node.unacceptable for node in explained.table.nodes] == [refused]


def test_pods_of_a_group_move_together_or_not_at_all() -> None:
    assert set(moved(plan(together=True))) == {"api-0", "web-0"}
    alone = plan(together=True, free="1500m")
    assert alone.moves == ()
    assert kept(alone) == {"web-0": "Group", "api-0": "NoLanding"}
    assert because(alone, "web-0") == "it would move only together with default/api-0, which stays"


def test_a_group_that_stays_leaves_limits_and_room_to_others() -> None:
    class Later(Team):
        """The same, for another team and one by one."""

        name = "later"

    with registered(Team, Later):
        policy = a_policy(
            strategies={"team": {"together": True}, "later": {"team": "red"}}, limits={"perRun": 1}
        )
        assert moved(plan(policy=policy)) == {"db-0": "b"}


def test_it_reports_on_itself_in_the_plan() -> None:
    found = plan()

    assert found.strategies["team"].moves == 2
    assert set(found.strategies) == {"hotNodes", "team"}
    assert decode(encode(found)) == found


def test_an_explanation_says_who_wishes_to_move_a_pod() -> None:
    case = inputs()
    explanations = {
        name: Planner(case).explain(find_subject(case.snapshot, f"pod/default/{name}"))
        for name in ("web-0", "db-0")
    }

    web, db = explanations["web-0"], explanations["db-0"]
    assert isinstance(web, PodExplanation)
    assert isinstance(db, PodExplanation)
    assert (web.wishes, db.wishes) == ({"team": "it is of team blue"}, {})
    assert web.verdict == "Moved"


def test_before_a_later_wave_it_is_asked_again() -> None:
    moves = plan().moves
    again = Planner(inputs()).recheck(moves)
    assert [type(item) for item in again.values()] == [type(moves[0])] * 2

    changed = inputs(policy=a_policy(strategies={"team": {"team": "red"}}))
    assert set(Planner(changed).recheck(moves).values()) == {"NotNeeded: the reason to move it is gone"}


def test_a_move_of_a_plan_that_names_no_strategy_holds_for_any_wish() -> None:
    moves = [replace(move, strategy="") for move in plan().moves]

    assert [type(item) for item in Planner(inputs()).recheck(moves).values()] == [type(moves[0])] * 2


def test_the_schema_of_policies_has_its_settings() -> None:
    found = schema()["$defs"]

    assert found["Strategies"]["properties"]["team"]["description"] == "Move the pods of a team."
    assert set(found["TeamSettings"]["properties"]) == {"team", "together", "shunned"}


def test_a_mistake_in_its_settings_is_found_where_it_stands() -> None:
    text = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nstrategies:\n  team: {taem: red}\n"

    with pytest.raises(InputError, match=r"p\.yaml:4:10 strategies\.team\.taem: unknown field") as raised:
        parse_policy(text, "p.yaml")
    assert raised.value.hint == "did you mean team?"


def test_every_strategy_documents_itself() -> None:
    for strategy in STRATEGIES:
        assert strategy.description.endswith("."), strategy
        assert label_of(strategy.name)[0].isupper()
        assert strategy.settings_type() == strategy.settings_type()  # each setting has a default


def test_no_two_strategies_are_called_alike() -> None:
    names = [strategy.name for strategy in STRATEGIES]
    assert len(set(names)) == len({label_of(name) for name in names}) == len(names)
