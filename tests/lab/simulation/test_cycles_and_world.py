from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from rebalancer.cluster.arrays import NodeRow
from rebalancer.planning.inputs import About, PlanningInputs, PlanWarning
from rebalancer.planning.landing.scenarios import NOWHERE, LandingDraws
from rebalancer.planning.planner import Planner
from rebalancer.reporting.render import to_json
from rebalancer.scheduling.framework.cycle import Placement
from rebalancer.scheduling.framework.start_index import RACED, TieBreak
from rebalancer.state.run_state import RunState
from rebalancer_lab.simulation.cycles import SimulationSettings, simulate
from rebalancer_lab.simulation.report import PolicyRun, Simulation
from rebalancer_lab.simulation.tables import simulation_table
from rebalancer_lab.simulation.world import LoadShape, PodLoad, SimulatedCluster
from tests.builders import a_node, a_pod, owned_by
from tests.conftest import some_of
from tests.unit.planning.builders import a_policy, a_workload, at, planning_inputs


def _inputs(**changes: object) -> PlanningInputs:
    """A hot node, and three with room; pods use what they request."""
    return planning_inputs(
        [a_node("hot"), a_node("a"), a_node("b"), a_node("c")],
        [
            a_workload("web", ["hot", "a", "b"], cpu="1500m"),
            a_workload("api", ["hot"], cpu="1"),
            a_workload("job", ["hot"], cpu="900m"),
        ],
        **changes,  # type: ignore[arg-type]
    )


def _run(inputs: PlanningInputs, **course: object) -> PolicyRun:
    return simulate([("test", inputs)], SimulationSettings(**course)).runs[0]  # type: ignore[arg-type]


def test_the_first_cycle_finds_exactly_what_was_recorded() -> None:
    inputs = _inputs()
    cluster = SimulatedCluster(inputs, LoadShape(), np.random.default_rng(0))
    seen = cluster.inputs(RunState())

    assert np.array_equal(seen.load.percent, inputs.load.percent)
    assert np.array_equal(seen.load.pod_usage, inputs.load.pod_usage)
    assert seen.snapshot.pods.uids == inputs.snapshot.pods.uids


def test_with_constant_load_a_cooled_cluster_is_left_alone() -> None:
    run = _run(_inputs(), cycles=8)

    assert [cycle.evictions for cycle in run.cycles] == [1, 0, 0, 0, 0, 0, 0, 0]
    assert (run.cycles[0].hot, run.after.hot, run.again, run.unexpected) == (1, 0, 0, 0)


def test_a_replacement_takes_its_load_along_and_is_a_new_pod() -> None:
    inputs = _inputs()
    cluster = SimulatedCluster(inputs, LoadShape(), np.random.default_rng(0))
    row = inputs.snapshot.pods.row["default", "web-0"]
    cluster.advance(600)
    cluster.place(row, inputs.snapshot.nodes.row["c"], int(inputs.snapshot.pods.pod_class[row]))
    cluster.advance(60)
    seen = cluster.inputs(RunState())

    nodes = inputs.snapshot.nodes.row
    assert seen.load.percent[nodes["hot"], 0] == inputs.load.percent[nodes["hot"], 0] - 37.5
    assert seen.load.percent[nodes["c"], 0] == 37.5
    assert seen.snapshot.pods.uids[row] != inputs.snapshot.pods.uids[row]
    assert seen.snapshot.pods.created[row] == inputs.now + 600


def test_lagging_metrics_show_a_move_little_by_little() -> None:
    inputs = _inputs()
    cluster = SimulatedCluster(inputs, LoadShape(lag_seconds=600), np.random.default_rng(0))
    cluster.advance(600)
    row = inputs.snapshot.pods.row["default", "web-0"]
    cluster.place(row, inputs.snapshot.nodes.row["c"], int(inputs.snapshot.pods.pod_class[row]))
    cool = inputs.snapshot.nodes.row["c"]
    shown = []
    for _ in range(3):
        cluster.advance(300)
        seen = cluster.inputs(RunState())
        shown.append(round(float(seen.load.percent[cool, 0]), 2))

    assert shown == [18.75, 37.5, 37.5]
    assert seen.load.window_seconds[cool, 0] == 600


def test_lag_does_not_make_the_rebalancer_evict_twice_for_the_same_heat() -> None:
    run = _run(_inputs(), cycles=6, interval_seconds=120, shape=LoadShape(lag_seconds=900))

    assert run.evictions == 1


def test_the_same_seed_gives_the_same_simulation_byte_for_byte() -> None:
    def simulated(seed: int) -> str:
        course = SimulationSettings(cycles=5, shape=LoadShape(0.2, 0.3, 300), seed=seed)
        return to_json(simulate([("test", _inputs())], course))

    assert simulated(3) == simulated(3)
    assert simulated(3) != simulated(4)


def test_noise_has_the_deviation_asked_for_and_no_load_is_negative() -> None:
    load = PodLoad(np.full((4000, 2), 100.0), LoadShape(noise=0.1), np.random.default_rng(0))
    for _ in range(30):
        load.step()

    assert abs(float(load.now().std()) - 10) < 0.5
    assert abs(float(load.now().mean()) - 100) < 0.5
    wild = PodLoad(np.full((4000, 2), 100.0), LoadShape(noise=1.0), np.random.default_rng(0))
    assert float(wild.now().min()) == 0.0


def test_the_daily_curve_peaks_after_six_hours() -> None:
    load = PodLoad(np.array([[100.0, 100.0]]), LoadShape(daily=0.5), np.random.default_rng(0))
    for _ in range(360):
        load.step()

    assert load.now().tolist() == [[150.0, 150.0]]


@pytest.mark.parametrize(("seconds", "times"), [(10.0, 2160), (90.0, 240), (600.0, 36)])
def test_the_curve_of_a_day_lasts_as_long_whatever_the_interval_is(seconds: float, times: int) -> None:
    inputs = _inputs()
    cluster = SimulatedCluster(inputs, LoadShape(daily=0.5), np.random.default_rng(0))
    for _ in range(times):
        cluster.advance(seconds)

    assert cluster.now == inputs.now + 6 * 3600
    assert cluster.percent()[0, 0] == pytest.approx(1.5 * inputs.load.percent[0, 0])


def test_what_was_moved_shows_after_less_than_a_step() -> None:
    inputs = _inputs()
    cluster = SimulatedCluster(inputs, LoadShape(), np.random.default_rng(0))
    nodes, pods = inputs.snapshot.nodes.row, inputs.snapshot.pods
    row = pods.row["default", "web-0"]
    cluster.place(row, nodes["c"], int(pods.pod_class[row]))
    cluster.advance(10)

    assert cluster.inputs(RunState()).load.percent[nodes["c"], 0] == 37.5


def test_landings_are_drawn_by_their_chances() -> None:
    placement = Placement(np.array([3, 7]), {}, np.array([0.25, 0.75]))
    draws = LandingDraws(np.random.default_rng(0))
    drawn = [draws.node(placement) for _ in range(4000)]

    assert set(drawn) == {3, 7}
    assert abs(drawn.count(NodeRow(7)) / 4000 - 0.75) < 0.03
    nothing = Placement(np.zeros(0, np.int64), {}, np.zeros(0))
    assert draws.node(nothing) == NOWHERE


def test_where_nothing_is_drawn_among_equal_nodes_all_landings_are_from_one_start() -> None:
    """From 1.35 on the searches of one scheduler start at the same node, and only a race leads elsewhere."""
    nodes = np.arange(10)
    tie = TieBreak(nodes, nodes, RACED)
    placement = Placement(nodes, {}, tie.chance(10), tie=tie)
    found = set()
    for seed in range(40):
        draws = LandingDraws(np.random.default_rng(seed))
        ((first, times), *_) = Counter(draws.node(placement) for _ in range(100)).most_common()
        found.add(first)
        assert times > 80
    assert len(found) > 5  # and which it is, is drawn


def test_a_pending_pod_is_scheduled_once_there_is_room() -> None:
    waiting = a_pod("late", cpu="3", owner=owned_by("ReplicaSet", "web"))
    twin_inputs = planning_inputs([a_node("a"), a_node("b")], [a_workload("web", ["a"])], pods=[waiting])
    run = simulate([("test", twin_inputs)], SimulationSettings(cycles=2)).runs[0]

    assert [cycle.pending for cycle in run.cycles] == [0, 0]


def test_a_pod_no_node_has_room_for_stays_pending_in_every_cycle() -> None:
    waiting = a_pod("huge", cpu="40", owner=owned_by("ReplicaSet", "web"))
    inputs = planning_inputs([a_node("a")], [a_workload("web", ["a"])], pods=[waiting])
    run = simulate([("test", inputs)], SimulationSettings(cycles=2)).runs[0]

    assert [cycle.pending for cycle in run.cycles] == [1, 1]


def test_a_run_that_may_not_act_says_why_and_evicts_nothing() -> None:
    inputs = _inputs(policy=a_policy(load={"minCoverage": "100%"}), load={"a": float("nan")})
    run = _run(inputs, cycles=2)

    assert run.evictions == 0
    assert all("minCoverage" in cycle.stopped for cycle in run.cycles)


def test_a_node_is_not_hot_by_pods_that_leave_before_the_next_run() -> None:
    leaving = a_pod("gone", node="hot", cpu="1500m", owner=owned_by("ReplicaSet", "old"))
    leaving["metadata"]["deletionTimestamp"] = at(20)
    inputs = planning_inputs(
        [a_node("hot"), a_node("a")], [a_workload("web", ["hot"], cpu="2")], pods=[leaving]
    )
    run = _run(inputs, cycles=2)

    assert not any(node.hot for node in Planner(inputs).plan().nodes)
    assert [(cycle.hot, cycle.over80, cycle.peak["cpu"]) for cycle in run.cycles] == [
        (0, 1, 87.5),
        (0, 0, 50.0),
    ]
    assert run.after.hot == 0


def test_a_figure_that_is_not_known_is_a_dash_and_never_zero() -> None:
    lacking = _inputs(policy=a_policy(load={"minCoverage": "100%"}), load={"a": float("nan")})
    unknown = _inputs(load=dict.fromkeys(["hot", "a", "b", "c"], float("nan")))
    simulation = simulate([("lacking", lacking), ("unknown", unknown)], SimulationSettings(cycles=1))
    known, nothing = (run.cycles[0] for run in simulation.runs)

    assert (known.hot, known.over80, known.peak["cpu"]) == (None, 1, 85.0)
    assert (nothing.hot, nothing.over80, "cpu" in nothing.peak) == (None, None, False)
    text = simulation_table(simulation).plain
    assert "nan" not in text
    (row,) = (line for line in text.splitlines() if line.startswith("  unknown"))
    assert row.split()[4:] == ["-", "→", "-"] * 4


def test_what_keeps_most_pods_is_said_where_no_setting_does() -> None:
    workloads = [a_workload("web", ["hot"] * 3, cpu="1"), a_workload("one", ["hot"], cpu="500m")]
    policy = a_policy(evictable={"protect": ["SingleReplica"]})
    alone = _run(planning_inputs([a_node("hot")], workloads, policy=policy), cycles=1)
    empty = _run(planning_inputs([a_node("hot")], [], load={"hot": 90.0}), cycles=1)

    assert alone.cycles[0].stopped.startswith("no node is feasible for its replacement")
    assert empty.cycles[0].stopped == "no pod on the hot nodes could ever move"


def test_the_table_warns_of_what_the_plans_would_warn_of() -> None:
    inputs = replace(_inputs(), warnings=(PlanWarning(About.LOAD, "the load of a is not known"),))
    text = simulation_table(simulate([("one", inputs), ("two", inputs)], SimulationSettings(cycles=1))).plain

    assert text.endswith("WARNINGS\n  the load of a is not known\n")


def test_a_node_must_be_hot_in_as_many_runs_as_the_policy_wants() -> None:
    rules = {"forRuns": 3, "any": [{"utilization": {"cpu": 80}, "coolTo": {"cpu": 65}}]}
    run = _run(_inputs(policy=a_policy(hotNodes=rules)), cycles=4)

    assert [cycle.evictions for cycle in run.cycles] == [0, 0, 1, 0]
    assert "hot in 1 of 3 required runs" in run.cycles[0].stopped


@pytest.mark.parametrize(
    "rules",
    [
        {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "a"}}},
        {
            "pools": [
                {"name": "p", "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "hot"}}, "any": []}
            ]
        },
    ],
)
def test_a_node_that_no_rule_may_call_hot_is_not_counted_as_hot(rules: dict[str, object]) -> None:
    levels = {"forRuns": 1, "any": [{"utilization": {"cpu": 30}, "coolTo": {"cpu": 20}}], **rules}
    inputs = _inputs(policy=a_policy(hotNodes=levels))
    run = _run(inputs, cycles=1)

    assert run.cycles[0].hot == Planner(inputs).plan().hot_count
    assert run.cycles[0].over80 == 1


def test_a_node_on_which_nothing_waits_is_not_counted_as_hot_by_a_rule_that_asks_for_that() -> None:
    rule = {"utilization": {"cpu": 30}, "coolTo": {"cpu": 20}, "pressure": {"cpu": 20}}
    inputs = _inputs(policy=a_policy(hotNodes={"forRuns": 1, "any": [rule]}))
    waiting = {"cpu": np.array([50.0 if name == "b" else 0.0 for name in inputs.snapshot.nodes.names])}
    run = _run(replace(inputs, load=replace(inputs.load, pressure=waiting)), cycles=1)

    assert run.cycles[0].hot == 1


def test_policies_are_compared_by_one_level_whatever_each_calls_hot() -> None:
    bold = {"any": [{"utilization": {"cpu": 20}, "coolTo": {"cpu": 10}}], "forRuns": 9}
    mild = {"any": [{"utilization": {"cpu": 99}, "coolTo": {"cpu": 90}}], "forRuns": 9}
    first, second = (_run(_inputs(policy=a_policy(hotNodes=rules)), cycles=1) for rules in (bold, mild))

    assert first.after.hot is not None
    assert second.after.hot is not None
    assert first.after.hot > second.after.hot
    assert first.after.over80 == second.after.over80 == first.cycles[0].over80 == 1


def test_policies_stand_side_by_side_in_a_table_of_eighty_columns() -> None:
    simulation = simulate(
        [("one", _inputs()), ("a policy with a rather long name of its own", _inputs())],
        SimulationSettings(cycles=3),
    )
    text = simulation_table(simulation).plain

    assert isinstance(simulation, Simulation)
    assert [run.policy for run in simulation.runs] == ["one", "a policy with a rather long name of its own"]
    assert simulation.runs[0].cycles == simulation.runs[1].cycles
    assert max(map(len, text.splitlines())) <= 80


def _hot_under_noise(seed: int = 0, **planning: str) -> PolicyRun:
    """Eighteen pods on three nodes of six, under a load that never comes to rest."""
    nodes = [a_node(f"n{number}", cpu=10) for number in range(6)]
    workloads = [
        a_workload(f"w{number}", [f"n{number % 3}", f"n{(number + 1) % 3}"], cpu="1") for number in range(9)
    ]
    rules = {"any": [{"utilization": {"cpu": 60}, "coolTo": {"cpu": 50}}]}
    inputs = planning_inputs(nodes, workloads, policy=a_policy(hotNodes=rules, planning=planning))
    shape = LoadShape(noise=0.8, lag_seconds=900)
    return _run(inputs, cycles=40, interval_seconds=900, shape=shape, seed=seed)


@pytest.mark.many_cases
def test_under_noise_and_lag_no_workload_is_moved_twice_within_its_cooldown() -> None:
    """Neither by the simulation's own check nor by counting, where each move doubles the cooldown."""
    repeated = 0
    for seed in some_of((4, 0, 1, 2, 3, 5)):
        run = _hot_under_noise(seed, cooldown="40m")
        moved: dict[str, list[int]] = {}
        for cycle in run.cycles:
            for workload in {move.workload for move in cycle.moves}:
                moved.setdefault(workload, []).append(cycle.cycle)
        for cycles in moved.values():
            for number, (earlier, later) in enumerate(itertools.pairwise(cycles)):
                repeated += 1
                assert (later - earlier) * 900 >= 2400 * 2**number
        assert run.again == 0
    assert repeated >= 3  # otherwise nothing was checked


def test_the_check_of_cooldowns_sees_a_second_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that forgets its moves is found out: the check keeps a history of its own."""
    monkeypatch.setattr("rebalancer_lab.simulation.cycles.after_moves", lambda state, *_: state)
    assert any(_hot_under_noise(seed).again for seed in range(3))
