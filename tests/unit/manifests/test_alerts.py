"""The chart's alerts, as Prometheus itself evaluates them: each fires when it should, and not otherwise."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.reporting.metrics import METRICS
from tests.go_programs import SHORT_LIVED
from tests.integration.prometheus.servers import MISSING
from tests.unit.manifests.documents import ROOT, read
from tests.waiting import HANG_SECONDS

ALERTS = ROOT / "charts" / "rebalancer" / "files" / "alerts.yaml"
RULES = read(ALERTS)["groups"][0]["rules"]
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

NO_SUCCESS = "RebalancerNoSuccessfulRun"
# In one cluster at once: what makes each of the other alerts fire, with the labels that it has then.
TROUBLE = {
    "rebalancer_run_exit_code": "0x1700 3x300",
    NOT_ALLOWED: "0x1700 1x300",
    MISSED: "0x1700 0+1x300",
    HOT: "1x2000",
    KNOWN: "10x1700 8x300",
    UNKNOWN: "0x1700 2x300",
    "rebalancer_policy_last_reload_successful": "1x1700 0x300",
}
FIRING_THEN: dict[str, dict[str, str]] = {
    "RebalancerStoppedForSafety": {},
    "RebalancerLandingsDiffer": {},
    "RebalancerSchedulerDecidesOtherwise": {"profile": "default-scheduler"},
    "RebalancerNodeHotAndUnmovable": {"node": "node-1", "reason": "SingleReplica"},
    "RebalancerNodesWithoutLoad": {},
    "RebalancerPolicyRefused": {},
}
LAST_SUCCESS_TEN_HOURS_AGO = {SUCCESS: "0+60x1200 72000x900"}
NO_SUCCESS_YET = {SUCCESS: "_x2000"}
NOTHING_RUNS = {SUCCESS: "_x2000", "rebalancer_run_exit_code": "_x2000"}

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason=MISSING)


def written(text: str, labels: Mapping[str, str]) -> str:
    """An annotation with its labels filled in, as Prometheus does it."""
    cluster = labels.get("cluster", "")

    def if_known(part: re.Match[str]) -> str:
        return part[1].replace("{{ . }}", cluster) if cluster else ""

    text = re.sub(r"\{\{ with \$labels\.cluster \}\}(.*?)\{\{ end \}\}", if_known, text)
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: labels.get(label[1], ""), text)


def thirty_hours(
    series: Mapping[str, str], firing: Mapping[str, Sequence[Mapping[str, str]]]
) -> dict[str, Any]:
    """That these alerts fire after thirty hours of these series, and no others: a test as promtool takes it.

    ``firing`` has for each of them the labels of every alert.
    """
    expectations = []
    for rule in RULES:
        expected = []
        for labels in firing.get(rule["alert"], ()):
            texts = {name: written(text, labels) for name, text in rule["annotations"].items()}
            expected.append({"exp_labels": {**rule["labels"], **labels}, "exp_annotations": texts})
        expectations.append({"eval_time": "30h", "alertname": rule["alert"], "exp_alerts": expected})
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": expectations,
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
    assert failures(tmp_path, thirty_hours(QUIET, {})) == ""


@needs_promtool
def test_each_fires_when_it_should_and_no_other(tmp_path: Path) -> None:
    assert {*FIRING_THEN, NO_SUCCESS} == {rule["alert"] for rule in RULES}
    without_success = [LAST_SUCCESS_TEN_HOURS_AGO, NO_SUCCESS_YET, NOTHING_RUNS]
    assert (
        failures(
            tmp_path,
            thirty_hours(QUIET | TROUBLE, {alert: [labels] for alert, labels in FIRING_THEN.items()}),
            *(thirty_hours(QUIET | changed, {NO_SUCCESS: [{}]}) for changed in without_success),
        )
        == ""
    )


@needs_promtool
def test_a_handover_within_an_interval_is_no_missing_success(tmp_path: Path) -> None:
    # The replica that led is gone, and the one that leads has not had its first run.
    gone = QUIET | {SUCCESS: "0+60x1785 _x215"}
    assert failures(tmp_path, thirty_hours(gone, {})) == ""


def of_cluster(series: Mapping[str, str], cluster: str) -> dict[str, str]:
    """Series as one cluster of several reports them."""
    found = {}
    for name, values in series.items():
        metric, _, labels = name.partition("{")
        more = f",{labels}" if labels else "}"
        found[f'{metric}{{cluster="{cluster}"{more}'] = values
    return found


@needs_promtool
def test_of_several_clusters_the_broken_ones_are_named_and_the_sound_one_silences_nothing(
    tmp_path: Path,
) -> None:
    # Nobody knows of a cluster in which nothing runs while others do.
    series = (
        of_cluster(QUIET, "sound")
        | of_cluster(QUIET | TROUBLE, "broken")
        | of_cluster(QUIET | LAST_SUCCESS_TEN_HOURS_AGO, "late")
        | of_cluster(QUIET | NO_SUCCESS_YET, "new")
    )
    firing = {alert: [{**labels, "cluster": "broken"}] for alert, labels in FIRING_THEN.items()}
    firing[NO_SUCCESS] = [{"cluster": "late"}, {"cluster": "new"}]
    assert failures(tmp_path, thirty_hours(series, firing)) == ""


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
