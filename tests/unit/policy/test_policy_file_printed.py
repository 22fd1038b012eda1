"""A policy that is printed reads back as the same policy."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.planning.strategies.misplaced import Misplaced
from rebalancer.policy.hotness import DeviationRule, HotNodes, ScoreRule, ScoreThreshold, UtilizationRule
from rebalancer.policy.load_sources import (
    LoadWatcher,
    LoadWatcherSource,
    MetricsServer,
    MetricsServerSource,
    Recorded,
    RecordedSource,
    Requests,
    RequestsSource,
)
from rebalancer.policy.policy_file import parse_policy
from rebalancer.policy.schedulers import SchedulerSettings
from rebalancer.policy.schema import (
    Evictable,
    Execution,
    Limits,
    LoadSettings,
    Metadata,
    Namespaces,
    Planning,
    Protection,
    RebalancePolicy,
    Safety,
)
from rebalancer.policy.units import Amount
from tests.rows import rows
from tests.unit.policy.policy_texts import HEAD, read, read_back

names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=12)
unique_names = st.lists(names, max_size=3, unique=True).map(tuple)
namespaces = st.sampled_from(["shop", "kube-system", "a-1", "b"])
durations = st.integers(1, 10**9).map(lambda milliseconds: milliseconds / 1000)
percentages = st.integers(0, 10_000).map(lambda hundredths: hundredths / 10_000)
amounts = st.builds(Amount, st.integers(0, 100), st.booleans())
resources = st.sampled_from(["cpu", "memory", "pods"])
levels = st.dictionaries(resources, st.floats(1, 100), min_size=1)


@st.composite
def rules(draw: st.DrawFn) -> Any:
    thresholds: dict[Any, float] = draw(levels)
    cool_to: dict[Any, float] = {
        name: draw(st.floats(0, level, exclude_max=True))
        for name, level in thresholds.items()
        if draw(st.booleans())
    }
    if draw(st.booleans()):
        return UtilizationRule(utilization=thresholds, cool_to=cool_to)
    if draw(st.booleans()):
        return DeviationRule(deviation=thresholds, cool_to=cool_to, floor=cool_to)
    plugins = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    return ScoreRule(score=ScoreThreshold(plugins=tuple(plugins), below=draw(st.floats(1, 100))))


sources: st.SearchStrategy[Any] = st.sampled_from(
    [
        LoadWatcherSource(load_watcher=LoadWatcher(address="http://load-watcher:2020")),
        MetricsServerSource(metrics_server=MetricsServer()),
        RequestsSource(requests=Requests()),
        RecordedSource(recorded=Recorded()),
    ]
)
policies = st.builds(
    RebalancePolicy,
    metadata=st.builds(Metadata, name=names),
    scheduler=st.builds(
        SchedulerSettings,
        version=st.none() | st.sampled_from(["1.35", "v1.29.3"]),
        inline=st.none() | names,
        profiles=unique_names,
        assume_neutral=unique_names,
    ),
    load=st.builds(
        LoadSettings,
        sources=st.lists(sources, min_size=1, max_size=3).map(tuple),
        max_age=durations,
        min_coverage=percentages,
    ),
    hot_nodes=st.builds(
        HotNodes, for_runs=st.integers(1, 9), any=st.lists(rules(), min_size=1, max_size=3).map(tuple)
    ),
    evictable=st.builds(
        Evictable,
        min_age=durations,
        namespaces=st.builds(
            Namespaces, include=st.lists(namespaces, max_size=3, unique=True).map(tuple), exclude=st.just(())
        ),
        protect=st.lists(st.sampled_from(Protection), unique=True).map(tuple),
        jobs=st.booleans(),
    ),
    limits=st.builds(Limits, per_run=st.integers(0, 99), per_workload=amounts),
    planning=st.builds(
        Planning, min_gain=st.floats(0, 100), confidence=st.floats(1e-6, 1), cooldown=durations
    ),
    execution=st.builds(
        Execution, wave_size=st.integers(5, 9), first_wave=st.integers(1, 5), wave_timeout=durations
    ),
    safety=st.builds(Safety, pause=st.booleans(), max_not_ready_nodes=amounts),
)


@given(policies)
def test_a_printed_policy_parses_back_to_an_equal_one(policy: RebalancePolicy) -> None:
    assert read_back(policy) == policy


@rows("text", ["true", "false", "{excludedTaints: [dedicated]}", "{excludedTaints: []}"])
def test_misplaced_is_a_switch_or_its_settings_and_is_printed_as_such(text: str) -> None:
    policy = read(f"strategies: {{misplaced: {text}}}\n")
    assert read_back(policy) == policy
    assert (Misplaced.settings_in(policy) is None) is (text == "false")


def test_the_digest_is_of_the_text() -> None:
    loaded = parse_policy(HEAD, "a.yaml")
    assert loaded.digest.startswith("sha256:")
    assert loaded.digest == parse_policy(HEAD, "b.yaml").digest
    assert loaded.digest != parse_policy(HEAD + "# more\n", "a.yaml").digest
