from __future__ import annotations

import json
from pathlib import Path
from xml.dom import minidom

import pytest
import yaml

from rebalancer.errors import InputError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer_lab.fleet.asking import PLANS
from rebalancer_lab.fleet.clusters import ask_each
from rebalancer_lab.fleet.rows import ClusterRow, frame, joined
from tests.unit.cli.conftest import Program
from tests.unit.cli.hot_dumps import a_hot_dump

TEST = "apiVersion: rebalancer/v1alpha1\nkind: PolicyTest\n"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Two clusters that can be read, and one that cannot."""
    folder = tmp_path / "recorded"
    folder.mkdir()
    a_hot_dump(folder / "eu")
    a_hot_dump(folder / "us", nodes=("cool", "cool", "cool"))
    (folder / "broken").mkdir()
    (folder / "broken" / "nodes.json").write_text("{")
    return folder


def test_each_cluster_is_a_row_and_one_that_fails_is_a_row_with_its_error(
    rebalancer_program: Program, recorded: Path
) -> None:
    result = rebalancer_program("fleet", "plan", "--from", f"{recorded}/*")

    assert (result.exit_code, result.stderr) == (4, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("3 clusters, 1 of them not read: 2 hot nodes and ")
    assert [line.split()[0] for line in lines[2:5]] == ["broken", "eu", "us"]
    assert lines[2].endswith("not read")
    assert "NOT READ" in result.stdout


def test_a_program_gets_the_rows_with_the_plan_of_each_cluster(
    rebalancer_program: Program, recorded: Path
) -> None:
    found = json.loads(rebalancer_program("fleet", "plan", "--from", f"{recorded}/*", "-o", "json").stdout)
    broken, eu, _ = found["clusters"]

    assert (found["kind"], found["failed"], found["exitCode"]) == ("Fleet", 1, 4)
    assert (broken["exitCode"], "answer" in broken) == (2, False)
    assert (eu["cluster"], eu["nodes"], eu["hot"]) == ("eu", 2, 1)
    assert eu["answer"]["kind"] == "Plan"


def test_rows_are_written_as_csv_and_names(rebalancer_program: Program, recorded: Path) -> None:
    csv = rebalancer_program("fleet", "plan", "--from", f"{recorded}/*", "-o", "csv")
    names = rebalancer_program("fleet", "plan", "--from", f"{recorded}/*", "-o", "name")

    assert csv.stdout.startswith("cluster,policy,nodes,pods,hot,")
    assert names.stdout.splitlines() == ["cluster/broken", "cluster/eu", "cluster/us"]


def test_what_is_not_known_of_a_cluster_is_empty_and_never_zero(
    rebalancer_program: Program, recorded: Path
) -> None:
    (recorded / "us" / "nodemetrics.json").write_text('{"kind": "NodeMetricsList", "items": []}')
    rows, table = (
        rebalancer_program("simulate", "--from", f"{recorded}/*", "--cycles", "1", *more).stdout.splitlines()
        for more in (("-o", "csv"), ())
    )

    assert rows[0] == "cluster,policy,hot,hot_after,peak_cpu,peak_cpu_after,moves,again,error"
    assert rows[1].startswith("broken,,,,,,,,")
    assert rows[2].startswith("eu,default,1,1,95.0,95.0,")
    assert rows[3].startswith("us,default,,,,,0,0,")
    assert table[4].split()[1:] == ["default", "-", "-", "-", "-", "0", "0"]
    planned = rebalancer_program("fleet", "plan", "--from", f"{recorded}/*", "-o", "csv").stdout.splitlines()
    assert planned[1].startswith("broken,,,,,,,,")
    for command in (["fleet", "plan"], ["simulate"]):
        text = rebalancer_program(*command, "--from", f"{recorded}/*", "-o", "json").stdout
        broken, eu, _ = json.loads(text)["clusters"]
        figures = (
            "nodes",
            "pods",
            "hot",
            "movable",
            "emptiable",
            "moves",
            "heldShare",
            "decisions",
            "landed",
        )
        assert {name: broken[name] for name in figures} == dict.fromkeys(figures)
        unknown = {name for name in figures if eu[name] is None}
        assert unknown == (
            {"decisions", "landed"} if command == ["fleet", "plan"] else {*figures} - {"hot", "moves"}
        )


def test_columns_of_figures_have_a_type_where_no_cluster_has_a_figure() -> None:
    """Parquet files of two days are read as one table only if their columns are of the same types."""
    broken = ClusterRow(cluster="broken", error="it is")
    eu = ClusterRow(cluster="eu", policy="default", nodes=6, pods=24, hot=2, movable=1, emptiable=1, moves=2)
    read, unread = (frame(joined([row]), PLANS).dtypes.astype(str).to_dict() for row in (eu, broken))
    assert (unread["decisions"], read["decisions"], unread["held_share"]) == ("Int64", "Int64", "float64")
    assert {name: unread[name] for name in ("nodes", "hot", "moves")} == dict.fromkeys(
        ("nodes", "hot", "moves"), read["nodes"]
    )


def test_a_page_has_the_rows_and_why_a_cluster_was_not_read(
    rebalancer_program: Program, recorded: Path
) -> None:
    for command, column in ((["fleet", "plan"], "blocked by"), (["simulate"], "peak cpu")):
        page = rebalancer_program(*command, "--from", f"{recorded}/*", "-o", "html")

        assert (page.exit_code, page.stdout.count("<h1>")) == (4, 1)
        assert f">{column}</th>" in page.stdout
        assert "<h2>Not read</h2>" in page.stdout
        assert page.stdout.count("<tr>") == 4


def test_the_agreement_that_was_measured_is_a_column(rebalancer_program: Program, recorded: Path) -> None:
    state = {"agreement": {"decisions": 400, "landed": 399, "until": 1.0}}
    head = {"apiVersion": "rebalancer/v1alpha1", "kind": "RunState"}
    (recorded / "eu" / "state.json").write_text(json.dumps(head | state))
    rows = rebalancer_program("fleet", "plan", "--from", f"{recorded}/[eu]*").stdout.splitlines()
    assert "AGREES" in rows[1]
    assert " 99.8% " in rows[2]
    assert "99.8%" not in rows[3]


def test_a_pattern_gives_rows_however_many_clusters_match(
    rebalancer_program: Program, recorded: Path
) -> None:
    result = rebalancer_program("fleet", "plan", "--from", f"{recorded}/e*", "-o", "json")

    assert result.exit_code == 0
    assert [row["cluster"] for row in json.loads(result.stdout)["clusters"]] == ["eu"]


def test_a_simulation_has_a_row_for_each_cluster_and_policy(
    rebalancer_program: Program, recorded: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "other.yaml"
    policy.write_text("apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nmetadata: {name: other}\n")
    policies = ("--policy", str(policy), "--policy", "policies/conservative.yaml", "--cycles", "2")
    result = rebalancer_program("simulate", "--from", f"{recorded}/*", *policies)

    assert result.exit_code == 4
    rows = [line.split()[:2] for line in result.stdout.splitlines()[2:7]]
    assert rows == [
        ["broken", "not"],
        ["eu", "other"],
        ["eu", "conservative"],
        ["us", "other"],
        ["us", "conservative"],
    ]


def test_a_fleet_of_no_cluster_is_refused(rebalancer_program: Program) -> None:
    result = rebalancer_program("fleet", "plan")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "which clusters?" in result.stderr


@pytest.mark.parametrize("pattern", ["nothing-*", "/[", "*/" * 40])
def test_a_pattern_that_matches_nothing_is_said(
    rebalancer_program: Program, recorded: Path, pattern: str
) -> None:
    result = rebalancer_program("fleet", "plan", "--from", f"{recorded}/{pattern}")

    assert result.exit_code == 2
    assert "matches nothing" in result.stderr


def test_a_mistake_in_the_policy_is_one_error_and_not_one_of_each_cluster(
    rebalancer_program: Program, recorded: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\nlimit: {}\n")
    for command in (["fleet", "plan"], ["simulate"]):
        result = rebalancer_program(*command, "--from", f"{recorded}/*", "--policy", str(wrong))

        assert (result.exit_code, result.stdout) == (2, "")
        assert "did you mean limits?" in result.stderr


def test_contexts_that_do_not_answer_are_rows_and_their_exit_code_is_the_one_they_share(
    rebalancer_program: Program, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    names = ("eu", "us")
    document = {
        "clusters": [{"name": name, "cluster": {"server": "http://127.0.0.1:1"}} for name in names],
        "users": [{"name": name, "user": {}} for name in names],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in names],
    }
    kubeconfig.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **document}))
    contexts = ("--context", "eu", "--context", "us", "--context", "absent")
    asked = ("--kubeconfig", str(kubeconfig), *contexts, "--request-timeout", "1s", "-o", "json")
    rows = json.loads(rebalancer_program("fleet", "plan", *asked).stdout)["clusters"]

    assert [(row["cluster"], row["exitCode"]) for row in rows] == [("eu", 6), ("us", 6), ("absent", 2)]
    followed = rebalancer_program("fleet", "agreement", *asked)
    assert followed.exit_code == 4
    rows = json.loads(followed.stdout)["clusters"]
    assert [(row["cluster"], row["exitCode"]) for row in rows] == [("eu", 6), ("us", 6), ("absent", 2)]


def test_a_defect_that_one_cluster_shows_hides_no_other() -> None:
    def ask(name: str, _: PlanOptions) -> str:
        return name if name == "good" else str(1 // 0)

    clusters = [("bad", PlanOptions()), ("good", PlanOptions())]
    found = list(ask_each(clusters, ask, lambda _, error: str(error), lambda _: None))

    assert found[0].startswith("ZeroDivisionError: ")
    assert found[1] == "good"


def test_clusters_are_read_one_at_a_time_until_one_has_been_answered() -> None:
    """What is built on the way, such as msgspec's types, is not safe to be built by several threads."""
    events: list[str] = []

    def ask(name: str, _: PlanOptions) -> str:
        events.append(f"begins {name}")
        events.append(f"ends {name}")
        if name.startswith("broken"):
            raise InputError("broken")
        return name

    names = ["broken", "broken too", "a", "b", "c"]
    clusters = [(name, PlanOptions()) for name in names]
    assert list(ask_each(clusters, ask, lambda name, _: name, lambda _: None)) == names
    first = min(events.index(f"ends {name}") for name in "abc")
    alone = [event.split()[0] for event in events[: first + 1]]
    assert alone == ["begins", "ends"] * (len(alone) // 2)


def test_assertions_are_held_to_every_cluster_or_to_those_they_name(
    rebalancer_program: Program, recorded: Path, tmp_path: Path
) -> None:
    every, some, none = (tmp_path / name for name in ("every.yaml", "some.yaml", "none.yaml"))
    every.write_text(TEST + "maxEvictions: 10\n")
    some.write_text(TEST + "clusters: [e*]\nhotNodes: [cool]\n")
    none.write_text(TEST + "clusters: [asia]\nmaxEvictions: 1\n")
    junit = tmp_path / "junit.xml"
    source = ("--from", f"{recorded}/*", "--junit", str(junit))

    good = rebalancer_program("policy", "test", str(every), *source)
    assert good.exit_code == 4
    assert good.stdout.endswith("2 assertions: all hold; 1 cluster not read\n")
    bad = rebalancer_program("policy", "test", str(every), str(some), *source)
    assert bad.exit_code == 9
    suites = minidom.parse(str(junit)).getElementsByTagName("testsuite")
    names = [suite.getAttribute("name") for suite in suites]
    assert names == ["broken", f"{every} on eu", f"{some} on eu", f"{every} on us"]
    assert len(minidom.parse(str(junit)).getElementsByTagName("error")) == 1
    wrong = rebalancer_program("policy", "test", str(none), *source)
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (2, 1)
    assert "clusters: matches none of broken, eu, us" in wrong.stderr
