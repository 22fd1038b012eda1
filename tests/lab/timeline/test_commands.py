"""What ``timeline replay`` prints, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rebalancer.cli.program import main
from rebalancer.errors import InputError
from rebalancer_lab.timeline.descheduler import LowNodeUtilization, read_descheduler
from tests.lab.timeline.recorded_days import EVERY, NOW, POLICY, an_observation, pods_on, recorded
from tests.rows import rows
from tests.unit.cli.conftest import Program

HOT = {f"web-{number}": "a" for number in range(6)}
DESCHEDULER = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
maxNoOfPodsToEvictPerNode: 3
profiles:
  - name: default
    pluginConfig:
      - name: LowNodeUtilization
        args:
          thresholds: {cpu: 20, memory: 30}
          targetThresholds: {cpu: 60}
          metricsUtilization: {source: KubernetesMetrics}
          evictableNamespaces: {exclude: [kube-system]}
    plugins: {balance: {enabled: [LowNodeUtilization]}}
"""


def started(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["timeline", "replay", *arguments])


@pytest.fixture
def days(tmp_path: Path) -> Path:
    folder = tmp_path / "days"
    use = dict.fromkeys(HOT, 600)
    recorded(folder, *(an_observation(NOW + EVERY * at, pods_on(HOT), use) for at in range(3)))
    (tmp_path / "policy.yaml").write_text(POLICY)
    return folder


def test_policies_stand_side_by_side_with_nothing_done_and_the_descheduler(days: Path) -> None:
    result = started(str(days), "--policy", str(days.parent / "policy.yaml"))

    assert result.exit_code == 0, result.output
    rows = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("  ")]
    place = rows.index("nothing")
    assert rows[place : place + 3] == ["nothing", "descheduler", "test"]
    assert "HOUR BY HOUR" in result.stdout


def test_json_rows_and_the_page_say_the_same(days: Path) -> None:
    given = (str(days), "--policy", str(days.parent / "policy.yaml"))
    found = json.loads(started(*given, "-o", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(started(*given, "-o", "csv").stdout)))
    page = started(*given, "-o", "html").stdout
    names = started(*given, "-o", "name").stdout.split()

    assert found["kind"] == "Replay"
    assert len(rows) == sum(len(run["moments"]) for run in found["runs"])
    assert [row["policy"] for row in rows][:1] == ["nothing done"]
    assert page.count("<polyline") >= 3 * len(found["runs"])
    assert len(names) == sum(run["evictions"] for run in found["runs"])


def test_the_rule_is_read_from_a_policy_of_descheduler() -> None:
    rule, warnings = read_descheduler(DESCHEDULER, "theirs.yaml")

    assert rule == LowNodeUtilization(
        thresholds=(20.0, 30.0), targets=(60.0, 100.0), by_requests=False, per_node=3
    )
    assert warnings == ("theirs.yaml: evictableNamespaces has no part in a replay",)


@rows("text", ["{}", "[]", "profiles: 3", "profiles: [{pluginConfig: [{name: LowNodeUtilization}]}]"])
def test_what_configures_no_such_rule_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no DeschedulerPolicy that configures LowNodeUtilization"):
        read_descheduler(text, "theirs.yaml")


@pytest.mark.parametrize("option", ["--days", "--queries-per-second"])
def test_a_number_that_is_none_is_refused(rebalancer_program: Program, tmp_path: Path, option: str) -> None:
    result = rebalancer_program("timeline", "backfill", option, "nan", str(tmp_path))

    assert (result.exit_code, result.stdout) == (2, "")
    assert "nan is not a number" in result.stderr
