"""What a run leaves for the next: bounded, read back as written, and never a traceback."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.errors import InputError
from rebalancer.state.run_state import (
    MAX_BYTES,
    MAX_MOVES,
    PastMove,
    RunState,
    after_moves,
    after_plan,
    after_reading,
    bounded,
    decode,
    encode,
    memory_seconds,
)
from tests.rows import rows
from tests.unit.planning.builders import a_policy
from tests.unit.state.past_moves import NOW, a_past_move


def test_a_streak_grows_while_a_node_stays_hot_and_ends_when_it_does_not() -> None:
    state = after_plan(None, ["a", "b"], NOW)
    state = after_plan(state, ["b", "c"], NOW + 60)
    state = after_plan(state, ["b"], NOW + 120)
    assert dict(state.hot_streaks) == {"b": 3}
    assert (state.hot_runs("b"), state.hot_runs("a")) == (3, 0)
    assert state.updated_at == NOW + 120


def test_a_plan_forgets_no_move() -> None:
    state = after_moves(None, [a_past_move()], NOW, 3600)
    assert after_plan(state, [], NOW).moves == state.moves


def test_moves_beyond_the_horizon_are_forgotten() -> None:
    state = after_moves(None, [a_past_move("old", at=NOW - 100), a_past_move("recent")], NOW - 50, 99)
    state = after_moves(state, [a_past_move("new")], NOW, 99)
    assert {move.name for move in state.moves} == {"recent", "new"}


@rows("age", [-1e9, -3600, 3600, 1e9])
def test_a_move_that_a_run_made_is_never_dropped_as_it_is_written(age: float) -> None:
    assert after_moves(None, [a_past_move(at=NOW - age)], NOW, 3600).moves


@pytest.mark.parametrize("age", [-1e9, -3600, 3600])
def test_a_move_that_is_not_older_than_the_horizon_is_remembered_whatever_clock_dated_it(age: float) -> None:
    state = after_moves(None, [a_past_move(at=NOW - age)], NOW, 3600)
    assert after_moves(state, [], NOW, 3600).moves


@pytest.mark.parametrize(
    ("planning", "days"),
    [
        ({"cooldown": "1h"}, 2),
        ({"cooldown": "48h"}, 4),
    ],
)
def test_moves_are_remembered_as_long_as_any_cooldown_asks_and_at_least_a_day(
    planning: dict[str, str], days: int
) -> None:
    assert memory_seconds(a_policy(planning=planning)) == days * 86_400


def test_a_limit_per_day_counts_moves_of_runs_whose_clocks_differ_by_an_hour() -> None:
    policy = a_policy(limits={"scoped": [{"namespaces": ["shop"], "perDay": 3}]})
    made, ahead = a_past_move(at=NOW), NOW + 24 * 3600 + 3500

    assert after_moves(RunState(moves=(made,)), (), ahead, memory_seconds(policy)).moves == (made,)


def test_a_later_account_of_a_pod_replaces_the_earlier() -> None:
    state = after_moves(None, [a_past_move(result="Unknown")], NOW, 3600)
    state = after_moves(state, [a_past_move(result="Landed", to_node="cool")], NOW, 3600)
    assert [(move.result, move.to_node) for move in state.moves] == [("Landed", "cool")]


HEAD = b'{"apiVersion": "rebalancer/v1alpha1", "kind": "RunState", '
NAMES = st.text(max_size=20)
MOVES = st.builds(
    PastMove,
    namespace=NAMES,
    name=NAMES,
    uid=NAMES,
    workload=NAMES,
    controller_uid=NAMES,
    from_node=NAMES,
    to_node=NAMES,
    result=NAMES,
    evicted_at=st.floats(0, 1e12),
    landed_at=st.none() | st.floats(0, 1e12),
    load=st.dictionaries(NAMES, st.floats(0, 1e18), max_size=3),
)
STATES = st.builds(
    lambda streaks, moves: RunState(
        hot_streaks=streaks, moves=tuple(sorted(moves, key=lambda move: (move.evicted_at, move.uid)))
    ),
    st.dictionaries(NAMES, st.integers(1, 1000), max_size=5),
    st.lists(MOVES, max_size=6, unique_by=lambda move: move.uid),
)


@given(STATES)
def test_a_state_is_read_back_as_it_was_written(state: RunState) -> None:
    assert decode(encode(state), "state") == state
    assert encode(decode(encode(state), "state")) == encode(state)


def test_runs_too_close_to_each_other_count_once_in_a_streak() -> None:
    state = after_plan(None, ["a"], NOW, 450)
    for seconds in (0, 1, 449):
        state = after_plan(state, ["a"], NOW + seconds, 450)
        assert state.hot_runs("a") == 1
    assert state.hot_runs_with("a", NOW + 449, 450) == 1
    assert state.hot_runs_with("a", NOW + 450, 450) == 2
    assert after_plan(state, ["a"], NOW + 450, 450).hot_runs("a") == 2


def test_a_plan_and_the_run_it_shows_count_a_streak_alike() -> None:
    state = after_plan(None, ["a"], NOW, 450)
    for seconds in (10, 500):
        counted = state.hot_runs_with("a", NOW + seconds, 450)
        assert after_plan(state, ["a"], NOW + seconds, 450).hot_runs("a") == counted


def test_a_run_dated_in_the_future_does_not_stop_streaks_from_growing() -> None:
    state = after_plan(None, ["a"], NOW + 10_000, 450)
    state = after_plan(state, ["a"], NOW, 450)
    assert state.hot_runs("a") == 1
    assert after_plan(state, ["a"], NOW + 450, 450).hot_runs("a") == 2


def test_what_another_run_knows_of_a_pod_stays_until_it_is_settled() -> None:
    state = after_moves(None, [a_past_move(run="a")], NOW, 3600)
    state = after_moves(state, [a_past_move(run="b")], NOW, 3600)
    assert [move.run for move in state.moves] == ["a", "b"]
    state = after_moves(state, [a_past_move(run="b", result="Landed")], NOW, 3600)
    assert [(move.run, move.result) for move in state.moves] == [("b", "Landed")]


def test_the_oldest_moves_go_first_when_there_are_too_many() -> None:
    state = RunState(moves=tuple(a_past_move(str(index), at=NOW + index) for index in range(MAX_MOVES + 9)))
    kept = bounded(state)
    assert kept.moves == state.moves[-len(kept.moves) :]
    assert len(kept.moves) > MAX_MOVES // 2
    assert bounded(kept) == kept


def test_a_bad_landing_is_remembered_for_a_day_of_runs_that_evict_all_they_may() -> None:
    moves = tuple(
        a_past_move(
            f"recommendation-service-7c9f8d6b54-{index:05}",
            at=NOW + 900.0 * (index // 20),
            workload="Deployment/recommendation-service",
            uid=f"{index:036}",
            run="3f2a9c81d04e",
            load={"cpu": 250.0, "memory": 2.0**28},
        )
        for index in range(20 * 96)
    )
    assert len(bounded(RunState(moves=moves)).moves) == len(moves)


def test_the_largest_state_fits_a_config_map() -> None:
    long = "x" * 500
    moves = tuple(
        PastMove(
            namespace=long,
            name=long,
            uid=f"{index:0500}",
            workload=long,
            controller_uid=long,
            from_node=long,
            to_node=long,
            evicted_at=NOW + index,
        )
        for index in range(MAX_MOVES)
    )
    streaks = {f"{index:0500}": 1 + index % 7 for index in range(12_000)}
    content = encode(RunState(moves=moves, hot_streaks=streaks))
    assert MAX_BYTES // 2 < len(content) <= MAX_BYTES
    kept = decode(content, "state")
    # A quarter of the room is the moves', however many nodes are hot.
    assert sum(len(msgspec.json.encode(move)) for move in kept.moves) > 0.24 * MAX_BYTES
    assert kept.moves[-1] == moves[-1]
    assert min(kept.hot_streaks.values()) == 7  # the longest streaks are kept


def test_a_state_with_many_samples_of_load_fits_a_config_map_as_well() -> None:
    state = None
    percent = {"cpu": {f"ip-10-0-{index}.eu-central-1.compute.internal": 50.0 for index in range(3000)}}
    for number in range(6):
        state = after_reading(state, percent, NOW + 60 * number, 3600)
    assert state is not None
    assert state.samples.taken
    moves = tuple(
        a_past_move(f"web-{index}", at=NOW + index, load={"cpu": 1.0}) for index in range(MAX_MOVES)
    )
    content = encode(msgspec.structs.replace(state, moves=moves))
    assert MAX_BYTES // 2 < len(content) <= MAX_BYTES


def test_a_cluster_of_thousands_of_hot_nodes_is_remembered_whole() -> None:
    state = after_plan(None, [f"ip-10-0-{index}.eu-central-1.compute.internal" for index in range(4000)], NOW)
    assert len(decode(encode(state), "state").hot_streaks) == 4000


@rows(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        HEAD + b'"moves":' + b"[" * 100_000,
        HEAD + b'"moves": [{}]}',
        HEAD + b'"hotStreaks": {"a": 0}}',
        HEAD + b'"hotStreaks": {"a": 1e99}}',
        HEAD + b'"hotStreaks": {"a": 99999999999999999999999}}',
        HEAD + b'"updatedAt": -1}',
        HEAD + b'"updatedAt": 1e999}',
        HEAD + b'"updatedAt": "now"}',
        HEAD + b'"hotStreaks": {"' + b"n" * 600 + b'": 1}}',
        b'{"kind": "Plan"}',
        b'{"apiVersion": "rebalancer/v9"}',
        b"{}" + b" " * (3 * MAX_BYTES),
    ],
)
def test_a_damaged_state_is_an_input_error_that_says_where_and_what_to_do(content: bytes) -> None:
    with pytest.raises(InputError) as caught:
        decode(content, "configmap kube-system/rebalancer")
    assert str(caught.value).startswith("configmap kube-system/rebalancer: ")
    assert "remove it" in caught.value.hint
    assert len(str(caught.value)) < 700


@given(st.binary(max_size=200))
def test_any_bytes_are_a_state_or_an_input_error(content: bytes) -> None:
    try:
        state = decode(content, "state")
    except InputError:
        return
    assert isinstance(state, RunState)


def test_fields_of_a_later_version_do_no_harm() -> None:
    later = {**json.loads(encode(RunState(hot_streaks={"a": 2}))), "mood": "good"}
    assert decode(json.dumps(later).encode(), "state").hot_runs("a") == 2


@rows(
    "content",
    [b"{}", b'{"name": "my-app", "version": "1"}', b'{"hotStreaks": {"a": 2}}', b'{"kind": "RunState"}'],
)
def test_what_does_not_say_that_it_is_a_state_is_none_and_so_not_written_over(content: bytes) -> None:
    with pytest.raises(InputError, match="not a RunState of rebalancer/v1alpha1") as caught:
        decode(content, "package.json")
    assert caught.value.hint.startswith("name another place with --state")
