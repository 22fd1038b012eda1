"""What a run leaves for the next: bounded, read back as written, and never a traceback."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.errors import InputError
from rebalancer.state import PastMove, RunState, after_moves, after_plan, in_cooldown
from rebalancer.state.run_state import MAX_BYTES, MAX_MOVES, bounded, decode, encode, merged

NOW = 1_700_000_000.0


def a_past_move(
    name: str = "web-1", *, at: float = NOW, workload: str = "Deployment/web", uid: str = "", **more: Any
) -> PastMove:
    return PastMove(
        namespace="shop",
        name=name,
        uid=uid or f"uid-{name}",
        workload=workload,
        controller_uid=f"of-{workload}",
        from_node="hot",
        evicted_at=at,
        **more,
    )


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
    state = after_moves(None, [a_past_move("old", at=NOW - 100), a_past_move("new")], NOW, 99)
    assert [move.name for move in state.moves] == ["new"]


def test_a_move_of_the_far_future_is_forgotten() -> None:
    assert after_moves(None, [a_past_move(at=NOW + 1e6)], NOW, 3600).moves == ()


def test_a_later_account_of_a_pod_replaces_the_earlier() -> None:
    state = after_moves(None, [a_past_move(result="Unknown")], NOW, 3600)
    state = after_moves(state, [a_past_move(result="Landed", to_node="cool")], NOW, 3600)
    assert [(move.result, move.to_node) for move in state.moves] == [("Landed", "cool")]


@pytest.mark.parametrize(("age", "cooling"), [(0, True), (3599, True), (3600, False), (-60, True)])
def test_a_workload_is_in_cooldown_until_its_latest_move_is_old_enough(age: float, cooling: bool) -> None:
    state = after_moves(None, [a_past_move(at=NOW - age)], NOW, 86400)
    assert (in_cooldown(state, NOW, 3600, workload="shop/Deployment/web") is not None) is cooling
    assert (in_cooldown(state, NOW, 3600, controller_uid="of-Deployment/web") is not None) is cooling


def test_another_workload_or_an_unnamed_one_is_not_in_cooldown() -> None:
    state = after_moves(None, [a_past_move()], NOW, 86400)
    assert in_cooldown(state, NOW, 3600, workload="elsewhere/Deployment/web") is None
    assert in_cooldown(state, NOW, 3600, controller_uid="other") is None
    assert in_cooldown(state, NOW, 3600) is None
    assert in_cooldown(None, NOW, 3600, workload="shop/Deployment/web") is None


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


@given(STATES, STATES)
def test_merging_loses_no_pod_and_does_not_depend_on_who_merges(one: RunState, two: RunState) -> None:
    two = msgspec.structs.replace(two, updated_at=1.0)
    both = merged(one, two)
    assert both == merged(two, one)
    assert {move.uid for move in both.moves} == {move.uid for move in (*one.moves, *two.moves)}
    assert both.hot_streaks == two.hot_streaks


def test_the_oldest_moves_go_first_when_there_are_too_many() -> None:
    state = RunState(moves=tuple(a_past_move(str(index), at=NOW + index) for index in range(MAX_MOVES + 9)))
    kept = bounded(state)
    assert len(kept.moves) == MAX_MOVES
    assert kept.moves[-1] == state.moves[-1]
    assert bounded(kept) == kept


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
    streaks = {f"{index:0500}": 1 + index % 7 for index in range(6000)}
    content = encode(RunState(moves=moves, hot_streaks=streaks))
    assert MAX_BYTES // 2 < len(content) <= MAX_BYTES
    kept = decode(content, "state")
    assert kept.moves[-1] == moves[-1]
    assert min(kept.hot_streaks.values()) == 7  # the longest streaks are kept


def test_a_cluster_of_thousands_of_hot_nodes_is_remembered_whole() -> None:
    state = after_plan(None, [f"ip-10-0-{index}.eu-central-1.compute.internal" for index in range(4000)], NOW)
    assert len(decode(encode(state), "state").hot_streaks) == 4000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"moves":' + b"[" * 100_000,
        b'{"moves": [{}]}',
        b'{"hotStreaks": {"a": 0}}',
        b'{"hotStreaks": {"a": 1e99}}',
        b'{"hotStreaks": {"a": 99999999999999999999999}}',
        b'{"updatedAt": -1}',
        b'{"updatedAt": 1e999}',
        b'{"updatedAt": "now"}',
        b'{"hotStreaks": {"' + b"n" * 600 + b'": 1}}',
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
    assert decode(b'{"hotStreaks": {"a": 2}, "mood": "good"}', "state").hot_runs("a") == 2
