"""The strategy of docs/adding-a-strategy.md, with its test, works as it stands there."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from rebalancer.cli.program import main
from rebalancer.cluster.arrays import NodeRow, PodRow
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.strategies import STRATEGIES
from rebalancer.planning.strategies.strategy import Strategy
from rebalancer.policy.model import PolicyModel
from rebalancer.policy.policy_file import schema
from tests.builders import a_node
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, at, because, moved, plan_of, planning_inputs
from tests.unit.planning.strategies.registered import registered

PAGE = Path(__file__).parents[4] / "docs" / "adding-a-strategy.md"
SECTION = PAGE.read_text()
CODE, OF_THE_NODE, TEST = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


def the_strategy(monkeypatch: pytest.MonkeyPatch) -> type[Strategy]:
    """The one that the page adds, imported as if it had its file."""
    module = ModuleType("rebalancer.planning.strategies.age")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(CODE, "age.py", "exec"), module.__dict__)
    strategy: type[Strategy] = module.__dict__["Age"]
    return strategy


def test_the_example_of_a_strategy_passes_the_test_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    exec(compile(TEST, "test_age.py", "exec"), names)

    tests = [value for name, value in names.items() if name.startswith("test_")]
    with registered(the_strategy(monkeypatch)):
        for case in tests:
            case()
        assert "maxAge" in schema()["$defs"]["AgeSettings"]["properties"]
    assert len(tests) == 2


class Leaves(Strategy):
    """Would move every pod away from node b."""

    name = "leaves"
    description = "Keep node b empty."

    def why(self, pod: PodRow, plan: PlanBuilder) -> str:
        return "b is to be empty" if self._leaves(pod, self.prepared.node_of(pod)) else ""

    def _leaves(self, pod: PodRow, node: NodeRow) -> bool:
        return self.prepared.nodes.names[node] == "b"


@pytest.mark.parametrize("says_so", [False, True])
def test_what_the_page_says_of_reasons_of_the_node_keeps_other_strategies_from_moving_pods_there(
    says_so: bool,
) -> None:
    names: dict[str, Any] = {"Leaves": Leaves}
    exec(f"from __future__ import annotations\nclass Strict(Leaves):\n{OF_THE_NODE}", names)
    workloads = [
        a_workload("old", ["a"], created=at(-8 * 86_400)),
        a_workload("new", ["a"], cpu="2", created=at(-60)),
    ]
    with registered(names["Strict"] if says_so else Leaves):
        both = a_policy(strategies={"lifetime": {"maxAge": "168h"}, "leaves": True})
        plan = plan_of(planning_inputs([a_node("a"), a_node("b")], workloads, policy=both))

    assert moved(plan) == ({} if says_so else {"old-0": "b"})
    assert not says_so or "so leaves would move pods again" in because(plan, "old-0")


def test_the_plan_of_the_page_moves_pods_by_the_strategy_of_the_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy, command = re.findall(
        r"^\$ cat age\.yaml\n(.*?)^\$ \S*rebalancer (.*?)$", SECTION, re.DOTALL | re.MULTILINE
    )[0]
    (tmp_path / "age.yaml").write_text(policy)
    (tmp_path / "examples").symlink_to(PAGE.parents[1] / "examples")
    monkeypatch.chdir(tmp_path)

    with registered(the_strategy(monkeypatch)):
        shown = CliRunner().invoke(main, [*command.split(), "-o", "json"])

    assert shown.exit_code == 0, shown.output
    moves = json.loads(shown.stdout)["moves"]
    assert {move["strategy"] for move in moves} == {"age"}


def test_the_excerpt_of_the_registry_names_the_first_strategy_and_another_one_before_the_new_one() -> None:
    names = [strategy.__name__ for strategy in STRATEGIES]
    listed = PAGE.read_text().partition("STRATEGIES: tuple[type[Strategy], ...] = (\n")[2].partition("\n)")[0]
    first, more, other, new = [line.strip().rstrip(",") for line in listed.splitlines()]

    assert (first, more, new) == (names[0], "...", "Age")
    assert other in names


class WithoutDefault(PolicyModel):
    max_age: int


@rows(
    "declared, lacks",
    [
        ({"name": "age"}, "strategy Age has no description: a sentence on whom it moves"),
        ({"description": "Moves old pods."}, "strategy Age has no name in camel case, as emptyNodes"),
        (
            {"name": "out_of_place", "description": "Moves old pods."},
            "strategy Age has no name in camel case, as emptyNodes",
        ),
        (
            {"name": "age", "description": "Moves old pods.", "settings_type": WithoutDefault},
            "strategy Age: its setting max_age has no default",
        ),
    ],
)
def test_what_a_strategy_lacks_is_said_where_it_is_defined(declared: dict[str, Any], lacks: str) -> None:
    with pytest.raises(TypeError) as caught:
        type("Age", (Strategy,), declared)
    assert str(caught.value) == lacks
