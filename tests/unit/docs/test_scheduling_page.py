from __future__ import annotations

import gzip
import json
from pathlib import Path

from rebalancer.scheduling.framework.plugin import Evidence
from rebalancer.scheduling.registry import MODELLED
from rebalancer.scheduling.versions.rules import RULES
from tools.pages.scheduling import scheduling_page, versions_page

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "conformance" / "data"


def test_every_modelled_plugin_is_named_once_by_what_it_was_checked_against() -> None:
    table = scheduling_page().partition("## Plugins")[2].partition("These score nodes")[0]
    cells = [line.strip("| ").split(" | ")[1] for line in table.strip().splitlines()[2:]]
    assert sorted(", ".join(cells).split(", ")) == sorted(MODELLED)


def test_every_rule_of_a_version_has_a_row() -> None:
    rows = [line.split(" | ")[0].removeprefix("| ") for line in versions_page().splitlines()]
    assert [rule.name for rule in RULES if rows.count(rule.name) != 1] == []


def test_what_a_rule_makes_unpredictable_is_not_called_ignored() -> None:
    (listed,) = (line for line in scheduling_page().splitlines() if "of old configurations" in line)

    assert [rule.name for rule in RULES if not rule.modelled and rule.name in listed] == []


def test_what_is_called_checked_occurs_in_the_decisions_and_so_does_their_number() -> None:
    found: set[str] = set()
    clusters = decided = 0
    for path in sorted(DATA.glob("*.expected.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for line in lines:
                clusters += 1
                for pod in json.loads(line)["pods"]:
                    decided += 1
                    found.add(str(pod.get("preFilter", "")).split(":")[0])
                    for node in pod["nodes"].values():
                        found.update(node.get("scores", ()))
                        found.add(node.get("filter", "").split(":")[0])
    assert found & MODELLED.keys() == {
        name for name, plugin in MODELLED.items() if plugin.evidence is Evidence.DECISIONS
    }
    assert f"{decided:,} decisions" in scheduling_page()
    assert f"{clusters:,} generated clusters" in scheduling_page()
