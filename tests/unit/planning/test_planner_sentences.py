"""Every sentence that leaves a plan is whole, whatever the cluster: no figure, name or list is missing."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bench.random_clusters import random_inputs
from rebalancer.execution.events import EventWriter, PlacedAgain, journaled
from rebalancer.execution.journal import Journal
from rebalancer.planning.inputs import PlanningInputs, RunSoFar
from rebalancer.planning.plan import Move, Plan, Progress
from rebalancer.planning.planner import Planner
from tests.conftest import examples
from tests.rows import rows
from tests.unit.execution.fake_api import Answer, fake_api
from tests.unit.planning.builders import NOW, a_policy, plan_of, planning_inputs
from tests.unit.planning.random_clusters import clusters

GAPS = {
    "an empty part before a separator": re.compile(r"\s[;,:]|[;,:(]\s*[;,:)]"),
    "empty brackets": re.compile(r"\(\s*\)|\[\s*\]"),
    "a double space": re.compile(r"  "),
    "a separator at an end": re.compile(r"^[\s;,:.)]|[\s;,:(]$"),
    "a word that wants another": re.compile(
        r"\b(?:is|are|at|of|by|to|for|from|above|below|and|or|than|the|a|least|with)(?:[;,:)]|$)|\band and\b"
    ),
    "a unit without a figure": re.compile(r"(?<!\d)(?<!\d )%"),
    "a value of Python": re.compile(r"\b(?:None|nan|inf|True|False)\b|[{\[]'"),
}

RULES: Sequence[Mapping[str, Any]] = (
    {"utilization": {"cpu": 80, "pods": 90}, "coolTo": {"cpu": 65}},
    {"utilization": {"cpu": 80, "memory": 85}, "coolTo": {"cpu": 65, "memory": 60}},
    {"utilization": {"memory": 70}, "coolTo": {"memory": 30}},
    {"deviation": {"cpu": 20}, "coolTo": {"cpu": 5}, "floor": {"cpu": 40}},
)
STRATEGIES: Mapping[str, Any] = {
    "duplicates": True,
    "misplaced": True,
    "lifetime": {"maxAge": "1h"},
    "consolidation": True,
    "topologySpread": True,
    "fragmentation": True,
}


# ``evictable.protect: []``: a key of the policy with an empty list for its value lacks nothing.
EMPTY_LIST = re.compile(r"\b[a-z]\w*(?:\.\w+)+: \[\](?!\w)")


def gaps(sentence: str) -> list[str]:
    """What is missing in a sentence."""
    told = EMPTY_LIST.sub("key: value", sentence)
    return [name for name, pattern in GAPS.items() if pattern.search(told)]


def texts(value: object) -> Iterator[str]:
    """Every text within a value as it is written to JSON, the keys of maps left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from texts(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from texts(member)


def sentences(value: object) -> set[str]:
    """The texts of more than one word in a value such as a plan."""
    return {text for text in texts(msgspec.to_builtins(value)) if re.search(r"\s", text)}


def of_events(plan: Plan, moves: Sequence[Move]) -> set[str]:
    """The notes of the Kubernetes Events on what a run does with a plan."""
    api, transport = fake_api(lambda _request: Answer(201, {}))
    writer = EventWriter(api, "run-1", lambda: NOW)
    for move in moves:
        writer.evicted(move)
    writer.cannot_be_cooled(plan.unsolved)
    return {request.body["note"] for request in transport.requests}


def of_journal(moves: Sequence[Move]) -> set[str]:
    """The sentences of the journal about moves that were placed again."""
    stream = io.StringIO()
    journal = Journal(stream, "run-1", lambda: NOW)
    for move in moves:
        journaled(journal, PlacedAgain(move))
    return {text for line in stream.getvalue().splitlines() for text in sentences(msgspec.json.decode(line))}


def looked_at_again(situation: Situation, plan: Plan) -> tuple[set[str], list[Move]]:
    """What is answered when moves of the plan are judged some time later, and the moves that hold.

    They are judged before any is made, after half of them have landed, and one after the other in a wave.
    """
    later = situation.later
    moves = plan.moves
    answers: list[str | Move] = []
    for count in {0, len(moves) // 2}:
        made = moves[:count]
        left = moves[count:]
        past = [move.made("Landed", move.likeliest.node, later.now, later.now) for move in made]
        answers += (
            Planner(later, RunSoFar(moved=tuple(past))).recheck(left, Progress(made=made, left=left)).values()
        )
    planner = Planner(later)
    for number, move in enumerate(moves):
        answers.append(planner.landed_well(plan, move, situation.landing) or "")
        landed = [(earlier, earlier.likeliest.node) for earlier in moves[:number] if earlier.landings]
        progress = Progress(made=moves[:number], left=moves[number + 1 :])
        answers.append(planner.next_in_wave(landed, move, progress))
    holding = [answer for answer in answers if isinstance(answer, Move)]
    return sentences(answers), holding


@dataclass
class Situation:
    """A cluster, the same with other loads some time later, and the name of one of its nodes."""

    now: PlanningInputs = field(repr=False)
    later: PlanningInputs = field(repr=False)
    landing: str


@st.composite
def odd_situations(draw: st.DrawFn) -> Situation:
    """Small clusters of every kind of workload, with the oddest policies: few pods can be moved."""
    cluster = draw(clusters())
    rules = draw(st.lists(st.sampled_from(RULES), min_size=1, max_size=3, unique_by=id))
    strategies = draw(st.lists(st.sampled_from(list(STRATEGIES)), max_size=2, unique=True))
    planning = {"partialRelief": draw(st.booleans()), "aggressiveness": draw(st.sampled_from([1, 3, 5]))}
    policy = {
        **cluster.policy,
        "hotNodes": {"forRuns": 1, "any": rules},
        "strategies": {name: STRATEGIES[name] for name in strategies},
        "planning": {**cluster.policy["planning"], **planning},
    }
    names = [node["metadata"]["name"] for node in cluster.nodes]
    levels = [None, 20.0, 55.0, 67.0, 72.0, 85.0, 95.0]

    def at_some_time() -> PlanningInputs:
        load: dict[str, float | tuple[float, float]] = {}
        for name in names:
            cpu = draw(st.sampled_from(levels))
            memory = draw(st.sampled_from([10.0, 50.0, 68.0, 90.0]))
            if name in cluster.load and cluster.load[name] != cluster.load[name]:
                load[name] = cluster.load[name]
            elif cpu is not None:
                load[name] = (cpu, memory)
        return planning_inputs(
            cluster.nodes,
            cluster.workloads,
            poddisruptionbudgets=cluster.budgets,
            load=load,
            pod_load=cluster.pod_load,
            policy=a_policy(**policy),
        )

    return Situation(at_some_time(), at_some_time(), draw(st.sampled_from(names)))


def busy_inputs(
    seed: int, mean_load: float | None, rules: Sequence[Mapping[str, Any]], **planning: Any
) -> PlanningInputs:
    """Five nodes, by their number and load; ``planning`` are settings of the policy."""
    policy = a_policy(hotNodes={"forRuns": 1, "any": rules}, planning=planning)
    return replace(random_inputs(seed, mean_load, nodes=5), policy=policy)


@st.composite
def busy_situations(draw: st.DrawFn) -> Situation:
    """Clusters whose nodes are hot by cpu or memory: many pods move, and loads rise or fall meanwhile."""
    inputs = busy_inputs(
        draw(st.integers(0, 500)),
        draw(st.sampled_from([None, 0.55, 0.65])),
        draw(st.lists(st.sampled_from(RULES), min_size=1, max_size=3, unique_by=id)),
        minGain=draw(st.sampled_from([0, 5])),
        partialRelief=draw(st.booleans()),
        aggressiveness=draw(st.sampled_from([1, 5])),
    )
    times_as_much = draw(st.sampled_from([0.8, 0.9, 1.0, 1.1]))
    load = inputs.load
    load = replace(load, usage=load.usage * times_as_much, pod_usage=load.pod_usage * times_as_much)
    landing = draw(st.sampled_from(inputs.snapshot.nodes.names))
    return Situation(inputs, replace(inputs, load=load), landing)


@settings(max_examples=examples(64), deadline=None)
@given(st.one_of(odd_situations(), busy_situations()))
def test_no_sentence_of_a_plan_or_of_what_becomes_of_it_lacks_a_part(
    situation: Situation,
) -> None:
    plan = plan_of(situation.now)
    answers, holding = looked_at_again(situation, plan)
    every = sentences(plan) | answers
    moves = [*plan.moves, *holding]
    every |= of_events(plan, moves) | of_journal(moves)

    assert {sentence: gaps(sentence) for sentence in sorted(every) if gaps(sentence)} == {}


# A draft of its plan would move a pod off a node that its other moves have made cool.
_COOLED = busy_inputs(209, 0.55, RULES[:2], minGain=0, partialRelief=True, aggressiveness=1)
SOON_COOL = Situation(_COOLED, _COOLED, "node-00")


@settings(max_examples=examples(60), deadline=None)
@given(busy_situations())
@example(SOON_COOL)
def test_the_reason_of_a_move_off_a_hot_node_names_a_level_above_its_cool_to(
    situation: Situation,
) -> None:
    plan = plan_of(situation.now)
    _, holding = looked_at_again(situation, plan)
    for move in (*plan.moves, *holding):
        if move.strategy != "hotNodes" or move.makes_room_for:
            continue
        reason = move.because.partition("; ")[0]
        assert reason.startswith(f"{move.from_node} is at ")
        levels = re.findall(r"([\d.]+) % \w+ \(cool at ([\d.]+) %\)", reason)
        assert levels, move.because
        assert all(float(percent) >= float(cool) for percent, cool in levels), move.because


@rows(
    "sentence",
    [
        "node-1 is at ; its replacement will be placed on node-4",
        "its replacement will be placed on b, a gain of at least ",
        "no replica is left in zone  (50%)",
        "kept by perRun ()",
        "limits: ; and perNode",
        "a is at % cpu",
        "a is at nan % cpu",
        "; its replacement will be placed on b",
        "freed by evictable.protect: ",
        "freed by [], or the annotation",
        "freed by evictable.protect: [], or ",
    ],
)
def test_a_sentence_that_lacks_a_part_is_recognised(sentence: str) -> None:
    assert gaps(sentence)


def test_a_setting_with_an_empty_list_lacks_nothing() -> None:
    assert not gaps("freed by evictable.protect: [], or the annotation a/b: c on the pod")
