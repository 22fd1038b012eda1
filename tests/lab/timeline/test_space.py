from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.errors import InputError
from rebalancer.policy.hotness import HotRule
from rebalancer.policy.policy_file import default_policy, load_policy, parse_policy, to_yaml
from rebalancer.policy.schema import LEVELS
from rebalancer_lab.timeline.space import Point, read_space
from tests.rows import rows

HEAD = "apiVersion: rebalancer/v1alpha1\nkind: TuningSpace\nsettings:\n"
SHIPPED = Path(__file__).parents[3] / "policies"


def test_a_point_is_todays_policy_with_its_values_and_distances_below_others() -> None:
    space = read_space((SHIPPED / "tuning" / "space.yaml").read_text(), "space.yaml", default_policy())
    point: Point = {
        "hotNodes.any[0].utilization.cpu": 75,
        "hotNodes.any[0].coolTo.cpu": 10,
        "planning.cooldown": "2h",
        "limits.perWorkload": "25%",
    }
    found = space.policy(point).policy

    rule = yaml.safe_load(space.text(point))["hotNodes"]["any"][0]
    assert (rule["utilization"]["cpu"], rule["coolTo"]["cpu"], rule["coolTo"]["memory"]) == (75, 65, 75)
    assert found.planning.cooldown == 7200.0
    assert found.limits.per_run == default_policy().policy.limits.per_run


def test_what_todays_policy_does_not_name_follows_from_what_is_tried() -> None:
    text = """\
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
hotNodes:
  any: [{utilization: {cpu: 80}}]
  pools: [{name: batch, nodeSelector: {}, any: [{deviation: {cpu: 20}}]}]
planning: {confidence: 0.99}
"""
    today = parse_policy(text, "today.yaml")
    rules = (
        '"hotNodes.any[0].utilization.cpu": {from: 60, to: 90}\n  "hotNodes.pools[0].any[0].deviation.cpu": '
    )
    space = read_space(
        f"{HEAD}  planning.aggressiveness: {{from: 1, to: 5}}\n  {rules}{{choose: [5]}}", "space.yaml", today
    )
    point = {
        "planning.aggressiveness": 1,
        "hotNodes.any[0].utilization.cpu": 60,
        "hotNodes.pools[0].any[0].deviation.cpu": 5,
    }
    found = space.policy(point).policy

    assert space.policy({}).policy == today.policy
    planning = found.planning
    careful = LEVELS[1]
    assert planning.level == careful
    assert (planning.min_gain, planning.partial_relief) == (careful.min_gain, careful.partial_relief)
    assert planning.confidence == 0.99  # which the policy names
    assert [rule["coolTo"] for rule in map(_written, found.hot_nodes.every_rule)] == [{"cpu": 50}, {"cpu": 0}]


def test_a_threshold_below_todays_cool_to_is_refused_unless_the_space_lowers_that_too() -> None:
    rule = "{utilization: {cpu: 90}, coolTo: {cpu: 85}}"
    text = f"apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nhotNodes: {{any: [{rule}]}}\n"
    today = parse_policy(text, "today.yaml")
    shipped = read_space((SHIPPED / "tuning" / "space.yaml").read_text(), "space.yaml", today)

    cooled = {"hotNodes.any[0].utilization.cpu": 65, "hotNodes.any[0].coolTo.cpu": 5}
    (found,) = shipped.policy(cooled).policy.hot_nodes.any
    assert _written(found)["coolTo"] == {"cpu": 60}
    with pytest.raises(InputError, match="65 cannot be used: coolTo cpu 85 must not be above"):
        read_space(f'{HEAD}  "hotNodes.any[0].utilization.cpu": {{from: 65, to: 90}}', "space.yaml", today)


def _written(rule: HotRule) -> Any:
    return rule.model_dump(mode="json", by_alias=True)


def test_a_level_of_aggressiveness_that_decides_nothing_is_refused() -> None:
    """As of a policy that ``policy show`` printed, with every default."""
    today = parse_policy(to_yaml(default_policy().policy), "today.yaml")
    with pytest.raises(
        InputError, match=r"space\.yaml:4:3 settings\.planning\.aggressiveness: has no effect"
    ):
        read_space(f"{HEAD}  planning.aggressiveness: {{from: 1, to: 5}}", "space.yaml", today)


@pytest.mark.parametrize("name", ["conservative", "balanced"])
def test_the_shipped_space_suits_the_shipped_policies_at_all_its_ends(name: str) -> None:
    today = load_policy(SHIPPED / f"{name}.yaml")
    space = read_space((SHIPPED / "tuning" / "space.yaml").read_text(), "space.yaml", today)

    for end in (0, -1):
        assert space.policy({path: item.values[end] for path, item in space.settings.items()})


@rows(
    "settings, said",
    [
        (
            "limits.perRum: {choose: [1]}",
            "space.yaml:4:3 settings.limits.perRum: 1 cannot be used: unknown field",
        ),
        ("limits.perRun: {choose: [-1]}", "space.yaml:4:3 settings.limits.perRun: -1 cannot be used: "),
        (
            "limits.perRun: {choose: [null]}",
            "space.yaml:4:28 settings.limits.perRun.choose[0]: is neither a number nor text nor true or",
        ),
        ("limits.perRun: {choose: [1, [2]]}", "settings.limits.perRun.choose[1]: is neither a number nor"),
        ("limits.perRun: {from: 1, to: 1e9}", "has more than 1000 values"),
        ("limits.perRun: {from: 9, to: 1}", "from is the smaller one"),
        ("limits.perRun: {from: 1}", "from and to are both needed"),
        ("limits.perRun: {}", "write either choose: [...] or from, to and step"),
        ("limits.perRun: {choose: [1], from: 1}", "write either choose"),
        ("limits.perRun: {from: 1, to: 2, step: 0}", "space.yaml:4:"),
        ("limits.perRun: {from: 1, to: 2, below: limits.perNode}", "limits.perNode is none to be below"),
        ("limits.perWorkload: {choose: [10%, two, 50%]}", "limits.perWorkload: two cannot be used: "),
        ("limits.perRun: {from: 1e300, to: 1e300}", f"limits.perRun: 1{'0' * 15}"),
        ("a..b: {choose: [1]}", "is no path of a setting"),
        ("hotNodes.any[7].coolTo.cpu: {choose: [1]}", "has no [7] there"),
        ("limits.perRun.more: {choose: [1]}", "should be a valid integer, not a mapping"),
        (f"{'a' * 300}: {{choose: [1]}}", "is no path of a setting"),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_line_with_its_place(settings: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        read_space(f"{HEAD}  {settings}\n", "space.yaml", default_policy())

    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "; space.yaml" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_what_is_no_space_is_said() -> None:
    many = "".join(f"  a{number}: {{choose: [1]}}\n" for number in range(41))
    for text in ("[]", "kind: TuningSpace", HEAD + "  {}", HEAD + many, "kind: RebalancePolicy"):
        with pytest.raises(InputError, match=r"space\.yaml"):
            read_space(text, "space.yaml", default_policy())
