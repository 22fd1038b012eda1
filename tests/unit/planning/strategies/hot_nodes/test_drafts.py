"""What drafts promise: landings as the scheduler decides, limits that hold, and the same drafts each time."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from bench.loaded_clusters import loaded_inputs
from bench.packed_clusters import watched
from bench.random_clusters import NOW, random_inputs
from rebalancer.cluster.arrays import IntArray, NodeRow
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.planning.builder import PlanBuilder
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.inputs import PlanningInputs, RunSoFar
from rebalancer.planning.landing.evaluation import Candidate
from rebalancer.planning.planner import Planner
from rebalancer.planning.prepared import PreparedInputs, prepare
from rebalancer.planning.strategies.hot_nodes import drafts as drafts_module
from rebalancer.planning.strategies.hot_nodes.drafting import DraftStart
from rebalancer.planning.strategies.hot_nodes.drafts import Drafts, can_be_drafted
from rebalancer.planning.strategies.hot_nodes.movable import MovablePods
from rebalancer.planning.strategies.hot_nodes.search import ReliefSearch
from rebalancer.planning.taints import EMPTIED, HOT
from rebalancer.profiles.types import PluginDescription, RawArguments, extension_points
from rebalancer.scheduling.framework.cycle import Placement, Scheduler
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.lanes import LanePod, Lanes, LaneTables
from rebalancer.scheduling.registry import load_configuration, make_scheduler, plugin_queries
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node
from tests.conftest import some_of
from tests.rows import rows
from tests.unit.planning.builders import a_policy, a_workload, planning_inputs, with_scheduler

STEPS = 12
FULLEST = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}
"""


def movable(prepared: PreparedInputs) -> dict[NodeRow, list[Candidate]]:
    hot = map(NodeRow, np.flatnonzero(prepared.hotness.hot).tolist())
    return {
        node: [
            prepared.candidate(row)
            for row in prepared.pods_on(node)
            if why_protected(prepared.eviction, row) is None
        ]
        for node in hot
    }


def likely(placement: Placement) -> list[int]:
    return sorted(placement.feasible[placement.chance > 0].tolist())


def with_version(version: str, inputs: PlanningInputs) -> PlanningInputs:
    scheduler = replace(inputs.schedulers[0], version=version)
    return replace(inputs, schedulers=(scheduler,))


# Clusters 3 and 7 are larger; one of them comes first, so that it is always tried.
WALKS = list(itertools.product([3, 0, 1, 2, 4, 5, 6, 7], ["1.31", "1.34", "1.36"]))


@pytest.mark.many_cases
@pytest.mark.parametrize(("seed", "version"), some_of(WALKS))
def test_a_pod_lands_in_a_lane_where_the_scheduler_places_it(seed: int, version: str) -> None:
    inputs = loaded_inputs(100 + seed) if seed % 4 == 3 else random_inputs(seed, 0.65)
    walk(with_version(version, inputs), seed)


def walk(inputs: PlanningInputs, seed: int) -> None:
    """Compare along random moves: with the pod terminating, and once it is gone."""
    prepared = prepare(inputs)
    state = prepared.start.all[0].after_termination.copy()
    pods = [pod for of_node in movable(prepared).values() for pod in of_node]

    def scheduler(kind: int) -> Scheduler:
        return prepared.schedulers.scheduler(kind)

    lane_pods = [LanePod(pod.row, pod.replacement, pod.source) for pod in pods]
    tables = LaneTables(state, lane_pods, scheduler)
    assert np.count_nonzero(tables.is_known) > len(pods) / 2
    lanes = Lanes(tables, 2)
    lane = np.array([1])
    random = np.random.default_rng(seed)
    for at in random.permutation(np.flatnonzero(tables.is_known))[:STEPS].tolist():
        pod = pods[at]
        number = np.array([at])
        lanes.terminate(lane, number)
        state.evict(pod.row)
        placed = scheduler(pod.replacement).place(state, pod.replacement)
        assert np.flatnonzero(lanes.place(lane, number)[0]).tolist() == likely(placed)
        lanes.terminate(lane, number, -1)
        state.restore(pod.row, pod.source)
        lanes.remove(lane, number)
        state.remove(pod.row)
        placed = scheduler(pod.replacement).place(state, pod.replacement)
        nodes = likely(placed)
        assert np.flatnonzero(lanes.place(lane, number)[0]).tolist() == nodes
        if nodes:
            target = int(random.choice(nodes))
            lanes.land(lane, number, np.array([target]))
            state.bind(state.add(pod.replacement), target)
        else:
            lanes.remove(lane, number, -1)
            state.restore(pod.row, pod.source)
    lanes.begin_anew(lane)
    first = prepared.start.all[0].after_termination
    every = np.flatnonzero(tables.is_known)[:STEPS]
    for at in every.tolist():
        placed = scheduler(pods[at].replacement).place(first, pods[at].replacement)
        assert np.flatnonzero(lanes.place(lane, np.array([at]))[0]).tolist() == likely(placed)


def profile(plugins: str) -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
{plugins}
"""


PACKING = profile("""\
  plugins: {score: {enabled: [{name: TargetLoadPacking, weight: 5}]}}
  pluginConfig: [{name: TargetLoadPacking, args: {watcherAddress: "http://w", targetUtilization: 60}}]""")
FEWEST_PODS = profile("  plugins: {score: {enabled: [{name: PodCapacityOfNode, weight: 7}]}}")
TRAFFIC = profile("""\
  plugins: {score: {enabled: [{name: NetworkTraffic, weight: 3}]}}
  pluginConfig: [{name: NetworkTraffic, args: {ip: "http://p", deviceName: eth0, timeRange: 5}}]""")
PREFERENCES = profile("""\
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 3, preference: {matchExpressions: [{key: zone, operator: In, values: [zone-1]}]}}
        - {weight: 2, preference: {matchExpressions: [{key: zone, operator: NotIn, values: [zone-0]}]}}""")


def scheduled_by(configuration: str, inputs: PlanningInputs, window_end: float = NOW) -> PlanningInputs:
    """The inputs where a scheduler with load-watcher's figures and Prometheus' places the pods."""
    names = inputs.snapshot.nodes.names
    traffic = {name: 1000.0 * (7 * at % 11) for at, name in enumerate(names)}
    loaded = load_configuration(configuration, "test")
    queries = {(query.address, query.query): traffic for query in plugin_queries(loaded)}
    view = SchedulerView({"http://w": watched(inputs, window_end)}, queries=queries)
    (scheduler,) = inputs.schedulers
    return replace(inputs, schedulers=(replace(scheduler, configuration=loaded, view=view),))


@pytest.mark.parametrize(
    ("configuration", "window_end"),
    [(PACKING, NOW), (PACKING, 0.0), (FEWEST_PODS, NOW), (TRAFFIC, NOW), (PREFERENCES, NOW)],
    ids=["packing", "packing without new pods", "fewest pods", "traffic", "preferences"],
)
def test_a_pod_lands_in_a_lane_where_a_scheduler_with_other_scores_places_it(
    configuration: str, window_end: float
) -> None:
    """Those of the articles, and one that compares static scores of the nodes that are feasible."""
    for seed in range(3):
        walk(scheduled_by(configuration, random_inputs(seed, 0.65), window_end), seed)


def test_a_scheduler_that_packs_counts_pods_that_another_one_places() -> None:
    nodes = [a_node(name, cpu=cores) for name, cores in (("a", 8), ("b", 9), ("c", 10), ("d", 11))]
    packed = {"schedulerName": "packing"}
    workloads = [
        *(a_workload(f"plain-{at}", ["a"], cpu="900m") for at in range(4)),
        *(a_workload(f"packed-{at}", ["a"], cpu="900m", spec=packed) for at in range(4)),
    ]
    two = PACKING.replace("- schedulerName: default-scheduler\n", "- schedulerName: packing\n", 1)
    inputs = planning_inputs(nodes, workloads, policy=a_policy())
    inputs = scheduled_by(f"{two}- schedulerName: default-scheduler\n", inputs)
    inputs = with_scheduler(inputs, acts_on=("default-scheduler", "packing"))
    for seed in range(20):
        walk(inputs, seed)


def twice(configuration: str) -> str:
    """The same with a second profile like the first."""
    _, _, first = configuration.partition("profiles:")
    return f"{configuration}{first.replace('default-scheduler', 'second')}"


def packed_twice(configuration: str) -> PlanningInputs:
    nodes = [a_node(name, cpu=cores) for name, cores in (("a", 8), ("b", 9), ("c", 10), ("d", 11))]
    workloads = [
        *(a_workload(f"one-{at}", ["a"], cpu="900m") for at in range(4)),
        *(a_workload(f"two-{at}", ["a"], cpu="900m", spec={"schedulerName": "second"}) for at in range(4)),
    ]
    inputs = scheduled_by(configuration, planning_inputs(nodes, workloads, policy=a_policy()))
    return with_scheduler(inputs, acts_on=("default-scheduler", "second"))


def test_pods_of_two_profiles_that_pack_alike_are_drafted_together() -> None:
    inputs = packed_twice(twice(PACKING))
    prepared = prepare(inputs)
    state = prepared.start.all[0].after_termination
    assert tables_of(prepared, state, prepared.schedulers.scheduler).is_known.tolist() == [True] * 8
    walk(inputs, 0)


def test_pods_whose_scores_may_fail_their_cycle_are_in_no_draft() -> None:
    """The scheduler places no pod where a score of a node that it compares is outside 0..100."""
    negative = PACKING.replace("targetUtilization: 60", 'defaultRequestsMultiplier: "-1"')
    prepared = prepare(packed_twice(twice(negative)))
    state = prepared.start.all[0].after_termination
    assert not tables_of(prepared, state, prepared.schedulers.scheduler).is_known.any()


def test_a_pod_lands_in_a_lane_on_each_node_that_one_of_several_sizes_of_its_image_leads_to() -> None:
    """Which of the sizes counts that nodes report, as those of several architectures do, nobody knows."""
    for seed in range(10):
        random = np.random.default_rng(seed)
        nodes = [a_node(name, cpu=int(random.integers(8, 12))) for name in "abcdef"]
        for node in nodes:
            names = random.permutation(["app:v1", "sidecar:v1"])[: random.integers(3)].tolist()
            node["status"]["images"] = [
                {"names": [name], "sizeBytes": int(random.choice([300, 600, 900])) << 20} for name in names
            ]
        sidecar = [{"name": "sidecar", "image": "sidecar:v1"}]
        workloads = [
            *(a_workload(f"web-{at}", ["a"], cpu="900m") for at in range(4)),
            *(a_workload(f"api-{at}", ["b"], cpu="2", spec={"initContainers": sidecar}) for at in range(3)),
        ]
        load = {"a": 90.0, "b": 90.0}
        inputs = planning_inputs(nodes, workloads, policy=a_policy(), load=load)
        walk(with_version("1.36", inputs), seed)


def test_a_pod_whose_limit_no_machine_could_give_is_drafted_beside_others() -> None:
    """The API server takes such limits, and TargetLoadPacking adds those of pods that its window lacks."""
    nodes = [a_node(name, cpu=cores) for name, cores in (("a", 8), ("b", 9), ("c", 10))]
    requested = {"requests": {"cpu": "900m"}, "limits": {"cpu": "9223372036854775807"}}
    containers = [{"name": name, "resources": requested} for name in ("one", "two")]
    workloads = [
        *(a_workload(f"plain-{at}", ["a"], cpu="900m") for at in range(4)),
        *(a_workload(f"huge-{at}", ["a"], spec={"containers": containers}) for at in range(2)),
    ]
    inputs = planning_inputs(nodes, workloads, policy=a_policy())
    for window_end in (NOW, 0.0):
        for seed in range(5):
            walk(scheduled_by(PACKING, inputs, window_end), seed)


def drafts_of(prepared: PreparedInputs) -> tuple[Drafts, MovablePods]:
    pods = MovablePods(prepared, prepared.disruption, movable(prepared))
    asked = prepared.policy.planning.level.least_relief
    start = PlanBuilder(prepared, ())
    least = pods.least(asked, pods.percent(start))
    return Drafts(DraftStart(prepared, pods, start, least, asked)), pods


def test_the_same_cluster_has_the_same_drafts_and_another_search_has_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drafts_module, "_PLACEMENTS", 2000)
    prepared = prepare(random_inputs(2, 0.65))
    found = [drafts_of(prepared)[0].search((), number).best for number in (0, 0, 1)]
    assert found[0]
    assert found[0] == found[1] != found[2]


def test_drafts_move_no_more_than_limits_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts_module, "_PLACEMENTS", 4000)
    inputs = random_inputs(2, 0.65)
    limits = inputs.policy.limits.model_copy(update={"per_node": 2, "per_run": 9})
    policy = inputs.policy.model_copy(update={"limits": limits})
    drafts, pods = drafts_of(prepare(replace(inputs, policy=policy)))
    found = drafts.search((), 0).best
    moves = [len(draft.order) for draft in found]
    assert max(moves) == 9
    for draft in found:
        sources = Counter(pods.candidates[pod].source for pod in draft.order)
        assert max(sources.values()) <= 2
        assert len(set(draft.order)) == len(draft.order)


def limited(inputs: PlanningInputs, **limits: int) -> PlanningInputs:
    changed = inputs.policy.limits.model_copy(update=limits)
    return replace(inputs, policy=inputs.policy.model_copy(update={"limits": changed}))


def test_drafts_move_no_pod_that_a_limit_keeps_which_is_used_up() -> None:
    inputs = random_inputs(1, 0.65)
    made = tuple(Planner(limited(inputs, per_run=10, per_node=2)).plan().moves)
    prepared = Planner(limited(inputs, per_run=30, per_node=2), RunSoFar(made=made)).prepared
    used_up = {node for node, number in Counter(move.from_node for move in made).items() if number == 2}
    assert used_up
    drafts, pods = drafts_of(prepared)
    found = drafts.search((), 0).best
    left = {prepared.nodes.names[pods.candidates[pod].source] for draft in found for pod in draft.order}
    assert left
    assert not left & used_up


def test_there_are_no_drafts_once_the_run_may_move_no_more() -> None:
    inputs = limited(random_inputs(1, 0.65), per_run=2)
    made = tuple(Planner(inputs).plan().moves)
    prepared = Planner(inputs, RunSoFar(made=made)).prepared
    pods = MovablePods(prepared, prepared.disruption, movable(prepared))
    assert ReliefSearch(prepared, pods, PlanBuilder(prepared, ())).drafts() is None


def test_later_drafts_go_on_from_moves_without_which_a_plan_is_far_worse() -> None:
    """Two moves of the plan that is made first do not pay; without them a dozen others no longer hold."""
    prepared = prepare(random_inputs(2, 0.65, 20))
    pods = MovablePods(prepared, prepared.disruption, movable(prepared))
    search = ReliefSearch(prepared, pods, PlanBuilder(prepared, ()))
    drafts = search.drafts()
    assert drafts is not None
    greedy = search.plan()
    first_round = search.best_draft(drafts, greedy, range(12, 13))
    three_rounds = search.best_draft(drafts, greedy, range(12, 15))
    assert three_rounds.quality[0] < 0.7 * first_round.quality[0]


def test_a_draft_holds_when_it_is_made_a_plan() -> None:
    """Where no two nodes are equally good: each of its moves is accepted, and lands where it says."""
    prepared = prepare(random_inputs(1, 0.75))
    drafts, pods = drafts_of(prepared)
    start = PlanBuilder(prepared, ())
    best = drafts.search((), 0).best[0]
    assert best.moves
    certain = 0
    for move in best.moves:
        candidate = pods.candidates[move.pod]
        assert start.try_move(candidate) is None
        landing = start.moves[-1].evaluation.landings()
        assert set(move.nodes) <= set(landing.rows.tolist())
        certain += len(landing.rows) == 1
    assert certain > len(best.moves) / 2


@rows("make", [lambda: loaded_inputs(101), lambda: loaded_inputs(104), lambda: random_inputs(2, 0.65)])
def test_a_draft_holds_where_nodes_are_equally_good(make: Callable[[], PlanningInputs]) -> None:
    """Drafts are made again in as many courses as the plan follows before one of them is handed on."""
    prepared = prepare(make())
    drafts, pods = drafts_of(prepared)
    builder = PlanBuilder(prepared, ())
    for move in drafts.search((), 0).best[0].moves:
        assert builder.try_move(pods.candidates[move.pod]) is None
    assert any(len(move.evaluation.landings().rows) > 1 for move in builder.moves)


def tables_of(
    prepared: PreparedInputs, state: ClusterState, schedulers: Callable[[int], Scheduler]
) -> LaneTables:
    pods = [pod for of_node in movable(prepared).values() for pod in of_node]
    lane_pods = [LanePod(pod.row, pod.replacement, pod.source) for pod in pods]
    return LaneTables(state, lane_pods, schedulers)


@rows(
    "change",
    [
        lambda state: state.nominate(0, 0),
        lambda state: state.taint(EMPTIED, [0]),
        lambda state: state.taint(HOT, [0]),
    ],
)
def test_pods_are_in_no_draft_where_the_state_has_what_lanes_do_not_count(
    change: Callable[[ClusterState], None],
) -> None:
    """Room that is kept for a pod which preempts others, and taints of this program."""
    prepared = prepare(random_inputs(1, 0.65))
    state = prepared.start.all[0].after_termination.copy()
    assert tables_of(prepared, state, prepared.schedulers.scheduler).is_known.any()
    change(state)
    assert not tables_of(prepared, state, prepared.schedulers.scheduler).is_known.any()


TAINTED = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


@rows("traffic", [{"a": 5.0, "b": 3.0}, {"a": 0.0, "b": 0.0}])
@rows("taints, are_known", [(TAINTED, True), ([], False)])
def test_pods_are_drafted_unless_a_node_that_may_be_feasible_would_fail_their_cycle(
    taints: list[dict[str, str]], are_known: bool, traffic: dict[str, float]
) -> None:
    """One without a value fails it as soon as a pod that leaves makes room there."""
    nodes = [a_node("a", cpu=8), a_node("b", cpu=8), a_node("c", cpu=1, ready=False, taints=taints)]
    workloads = [a_workload(f"web-{at}", ["a"], cpu="1900m") for at in range(4)]
    inputs = scheduled_by(TRAFFIC, planning_inputs(nodes, workloads, policy=a_policy()))
    view = inputs.schedulers[0].view
    queries = dict.fromkeys(view.queries, traffic)
    prepared = prepare(with_scheduler(inputs, view=replace(view, queries=queries)))
    state = prepared.start.all[0].after_termination

    tables = tables_of(prepared, state, prepared.schedulers.scheduler)

    assert len(tables.is_known)
    assert tables.is_known.all() == tables.is_known.any() == are_known


class OutOfRangeOnC(Plugin):
    """A score of somebody's own, which the scheduler refuses on the third node."""

    name = "Mine"
    static = True

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        return np.where(feasible == 2, 150, 50)


@rows("taints, are_known", [(TAINTED, True), ([], False)])
def test_pods_are_drafted_unless_a_node_that_may_be_feasible_has_a_score_out_of_range(
    taints: list[dict[str, str]], are_known: bool
) -> None:
    """One that has no room yet."""
    nodes = [a_node("a", cpu=8), a_node("b", cpu=8), a_node("c", cpu=1, taints=taints)]
    workloads = [a_workload(f"web-{at}", ["a"], cpu="1900m") for at in range(4)]
    inputs = planning_inputs(nodes, workloads, policy=a_policy())
    points = extension_points("score")
    mine = PluginDescription("Mine", points, RawArguments, frozenset(), make=lambda *_: OutOfRangeOnC())
    enabled = profile("  plugins: {score: {enabled: [{name: Mine}]}}")
    configuration = load_configuration(enabled, "test", extra_plugins=[mine])
    prepared = prepare(with_scheduler(inputs, configuration=configuration))
    state = prepared.start.all[0].after_termination

    tables = tables_of(prepared, state, prepared.schedulers.scheduler)

    assert tables.is_known.any() == are_known


def test_pods_of_profiles_that_score_by_other_formulas_share_no_tables() -> None:
    prepared = prepare(random_inputs(1, 0.65))
    state = prepared.start.all[0].after_termination.copy()
    fullest = load_configuration(FULLEST, "test")
    (profile,) = fullest.profiles
    other = make_scheduler(fullest, profile, next(iter(prepared.schedulers.plugin_inputs.values())))
    one = prepared.schedulers.scheduler
    alone = tables_of(prepared, state, one).is_known
    kinds = [pod.replacement for of_node in movable(prepared).values() for pod in of_node]
    first = kinds[int(np.flatnonzero(alone)[0])]

    both = tables_of(prepared, state, lambda kind: one(kind) if kind == first else other)

    assert both.is_known.tolist() == [
        known and kind == first for known, kind in zip(alone, kinds, strict=True)
    ]
    assert tables_of(prepared, state, lambda _: other).is_known.any()


@rows("pods, nodes, can_be", [(1, 10, True), (100, 60, True), (0, 10, False), (2000, 5000, False)])
def test_tables_are_made_only_for_as_many_pods_as_drafts_can_afford(
    pods: int, nodes: int, can_be: bool
) -> None:
    assert can_be_drafted(pods, nodes) == can_be
