from __future__ import annotations

import pandas as pd

from rebalancer import analysis
from rebalancer.planning.plan import NodeReport
from rebalancer.state.results import Result
from tests.unit.reporting.builders import a_kept, a_move, a_node, a_plan, an_outcome, some_outcomes


def test_moves_are_rows_with_the_likeliest_landing_and_its_chance() -> None:
    moves = (a_move("web-1", to=("node-7",)), a_move("web-2", to=("node-7", "node-8"), wave=2, gain=3.0))
    frame = analysis.moves(a_plan(moves=moves))

    assert frame[["pod", "likeliest", "chance", "landings", "gain_cpu"]].to_dict("records") == [
        {"pod": "web-1", "likeliest": "node-7", "chance": 1.0, "landings": 1, "gain_cpu": 12.5},
        {"pod": "web-2", "likeliest": "node-7", "chance": 0.5, "landings": 2, "gain_cpu": 3.0},
    ]
    assert frame["gain_memory"].isna().all()


def test_the_chances_of_each_move_sum_to_one() -> None:
    moves = (a_move("web-1", to=("node-7",)), a_move("web-2", to=("node-7", "node-8", "node-9")))
    frame = analysis.landings(a_plan(moves=moves))

    assert frame.groupby("pod")["chance"].sum().round(9).tolist() == [1.0, 1.0]


def test_an_unknown_load_is_missing_and_not_zero() -> None:
    frame = analysis.nodes((a_node(after=70.0), NodeReport(name="node-9", load={}))).set_index("node")

    assert frame.loc["node-0001", ["load_cpu", "after_cpu"]].tolist() == [91.0, 70.0]
    assert pd.isna(frame.loc["node-9", "load_cpu"])
    assert pd.isna(frame.loc["node-9", "after_cpu"])


def test_pods_that_stay_have_a_code_and_a_reason() -> None:
    frame = analysis.kept(a_plan(kept=(a_kept("db-0"), a_kept("db-1", "Priority", "too important"))))

    assert frame["code"].value_counts().to_dict() == {"SingleReplica": 1, "Priority": 1}
    assert frame["reason"].iloc[1] == "too important"
    assert list(frame["setting"]) == ["", ""]


def test_outcomes_have_times_in_utc_and_none_for_what_did_not_happen() -> None:
    found = some_outcomes(an_outcome(), an_outcome(Result.SKIPPED, "web-2"))
    frame = analysis.outcomes(found)

    assert frame["result"].tolist() == ["Landed", "Skipped"]
    assert (frame["ready_at"] - frame["evicted_at"]).iloc[0] == pd.Timedelta(seconds=6.5)
    assert pd.isna(frame["evicted_at"].iloc[1])


def test_an_empty_plan_gives_empty_frames_with_all_columns() -> None:
    empty = a_plan(moves=(), kept=(), nodes=())

    assert list(analysis.moves(empty).columns)[:3] == ["wave", "namespace", "pod"]
    assert {len(analysis.moves(empty)), len(analysis.kept(empty)), len(analysis.landings(empty))} == {0}
    assert analysis.nodes(()).empty
