from __future__ import annotations

import json
from pathlib import Path

import pytest

from rebalancer.cluster.kinds import BY_PLURAL
from rebalancer.errors import ExitCode
from rebalancer_lab.policy_tests.commands import TEST_FAILED
from tests.unit.cli.conftest import Program
from tests.unit.cli.hot_dumps import a_hot_dump


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return a_hot_dump(tmp_path / "recorded", nodes=("hot", "hot", "hot", "cool"), also_read=tuple(BY_PLURAL))


def test_assertions_about_a_policy_decide_the_exit_code(rebalancer_program: Program, dump: Path) -> None:
    holds, fails = dump.parent / "holds.yaml", dump.parent / "fails.yaml"
    head = "apiVersion: rebalancer/v1alpha1\nkind: PolicyTest\n"
    holds.write_text(head + "hotNodes: [hot]\nmaxEvictions: 5\n")
    fails.write_text(head + "mustStay: [default/web-*]\n")
    junit = dump.parent / "junit.xml"
    source = ("--from", str(dump))

    good = rebalancer_program("policy", "test", str(holds), *source)
    bad = rebalancer_program("policy", "test", str(holds), str(fails), *source, "--junit", str(junit))

    assert (good.exit_code, bad.exit_code) == (0, 9)
    assert good.stdout.endswith("2 assertions: all hold\n")
    assert bad.stdout.endswith("3 assertions: 1 failed\n")
    assert junit.read_text().count("<testcase") == 3
    printed = json.loads(rebalancer_program("policy", "test", str(fails), *source, "-o", "json").stdout)
    assert (printed["kind"], printed["failed"]) == ("PolicyTestReports", 1)


def test_the_exit_code_of_a_failed_assertion_means_nothing_else() -> None:
    assert TEST_FAILED not in {int(code) for code in ExitCode}
