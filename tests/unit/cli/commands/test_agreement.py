from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.agreement.decisions import Decision, Result, Tally
from rebalancer.agreement.tables import agreement_page, agreement_table
from rebalancer.cluster.kinds import BY_PLURAL
from rebalancer.reporting.render import to_json
from tests.unit.agreement.test_replay import decided, scheduled, tallied, with_weights
from tests.unit.cli.conftest import Program
from tests.unit.cli.hot_dumps import a_hot_dump


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return a_hot_dump(tmp_path / "recorded", nodes=("hot", "hot", "hot", "cool"), also_read=tuple(BY_PLURAL))


def pods_of(dump: Path) -> list[str]:
    found = json.loads((dump / "pods.json").read_text())["items"]
    return [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in found]


def test_why_a_pod_is_there_is_a_table_of_nodes_by_plugin(rebalancer_program: Program, dump: Path) -> None:
    result = rebalancer_program("agreement", "why", f"pod/{pods_of(dump)[0]}", "--from", str(dump))

    assert (result.exit_code, result.stderr) == (0, "")
    assert "TOTAL" in result.stdout
    assert "computed on the cluster as it was at" in result.stdout


def test_a_decision_is_found_in_what_was_recorded_when_the_pod_was_bound(
    rebalancer_program: Program, tmp_path: Path
) -> None:
    file = tmp_path / "agreement.json"
    file.write_text(to_json(tallied(decided(scheduled(2, 6)))))

    result = rebalancer_program("agreement", "why", "pod/default/p3", "--decisions", str(file), "-o", "json")

    answer = json.loads(result.stdout)
    assert (answer["kind"], answer["recorded"]) == ("WhyThere", True)
    assert (answer["decision"]["pod"], answer["decision"]["result"]) == ("default/p3", "AsComputed")
    assert answer["decision"]["nodes"][0]["weighted"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "is not what rebalancer agreement -o json or rebalancer serve --decisions wrote"),
        ("[" * 100_000, "is not what rebalancer agreement -o json or rebalancer serve --decisions wrote"),
        (to_json(Tally("test", 0.0).report(1.0)), "has no decision on pod default/web"),
    ],
)
def test_a_file_without_the_decision_is_refused_in_a_line(
    rebalancer_program: Program, tmp_path: Path, content: str, said: str
) -> None:
    file = tmp_path / "agreement.json"
    file.write_text(content)

    result = rebalancer_program("agreement", "why", "pod/default/web", "--decisions", str(file))

    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "Plan"}, "it is Plan of rebalancer/v1alpha1"),
        ({"apiVersion": "rebalancer/v9"}, "it is Agreement of rebalancer/v9"),
        (
            {"latest": [{"at": 1e300}]},
            "is not what rebalancer agreement -o json or rebalancer serve --decisions wrote",
        ),
        (
            {"latest": [{}, {"pod": "other/p3"}]},
            "pod p3 is in 2 namespaces (write for example pod/default/p3)",
        ),
        ({"latest": [{"nodes": [{"weighted": {"A": 1}}, {"weighted": {"B": 2}, "raw": {}}]}]}, ""),
        ({"latest": [], "misses": [{}]}, ""),
    ],
)
def test_what_no_agreement_wrote_ends_in_a_line_and_a_miss_that_is_no_longer_among_the_latest_is_found(
    rebalancer_program: Program, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    report = json.loads(to_json(tallied(decided(scheduled(2, 6)))))
    (known,) = [item for item in report["latest"] if item["pod"] == "default/p3"]
    for name in {"latest", "misses"} & change.keys():
        decisions = [{**known, **item} for item in change[name]]
        for item in decisions:
            item["nodes"] = [{**known["nodes"][0], **node} for node in item["nodes"]]
        change = {**change, name: decisions}
    file = tmp_path / "agreement.json"
    file.write_text(json.dumps({**report, **change}))

    result = rebalancer_program("agreement", "why", "pod/p3", "--decisions", str(file))

    assert result.exit_code == (2 if said else 0)
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == bool(said)
    assert bool(result.stdout) != bool(said)


@pytest.mark.parametrize("subject", ["node/hot", "pod/nobody/nothing"])
def test_what_is_no_pod_is_refused(rebalancer_program: Program, dump: Path, subject: str) -> None:
    result = rebalancer_program("agreement", "why", subject, "--from", str(dump))

    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1


def test_misses_and_what_would_explain_them_are_shown_in_eighty_columns() -> None:
    report = tallied(decided(scheduled(11, 60, with_weights({"NodeResourcesBalancedAllocation": 6}))))

    text = agreement_table(report).plain

    assert text.startswith(f"Of 60 decisions of your scheduler {report.landed} landed as computed")
    assert "if NodeResourcesBalancedAllocation had weight" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_what_no_decision_tells_is_a_dash_and_never_zero() -> None:
    """A surprise of 0 would be that of a scheduler that never surprises, and these were never compared."""
    results = (Result.UNPREDICTABLE, Result.MISSED)
    report = tallied(
        [Decision("default/web", "uid", 1, 1.0, str(result), "n", result, "no figures") for result in results]
    )
    report = replace(report, processor_seconds=0.4)
    nothing = replace(report, decisions=0, landed=0, profiles=report.profiles[-1:])

    rows = [line.split() for line in agreement_table(report).plain.splitlines()]
    assert ["Missed", "1", "0", "0.0", "-", "-", "0"] in rows
    assert ["Unpredictable", "0", "0", "-", "-", "-", "1"] in rows
    assert "0.4 s of a processor, 400.0 ms a decision" in agreement_table(report).plain
    for text in (agreement_table(nothing).plain, agreement_page(nothing)):
        assert "0.4 s of a processor" in text
        assert "ms a decision" not in text
        assert "0.000" not in text


def test_the_page_shows_what_would_explain_the_misses_and_trusts_no_name() -> None:
    report = tallied(decided(scheduled(11, 60, with_weights({"NodeResourcesBalancedAllocation": 6}))))
    misses = (replace(report.misses[0], pod="shop/<script>alert(1)</script>"), *report.misses[1:])

    page = agreement_page(replace(report, misses=misses))

    assert f"Of 60 decisions of your scheduler {report.landed} landed as computed" in page
    assert "if NodeResourcesBalancedAllocation had weight" in page
    assert "a miss among" in page
    assert "<script" not in page
