from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from rebalancer.observe.plan_options import PlanOptions
from rebalancer.planning.plan import decode, encode
from rebalancer.reporting.html.pages import html_report
from tests.unit.cli.conftest import FakePipeline, Program


def test_a_plan_is_a_table_on_stdout_and_nothing_on_stderr(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    result = rebalancer_program("plan", "--width", "80")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Plan: 1 of 2 hot nodes no longer hot, 1 stays hot; 2 pods restart")
    assert "\x1b" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_plan_in_json_is_the_plan_and_nothing_else(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    result = rebalancer_program("plan", "-o", "json")

    assert result.stdout.encode() == encode(pipeline.plan) + b"\n"
    assert decode(result.stdout.encode()) == pipeline.plan


def test_a_plan_in_yaml_is_the_same_data(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    result = rebalancer_program("plan", "-o", "yaml")

    assert yaml.safe_load(result.stdout) == json.loads(encode(pipeline.plan))


def test_all_shows_every_row(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    assert ", e.g. shop/db-0" in rebalancer_program("plan").stdout
    assert "shop/cache-0 on node-0001" in rebalancer_program("plan", "--all").stdout


def test_options_reach_the_pipeline_as_values(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    arguments = (
        "--policy p.yaml --from dump --now 2026-11-20T12:00:00Z --state s.json --scheduler-config c.yaml "
        "--assume-neutral A --assume-neutral B"
    )
    result = rebalancer_program("plan", *arguments.split())

    assert result.exit_code == 0
    assert pipeline.asked == [
        PlanOptions(
            policy_path=Path("p.yaml"),
            source=Path("dump"),
            now=1795176000.0,
            state_path=Path("s.json"),
            scheduler_config=Path("c.yaml"),
            assume_neutral=("A", "B"),
        )
    ]


def test_without_options_everything_is_left_to_the_defaults(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    rebalancer_program("plan")

    assert pipeline.asked == [PlanOptions()]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1795176000", 1795176000.0), ("0", 0.0), ("2026-11-20T13:00:00+01:00", 1795176000.0)],
)
def test_the_clock_is_rfc_3339_or_unix_seconds(
    rebalancer_program: Program, pipeline: FakePipeline, text: str, seconds: float
) -> None:
    rebalancer_program("plan", "--now", text)

    assert pipeline.asked[0].now == seconds


@pytest.mark.parametrize(
    "text", ["nan", "inf", "-1", "1e99", "999999999999", "2026-13-01T00:00:00Z", "", "٣"]
)
def test_a_clock_that_is_no_time_is_refused(
    rebalancer_program: Program, pipeline: FakePipeline, text: str
) -> None:
    result = rebalancer_program("plan", f"--now={text}")

    assert result.exit_code == 2
    assert pipeline.asked == []


def test_a_recorded_and_a_live_cluster_at_once_are_refused(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    result = rebalancer_program("plan", "--from", "dump", "--context", "production")

    assert result.exit_code == 2
    assert "--from reads a recorded cluster, --context a live one" in result.stderr
    assert pipeline.asked == []


def test_verbose_shows_what_is_being_read(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    assert rebalancer_program("-v", "plan").stderr == "debug: reading pods\n"


def test_nodes_are_a_table_with_reasons(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    result = rebalancer_program("nodes")

    assert "3 nodes: 2 hot, 0 without a fresh figure" in result.stdout
    row = next(line for line in result.stdout.splitlines() if line.strip().startswith("node-0001"))
    assert row.split() == [
        "node-0001",
        "███████░",
        "91",
        "████░░░░",
        "55",
        "cpu",
        "91",
        "%",
        "is",
        "above",
        "80",
        "%",
    ]


def test_rows_of_one_namespace_can_be_chosen_and_the_table_says_so(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    assert "shop/web-" not in (other := rebalancer_program("plan", "-n", "elsewhere").stdout)
    assert other.startswith("Plan: 1 of 2 hot nodes no longer hot"), "the plan is the same"
    assert "listed   pods of namespace elsewhere: 0 of 2 moves" in other
    assert rebalancer_program("plan", "-n", "elsewhere", "-o", "name").stdout == ""
    refused = rebalancer_program("plan", "-n", "shop", "-o", "json")
    assert (refused.exit_code, len(pipeline.asked)) == (2, 2)


def test_names_can_be_given_to_other_commands(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    names = rebalancer_program("plan", "-o", "name").stdout.splitlines()

    assert names == ["pod/shop/web-7d9f8b6c5d-x2x4z", "pod/shop/api-5b9c-kk8vq"]
    assert rebalancer_program("nodes", "--hot", "-o", "name").stdout == "node/node-0001\nnode/node-0002\n"


def test_the_summary_is_of_all_nodes_even_where_only_hot_ones_are_listed(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    lines = rebalancer_program("nodes", "--hot").stdout.splitlines()

    assert lines[0] == "3 nodes: 2 hot, 0 without a fresh figure"
    assert not any("node-0007" in line for line in lines)


def test_csv_has_a_line_of_titles_and_a_line_a_row(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    plan = list(csv.DictReader(rebalancer_program("plan", "-o", "csv").stdout.splitlines()))
    nodes = list(csv.DictReader(rebalancer_program("nodes", "-o", "csv", "--sort=name").stdout.splitlines()))

    assert (plan[0]["pod"], plan[0]["likeliest"]) == ("web-7d9f8b6c5d-x2x4z", "node-0007")
    assert (nodes[2]["node"], nodes[2]["load_cpu"]) == ("node-0007", "20.0")


def test_nodes_can_be_sorted_and_an_unknown_order_is_refused(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    by_name = rebalancer_program("nodes", "--sort", "name", "--no-headers").stdout.splitlines()
    assert [line.split()[0] for line in by_name] == ["node-0001", "node-0002", "node-0007"]
    refused = rebalancer_program("nodes", "--sort", "gpu")
    assert refused.exit_code == 2
    assert "use one of cpu, heat, memory, name, pods, score" in refused.stderr


def test_nodes_in_json_name_their_kind_and_inputs(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    found = json.loads(rebalancer_program("nodes", "-o", "json").stdout)

    assert (found["kind"], found["inputs"]) == ("NodeListing", pipeline.plan.inputs)
    assert [node["name"] for node in found["nodes"]] == ["node-0001", "node-0002", "node-0007"]


def test_jsonpath_prints_the_values_that_a_template_names(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    template = r'{range .moves[*]}{.pod.namespace}/{.pod.name}{"\t"}{.from}{"\n"}{end}'

    assert rebalancer_program("plan", "-o", f"jsonpath={template}").stdout == (
        "shop/web-7d9f8b6c5d-x2x4z\tnode-0001\nshop/api-5b9c-kk8vq\tnode-0001\n"
    )
    assert rebalancer_program("nodes", "-o", "jsonpath={.kind}").stdout == "NodeListing\n"
    assert rebalancer_program("--version", "-o", "jsonpath={.kind}").stdout == "Version\n"


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "-o", "jsonpath={.moves"),
        ("plan", "-o", "jsonpath="),
        ("plan", "-o", "json={.kind}"),
        ("plan", "-o", "parquet"),
        ("plan", "-l", "app in web"),
        ("plan", "--field-selector", "status.podIP=1.2.3.4"),
        ("plan", "--field-selector", "spec.nodeName"),
        ("plan", "-n", "shop", "-A"),
        ("plan", "-o", "json", "--top", "2"),
        ("nodes", "-o", "csv", "--width", "80"),
        ("plan", "--as-group", "dev"),
        ("plan", "--from", "recorded", "--as", "jane"),
        ("plan", "--sort", "gian"),
        ("plan", "--request-timeout", "10"),
        ("plan", "-l", "app=web", "-o", "json"),
        ("nodes", "--field-selector", "spec.nodeName=a"),
        ("nodes", "--sort", "gpu"),
        ("run", "-o", "jsonpath={"),
    ],
)
def test_arguments_are_checked_before_a_cluster_is_read(
    rebalancer_program: Program,
    pipeline: FakePipeline,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as where it is not installed
    result = rebalancer_program(*words)

    assert (result.exit_code, result.stdout, pipeline.asked) == (2, "", [])
    assert len(result.stderr.splitlines()) == 1


def test_moves_can_be_sorted_and_limited(rebalancer_program: Program, pipeline: FakePipeline) -> None:
    by_pod = rebalancer_program("plan", "--sort", "pod", "-o", "name").stdout.splitlines()
    assert by_pod == ["pod/shop/api-5b9c-kk8vq", "pod/shop/web-7d9f8b6c5d-x2x4z"]
    assert len(rebalancer_program("plan", "--top", "1", "--no-headers").stdout.splitlines()) == 1


@pytest.mark.parametrize("words", [("-v", "plan"), ("plan", "-v"), ("plan", "-o", "json", "--verbose")])
def test_verbose_may_stand_anywhere(
    rebalancer_program: Program, pipeline: FakePipeline, words: tuple[str, ...]
) -> None:
    assert rebalancer_program(*words).stderr == "debug: reading pods\n"


def test_the_format_of_logs_may_stand_after_the_command(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    line = json.loads(rebalancer_program("plan", "--log-format", "json", "-v").stderr)

    assert (line["level"], line["message"]) == ("debug", "reading pods")


def test_how_long_a_request_may_take_reaches_the_pipeline(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    rebalancer_program("plan", "--request-timeout", "5s")

    assert pipeline.asked == [PlanOptions(request_seconds=5.0)]


def test_the_plan_and_the_policy_of_a_report_are_read_back(
    rebalancer_program: Program, pipeline: FakePipeline, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    page.write_text(html_report(pipeline.plan, "kind: RebalancePolicy\n", {}))

    assert rebalancer_program("plan", "--from", str(page)).stdout == rebalancer_program("plan").stdout
    assert rebalancer_program("plan", "--from", str(page), "-o", "json").stdout.encode() == (
        encode(pipeline.plan) + b"\n"
    )
    assert len(pipeline.asked) == 1, "a report is read without a cluster"
    assert rebalancer_program("policy", "show", str(page)).stdout == "kind: RebalancePolicy\n"
    assert rebalancer_program("plan", "--from", str(page), "-l", "app=web").exit_code == 2
    page.write_text("<html></html>")
    assert "holds no plan" in rebalancer_program("plan", "--from", str(page)).stderr


def test_a_detailed_exit_code_says_whether_the_plan_moves_pods(
    rebalancer_program: Program, pipeline: FakePipeline, tmp_path: Path
) -> None:
    moves = rebalancer_program("plan", "--detailed-exitcode", "-o", "json")
    (tmp_path / "plan.json").write_text(moves.stdout)
    pipeline.plan = replace(pipeline.plan, moves=())
    nothing = rebalancer_program("plan", "--detailed-exitcode", "-o", "json")
    (tmp_path / "other.json").write_text(nothing.stdout)
    same, other = (str(tmp_path / name) for name in ("plan.json", "other.json"))

    assert (moves.exit_code, nothing.exit_code) == (10, 0)
    assert rebalancer_program("plan", "--detailed-exitcode", "--from", same, "--diff", same).exit_code == 0
    assert rebalancer_program("plan", "--detailed-exitcode", "--from", same, "--diff", other).exit_code == 10
    assert rebalancer_program("plan", "--from", same, "--diff", other).exit_code == 0


def test_options_that_would_be_ignored_are_refused(
    rebalancer_program: Program, pipeline: FakePipeline, tmp_path: Path
) -> None:
    every = rebalancer_program("nodes", "--every", "5s")
    of_report = "plan", "--from", str(tmp_path / "plan.html")
    report = rebalancer_program(*of_report, "--policy", "other.yaml")

    assert {result.exit_code for result in (every, report)} == {2}
    assert "--every says how often --watch reads" in every.stderr
    assert "give --from alone" in report.stderr


def test_a_namespace_that_the_cluster_does_not_have_is_no_answer_of_nothing(
    rebalancer_program: Program,
) -> None:
    hot = Path(__file__).parents[4] / "examples" / "hot-cluster"
    refused = rebalancer_program("plan", "--from", str(hot), "-n", "shpo")
    empty = rebalancer_program("plan", "--from", str(hot), "-n", "default")

    assert refused.exit_code == 2
    assert "the cluster has no namespace 'shpo' (did you mean shop?)" in refused.stderr
    assert empty.exit_code == 0, empty.stderr
