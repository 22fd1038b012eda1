from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from rebalancer.cluster.dumps.reader import DOCUMENTS
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.progress import PlanProgress
from rebalancer.run.plan import make_plan

ROOT = Path(__file__).parents[3]
HOT = PlanOptions(policy_path=ROOT / "examples/policy.yaml", source=ROOT / "examples/hot-cluster")


def test_somebody_who_waits_is_told_of_every_file_and_of_every_move() -> None:
    reports: list[str] = []

    plan = make_plan(replace(HOT, progress=reports.append))

    read = [report.split()[1].rstrip(",") for report in reports if report.startswith("reading ")]
    files = {path.name for path in (ROOT / "examples/hot-cluster").glob("*.json")} - {*DOCUMENTS}
    assert sorted(read) == sorted(files)
    assert "putting together the load of 6 nodes and 24 pods" in reports
    planning = [report for report in reports if report.startswith("planning: ")]
    assert planning == reports[-len(planning) :]
    for moves in range(1, len(plan.moves) + 1):
        assert any(f" {moves} of at most " in report for report in planning)


def test_a_report_never_takes_back_a_move() -> None:
    reports: list[str] = []
    progress = PlanProgress(reports.append, 20, lambda: None)

    progress.on_placement()
    for moves in (1, 2, 1, 2, 3):
        progress.on_move(moves)

    assert reports == [
        "planning: 0 of at most 20 moves",
        "planning: 1 of at most 20 moves, 1 landing computed",
        "planning: 2 of at most 20 moves, 1 landing computed",
        "planning: 3 of at most 20 moves, 1 landing computed",
    ]


def test_what_gives_a_plan_up_is_asked_before_each_placement() -> None:
    asked: list[int] = []
    progress = PlanProgress(lambda _: None, 20, lambda: asked.append(1))

    for _ in range(130):
        progress.on_placement()

    assert len(asked) == 130


def test_a_report_counts_no_more_moves_than_a_run_may_make() -> None:
    """What higher limits would give is tried too, by plans with more moves."""
    reports: list[str] = []
    progress = PlanProgress(reports.append, 2, lambda: None)

    for moves in (1, 2, 3, 4):
        progress.on_move(moves)

    assert reports == ["planning: 1 of at most 2 moves", "planning: 2 of at most 2 moves"]
