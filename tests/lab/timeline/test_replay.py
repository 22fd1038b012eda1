"""A replay reproduces what was recorded, takes load along with the pods, and is the same every time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.errors import InputError
from rebalancer.planning.assemble import assemble
from rebalancer.planning.planner import Planner
from rebalancer.policy.policy_file import parse_policy
from rebalancer.state.run_state import RunState
from rebalancer_lab.timeline import frames
from rebalancer_lab.timeline.descheduler import LowNodeUtilization
from rebalancer_lab.timeline.replay import DESCHEDULER, NOTHING, RECORDED, Measures, Replay, replay
from rebalancer_lab.timeline.replay_command import _page as page_of
from rebalancer_lab.timeline.replay_command import about, replay_table
from rebalancer_lab.timeline.timeline import Timeline
from rebalancer_lab.timeline.workers import Block, Figures, Task, evaluate
from tests.builders import a_node
from tests.lab.timeline.recorded_days import EVERY, NOW, POLICY, a_policy, an_observation, pods_on, recorded

HOT = {f"web-{number}": "a" for number in range(6)}  # 6 × 600 of 4,000 millicores, and 100 of the node's own
USE = dict.fromkeys(HOT, 600)


def run_of(found: Replay, policy: str) -> Measures:
    (run,) = (item for item in found.runs if item.policy == policy)
    return run


def test_a_replay_without_a_policy_reproduces_the_recorded_loads(tmp_path: Path) -> None:
    where = [HOT, HOT | {"web-6": "b"}, HOT | {"web-6": "b", "web-7": "c"}]
    timeline = recorded(
        tmp_path, *(an_observation(NOW + EVERY * at, pods_on(pods), USE) for at, pods in enumerate(where))
    )
    found = replay(timeline, [("test", a_policy())], seed=1)

    nothing = run_of(found, NOTHING)
    assert [item.peak["cpu"] for item in nothing.moments] == [92.5, 92.5, 92.5]
    assert nothing.hot_node_minutes == pytest.approx(15.0)
    assert nothing.excess_minutes == pytest.approx(15.0 * 12.5)
    assert nothing.evictions == 0
    assert found.reproduction is not None
    assert (found.reproduction.arrivals, found.reproduction.as_recorded) == (2, 2)
    assert found.reproduction.largest_error == 0.0


def test_pods_that_a_policy_moves_take_their_load_along_for_the_rest_of_the_recording(tmp_path: Path) -> None:
    timeline = recorded(tmp_path, *(an_observation(NOW + EVERY * at, pods_on(HOT), USE) for at in range(4)))
    run = run_of(replay(timeline, [("test", a_policy())], seed=1), "test")

    assert run.hot_node_minutes == 0.0
    assert run.evictions >= 1
    assert {item.hot for item in run.moments} == {0}
    first = run.moments[0]
    assert first.peak["cpu"] == pytest.approx(92.5 - 15.0 * len(first.moves))
    assert run.disruption_cost >= run.evictions
    assert run.refused_landings == 0


def test_the_load_of_a_moved_pod_follows_its_recorded_curve(tmp_path: Path) -> None:
    rising = [dict.fromkeys(HOT, 600), dict.fromkeys(HOT, 300)]
    timeline = recorded(
        tmp_path,
        *(an_observation(NOW + EVERY * at, pods_on(HOT), use) for at, use in enumerate(rising)),
    )
    run = run_of(replay(timeline, [("test", a_policy())], seed=1), "test")

    moved = len(run.moments[0].moves)
    assert run.moments[1].peak["cpu"] == pytest.approx((100 + 300 * (6 - moved)) / 40)


def test_the_same_arguments_give_the_same_replay(tmp_path: Path) -> None:
    timeline = recorded(tmp_path, *(an_observation(NOW + EVERY * at, pods_on(HOT), USE) for at in range(3)))

    assert replay(timeline, [("test", a_policy())], seed=3) == replay(
        timeline, [("test", a_policy())], seed=3
    )


def test_a_landing_that_the_recorded_cluster_would_have_refused_is_counted(tmp_path: Path) -> None:
    def nodes(*, closed: bool) -> list[dict[str, object]]:
        return [
            a_node("a", cpu=4),
            a_node("b", cpu=4, unschedulable=closed),
            a_node("c", cpu=4, unschedulable=closed),
        ]

    timeline = recorded(
        tmp_path,
        an_observation(NOW, pods_on(HOT), USE, nodes(closed=False)),
        an_observation(NOW + EVERY, pods_on(HOT), USE, nodes(closed=True)),
    )
    run = run_of(replay(timeline, [("test", a_policy())], seed=1), "test")

    assert run.refused_landings == len(run.moments[0].moves) >= 1
    assert {move.refused for move in run.moments[0].moves} == {"the node is cordoned"}


def test_a_moved_pod_whose_node_goes_away_is_placed_again(tmp_path: Path) -> None:
    three = [a_node(name, cpu=4) for name in "abc"]
    first = an_observation(NOW, pods_on(HOT), USE, three)
    run = run_of(replay(recorded(tmp_path / "one", first), [("test", a_policy())], seed=1), "test")
    gone = run.moments[0].moves[0].node
    left = [node for node in three if node["metadata"]["name"] != gone]
    timeline = recorded(tmp_path / "two", first, an_observation(NOW + EVERY, pods_on(HOT), USE, left))
    run = run_of(replay(timeline, [("test", a_policy())], seed=1), "test")

    assert "the node is gone" in {move.refused for move in run.moments[0].moves}
    assert run.moments[1].pending == 0


def acting_day(folder: Path, moments: int = 4) -> tuple[list[tuple[str, str, str]], RunState | None]:
    """Records a cluster that a policy cools meanwhile, as ``serve --act --record`` does; its moves."""
    where, use, created = dict(HOT), dict(USE), dict.fromkeys(HOT, NOW - 86_400.0)
    # No two nodes are equally good at any time, so that each landing is certain.
    nodes = [a_node(name, cpu=cores) for name, cores in {"a": 4, "b": 4, "c": 7}.items()]
    state: RunState | None = None
    made: list[tuple[str, str, str]] = []
    observations, states = [], {}
    for at in range(moments):
        now = NOW + EVERY * at
        pods = [pod for name, node in where.items() for pod in pods_on({name: node}, created=created[name])]
        observation = an_observation(now, pods, use, nodes)
        observations.append(observation)
        read = replace(observation, configurations={"": None})
        if state is not None:
            states[now] = state
        plan = Planner(assemble(read, a_policy(), state)).plan()
        past = []
        for move in plan.moves:
            (landing,) = move.landings
            new, node = f"{move.pod.name}x{at}", landing.node
            del where[move.pod.name]
            where[new], use[new], created[new] = node, 600, now + 1
            made.append((f"default/{move.pod.name}", move.from_node, node))
            past.append(move.made("Landed", node, now, now + 1))
        if past:
            state = replace(state or RunState(), moves=(*(state.moves if state else ()), *past))
    recorded(folder, *observations, states=states)
    return made, state


def test_a_replay_of_what_rebalancer_did_gives_its_evictions_and_landings_back(tmp_path: Path) -> None:
    made, _ = acting_day(tmp_path)
    found = replay(Timeline.open(tmp_path), [("test", a_policy())], seed=1)
    run = run_of(found, "test")

    assert made
    assert [(move.pod, move.from_node, move.node) for item in run.moments for move in item.moves] == made
    assert found.happened.own_moves == len(made)
    nothing, as_recorded = run_of(found, NOTHING), run_of(found, RECORDED)
    assert [item.peak["cpu"] for item in nothing.moments] == [92.5] * 4  # what it did is undone
    assert [item.peak["cpu"] for item in as_recorded.moments][1:] == [
        item.peak["cpu"] for item in run.moments
    ][1:]


def test_the_rule_of_descheduler_evicts_from_nodes_above_its_targets(tmp_path: Path) -> None:
    timeline = recorded(tmp_path, an_observation(NOW, pods_on(HOT), USE))
    rule = LowNodeUtilization(thresholds=(50.0, 100.0), targets=(80.0, 100.0), by_requests=False)
    found = replay(timeline, [("test", a_policy())], seed=1, descheduler=rule)

    assert run_of(found, DESCHEDULER).evictions == 1
    limited = replace(rule, in_all=0)
    assert (
        run_of(replay(timeline, [("test", a_policy())], seed=1, descheduler=limited), DESCHEDULER).evictions
        == 0
    )


def test_a_damaged_moment_is_left_out_and_said(tmp_path: Path) -> None:
    timeline = recorded(tmp_path, *(an_observation(NOW + EVERY * at, pods_on(HOT), USE) for at in range(3)))
    (tmp_path / "20261120T120500.000Z.diff.zst").write_bytes(b"broken")
    found = replay(timeline, [("test", a_policy())], seed=1)

    assert len(found.left_out) == 1
    assert "20261120T120500.000Z.diff.zst" in found.left_out[0]
    assert len(run_of(found, NOTHING).moments) == 2


def test_a_timeline_of_which_no_moment_can_be_judged_is_refused(tmp_path: Path) -> None:
    observation = an_observation(NOW, pods_on(HOT), USE)
    timeline = recorded(tmp_path, replace(observation, now=NOW + 86_400.0))  # no figure is fresh

    with pytest.raises(InputError, match="no moment can be replayed"):
        replay(timeline, [("test", a_policy())], seed=1)


def test_frames_hold_every_moment_and_move(tmp_path: Path) -> None:
    timeline = recorded(tmp_path, *(an_observation(NOW + EVERY * at, pods_on(HOT), USE) for at in range(3)))
    found = replay(timeline, [("test", a_policy())], seed=1)
    moments, moves, hours = frames.moments(found), frames.moves(found), frames.hourly(found)

    assert len(moments) == 3 * len(found.runs)
    assert len(moves) == sum(run.evictions for run in found.runs)
    assert hours.loc[NOTHING, "hot_node_minutes"].sum() == pytest.approx(
        run_of(found, NOTHING).hot_node_minutes
    )


def test_nodes_that_the_judging_policy_never_calls_hot_have_no_hot_minutes(tmp_path: Path) -> None:
    timeline = recorded(tmp_path, *(an_observation(NOW + EVERY * at, pods_on(HOT), USE) for at in range(2)))
    only_b = "forRuns: 1, nodeSelector: {matchLabels: {kubernetes.io/hostname: b}}"
    judge = parse_policy(POLICY.replace("forRuns: 1", only_b), "judge.yaml")
    found = replay(timeline, [("test", judge)], seed=1)

    assert (run_of(found, NOTHING).hot_node_minutes, run_of(found, NOTHING).excess_minutes) == (0.0, 0.0)


PROMETHEUS = "load: {sources: [{prometheus: {address: 'http://p:9090'}}]}"


def test_a_policy_that_would_not_act_says_why_and_is_no_trial(tmp_path: Path) -> None:
    timeline = recorded(tmp_path, *(an_observation(NOW + EVERY * at, pods_on(HOT), USE) for at in range(3)))
    text = POLICY.replace("load: {sources: [{metricsServer: {}}]}", PROMETHEUS)
    found = replay(timeline, [("a", a_policy()), ("b", parse_policy(text, "b.yaml"))], seed=1)

    said = "would not act at 3 of 3 moments: "
    assert run_of(found, "b").refusal.startswith(said)
    assert "http://p:9090: not recorded" in run_of(found, "b").refusal
    assert [line for line in about(found) if "would not act" in line] == [f"b {run_of(found, 'b').refusal}"]
    block = Block(str(tmp_path), NOW, NOW + 2 * EVERY)
    tried, today = (evaluate(Task(block, policy, POLICY, "today.yaml", 1)) for policy in (text, POLICY))
    assert isinstance(tried, str)
    assert tried.startswith(said)
    assert isinstance(today, Figures)


def test_a_peak_that_is_not_known_is_a_dash_in_every_table(tmp_path: Path) -> None:
    timeline = recorded(tmp_path, an_observation(NOW, pods_on(HOT), USE))
    found = replay(timeline, [("test", a_policy())], seed=1)
    found = replace(found, runs=tuple(replace(run, peak={}) for run in found.runs))

    (row,) = (line for line in replay_table(found).plain.splitlines() if line.startswith("  test"))
    assert row.split()[3:5] == ["-", "-"]
    assert re.search(r'<td class="n"[^>]*>-</td><td class="n"[^>]*>-</td>', page_of(found))
