"""The chart's alerts, as Prometheus itself evaluates them: each fires when it should, and not otherwise."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.reporting.metrics import METRICS
from tests.go_programs import SHORT_LIVED
from tests.integration.prometheus.servers import MISSING
from tests.unit.manifests.documents import ROOT
from tests.waiting import HANG_SECONDS

ALERTS = ROOT / "charts" / "rebalancer" / "files" / "alerts.yaml"
RULES = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
SUCCESS = "rebalancer_last_success_timestamp_seconds"
LIKELIEST = 'rebalancer_landings_total{landing="Likeliest"}'
KNOWN, UNKNOWN = 'rebalancer_nodes{load="known"}', 'rebalancer_nodes{load="unknown"}'
NOT_ALLOWED = 'rebalancer_landings_total{landing="NotAllowed"}'
MISSED = 'rebalancer_scheduler_decisions_total{profile="default-scheduler",result="Missed"}'
HOT = 'rebalancer_unsolved_node{node="node-1",reason="SingleReplica"}'
# A sample a minute for more than thirty hours.
QUIET = {
    SUCCESS: "0+60x2000",
    "rebalancer_run_exit_code": "0x2000",
    LIKELIEST: "0+0.2x2000",
    NOT_ALLOWED: "0x2000",
    KNOWN: "10x2000",
    UNKNOWN: "0x2000",
    "rebalancer_policy_last_reload_successful": "1x2000",
}

# What makes each alert fire, with the labels that it has then.
CASES: list[tuple[str, dict[str, str], dict[str, str]]] = [
    # the last success was ten hours ago
    ("RebalancerNoSuccessfulRun", {SUCCESS: "0+60x1200 72000x900"}, {}),
    # no run has succeeded yet
    ("RebalancerNoSuccessfulRun", {SUCCESS: "_x2000"}, {}),
    # nothing runs
    ("RebalancerNoSuccessfulRun", {SUCCESS: "_x2000", "rebalancer_run_exit_code": "_x2000"}, {}),
    ("RebalancerStoppedForSafety", {"rebalancer_run_exit_code": "0x1700 3x300"}, {}),
    ("RebalancerLandingsDiffer", {NOT_ALLOWED: "0x1700 1x300"}, {}),
    ("RebalancerSchedulerDecidesOtherwise", {MISSED: "0x1700 0+1x300"}, {"profile": "default-scheduler"}),
    ("RebalancerNodeHotAndUnmovable", {HOT: "1x2000"}, {"node": "node-1", "reason": "SingleReplica"}),
    ("RebalancerNodesWithoutLoad", {KNOWN: "10x1700 8x300", UNKNOWN: "0x1700 2x300"}, {}),
    ("RebalancerPolicyRefused", {"rebalancer_policy_last_reload_successful": "1x1700 0x300"}, {}),
]

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason=MISSING)


def written(text: str, labels: Mapping[str, str]) -> str:
    """An annotation with its labels filled in, as Prometheus does it."""
    cluster = labels.get("cluster", "")

    def if_known(part: re.Match[str]) -> str:
        return part[1].replace("{{ . }}", cluster) if cluster else ""

    text = re.sub(r"\{\{ with \$labels\.cluster \}\}(.*?)\{\{ end \}\}", if_known, text)
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: labels.get(label[1], ""), text)


def firing(series: Mapping[str, str], alert: str, expected: bool, **labels: str) -> dict[str, Any]:
    """That an alert fires, or does not, after thirty hours of these series: a test as promtool takes it."""
    (rule,) = [rule for rule in RULES if rule["alert"] == alert]
    texts = {name: written(text, labels) for name, text in rule["annotations"].items()}
    fires = {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": texts}
    return {
        "name": f"{alert} fires" if expected else f"{alert} does not fire",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": "30h", "alertname": alert, "exp_alerts": [fires] if expected else []}
        ],
    }


def failures(folder: Path, *tests: dict[str, Any]) -> str:
    """What promtool says against expectations; empty when all are met."""
    path = folder / "test.yaml"
    document = {"rule_files": [str(ALERTS)], "evaluation_interval": "5m", "tests": list(tests)}
    path.write_text(yaml.safe_dump(document))
    answer = subprocess.run(
        ["promtool", "test", "rules", str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, **SHORT_LIVED},
        timeout=HANG_SECONDS,
        check=False,
    )
    return "" if answer.returncode == 0 else answer.stdout + answer.stderr


@needs_promtool
def test_they_are_rules_that_prometheus_takes() -> None:
    answer = subprocess.run(
        ["promtool", "check", "rules", str(ALERTS)],
        capture_output=True,
        text=True,
        env={**os.environ, **SHORT_LIVED},
        timeout=HANG_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr


@needs_promtool
def test_none_fires_while_all_is_well(tmp_path: Path) -> None:
    quiet = [firing(QUIET, rule["alert"], expected=False) for rule in RULES]
    of_all = [test for document in quiet for test in document["alert_rule_test"]]
    assert failures(tmp_path, {**quiet[0], "name": "none fires", "alert_rule_test": of_all}) == ""


@needs_promtool
def test_each_fires_when_it_should(tmp_path: Path) -> None:
    fire = [firing(QUIET | changed, alert, expected=True, **labels) for alert, changed, labels in CASES]
    assert {alert for alert, *_ in CASES} == {rule["alert"] for rule in RULES}
    assert failures(tmp_path, *fire) == ""


@needs_promtool
def test_a_handover_within_an_interval_is_no_missing_success(tmp_path: Path) -> None:
    # The replica that led is gone, and the one that leads has not had its first run.
    gone = QUIET | {SUCCESS: "0+60x1785 _x215"}
    assert failures(tmp_path, firing(gone, "RebalancerNoSuccessfulRun", expected=False)) == ""


def of_cluster(series: Mapping[str, str], cluster: str) -> dict[str, str]:
    """Series as one cluster of several reports them."""
    found = {}
    for name, values in series.items():
        metric, _, labels = name.partition("{")
        more = f",{labels}" if labels else "}"
        found[f'{metric}{{cluster="{cluster}"{more}'] = values
    return found


@needs_promtool
def test_of_two_clusters_the_broken_one_is_named_and_the_other_silences_nothing(tmp_path: Path) -> None:
    tests = []
    for alert, changed, labels in CASES:
        if "rebalancer_run_exit_code" in changed and SUCCESS in changed:
            continue  # nobody knows of a cluster in which nothing runs while others do
        series = of_cluster(QUIET, "sound") | of_cluster(QUIET | changed, "broken")
        tests.append(firing(series, alert, expected=True, **labels, cluster="broken"))
    assert failures(tmp_path, *tests) == ""


def test_every_alert_says_which_cluster_and_where_to_read_on() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    for rule in RULES:
        assert re.search(r"by \(cluster[,)]", rule["expr"]), rule["alert"]
        assert "{{ with $labels.cluster }}" in rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        address, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert address.endswith("/docs/operating.md")
        assert anchor in [
            heading.lower().replace(" ", "-") for heading in re.findall(r"^## (.+)$", page, re.MULTILINE)
        ]
        assert f"`{rule['alert']}`" in page


def test_they_ask_for_metrics_that_there_are() -> None:
    names = {metric.name for metric in METRICS}
    asked = {name for rule in RULES for name in re.findall(r"rebalancer_\w+", rule["expr"])}

    assert asked
    assert asked <= names


def test_the_threshold_that_the_chart_sets_is_there_once() -> None:
    assert ALERTS.read_text().count("> 3600") == 1
