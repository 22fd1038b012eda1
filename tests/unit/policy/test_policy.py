from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rebalancer.errors import InputError
from rebalancer.policy import (
    STARTER,
    Amount,
    DeviationRule,
    Evictable,
    Execution,
    HotNodes,
    Limits,
    LoadSettings,
    LoadWatcher,
    LoadWatcherSource,
    Metadata,
    MetricsServer,
    MetricsServerSource,
    Namespaces,
    Planning,
    Protection,
    RebalancePolicy,
    Recorded,
    RecordedSource,
    Requests,
    RequestsSource,
    Safety,
    SchedulerSettings,
    ScoreRule,
    ScoreThreshold,
    UtilizationRule,
    default_policy,
    format_duration,
    load_policy,
    parse_duration,
    parse_policy,
    schema,
    to_yaml,
)
from rebalancer.policy.policy_file import SCHEMA_ID
from rebalancer.policy.schema import API_VERSION, KIND
from rebalancer.policy.units import format_percentage, parse_amount, parse_percentage

HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"
POLICIES = sorted((Path(__file__).parents[3] / "policies").glob("*.yaml"))

DESIGN = """\
metadata: {name: k3s-trimaran}
scheduler:
  version: "1.35"
  configMap: {namespace: scheduler-plugins, name: scheduler-config, key: scheduler-config.yaml}
  profiles: [trimaran]
load:
  sources:
    - loadWatcher: {address: http://load-watcher.loadwatcher:2020}
    - metricsServer: {}
  maxAge: 3m
  minCoverage: 80%
hotNodes:
  forRuns: 2
  any:
    - {utilization: {cpu: 80, memory: 85}, coolTo: {cpu: 65, memory: 75}}
    - {deviation: {cpu: 20}, coolTo: {cpu: 10}, floor: {cpu: 50}}
    - {score: {plugins: [TargetLoadPacking], below: 20}}
evictable:
  minAge: 10m
  priorityBelow: 2000000000
  namespaces: {exclude: [kube-system]}
  protect: [LocalStorage, PersistentVolumes, SingleReplica]
  jobs: false
limits: {perRun: 20, perNode: 4, perNamespace: 10, perWorkload: 10%}
planning: {minGain: 5, confidence: 0.95, cooldown: 1h, maxPlacements: 20000}
execution: {waveSize: 5, firstWave: 1, waveTimeout: 5m, onUnexpectedLanding: stop}
safety: {pause: false, maxNotReadyNodes: 5%, maxPendingPods: 20}
"""


def read(body: str) -> RebalancePolicy:
    return parse_policy(HEAD + body, "policy.yaml").policy


def refusal(body: str) -> str:
    with pytest.raises(InputError) as caught:
        read(body)
    return str(caught.value)


def test_a_full_policy_is_read_into_values() -> None:
    policy = read(DESIGN)
    assert policy.metadata.name == "k3s-trimaran"
    assert policy.scheduler.config_map is not None
    assert policy.scheduler.config_map.key == "scheduler-config.yaml"
    assert policy.load.sources == (
        LoadWatcherSource(load_watcher=LoadWatcher(address="http://load-watcher.loadwatcher:2020")),
        MetricsServerSource(metrics_server=MetricsServer()),
    )
    assert policy.load.max_age == 180.0
    assert policy.load.min_coverage == 0.8
    utilization, deviation, score = policy.hot_nodes.any
    assert isinstance(utilization, UtilizationRule)
    assert utilization.utilization == {"cpu": 80, "memory": 85}
    assert isinstance(deviation, DeviationRule)
    assert deviation.floor == {"cpu": 50}
    assert isinstance(score, ScoreRule)
    assert score.score.plugins == ("TargetLoadPacking",)
    assert policy.evictable.protect == tuple(Protection)
    assert policy.planning.cooldown == 3600.0
    assert policy.execution.wave_timeout == 300.0


def test_what_a_policy_leaves_out_has_the_default_of_the_full_one() -> None:
    full, empty = read(DESIGN), read("")
    for part in ("evictable", "limits", "planning", "execution", "safety"):
        assert getattr(full, part) == getattr(empty, part)


def test_the_starter_says_exactly_the_defaults() -> None:
    assert parse_policy(STARTER, "starter").policy == RebalancePolicy() == default_policy().policy


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_the_policies_we_ship_are_valid_and_named_after_their_file(path: Path) -> None:
    policy = load_policy(path).policy
    assert policy.metadata.name == path.stem
    assert read_back(policy) == policy


def test_the_policy_named_default_says_the_defaults() -> None:
    shipped = next(load_policy(path).policy for path in POLICIES if path.stem == "default")
    assert shipped == RebalancePolicy()


def test_policies_for_articles_are_shipped_and_the_conservative_one_names_no_configuration() -> None:
    names = {path.stem for path in POLICIES}
    assert {"balanced", "conservative", "k3s-trimaran", "network-traffic", "pods-per-node"} <= names
    conservative = next(load_policy(path).policy for path in POLICIES if path.stem == "conservative")
    assert conservative.scheduler == SchedulerSettings()
    assert conservative.hot_nodes.any == HotNodes().any


def read_back(policy: RebalancePolicy) -> RebalancePolicy:
    return parse_policy(to_yaml(policy), "printed").policy


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn")), min_size=1, max_size=12)
unique_names = st.lists(names, max_size=3, unique=True).map(tuple)
namespaces = st.sampled_from(["shop", "kube-system", "a-1", "b"])
included = st.lists(namespaces, max_size=3, unique=True).map(tuple)
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
        allow_unpredictable=st.booleans(),
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


@pytest.mark.parametrize("text", ["true", "false", "{excludedTaints: [dedicated]}", "{excludedTaints: []}"])
def test_misplaced_is_a_switch_or_its_settings_and_is_printed_as_such(text: str) -> None:
    policy = read(f"strategies: {{misplaced: {text}}}\n")
    assert read_back(policy) == policy
    assert (policy.strategies.misplaced is None) is (text == "false")


def test_a_taint_that_no_node_can_have_is_refused() -> None:
    assert "excludedTaints[0]" in refusal("strategies: {misplaced: {excludedTaints: ['a b']}}\n")
    assert "should be true, false, or settings" in refusal("strategies: {misplaced: 3}\n")


def test_the_digest_is_of_the_text() -> None:
    loaded = parse_policy(HEAD, "a.yaml")
    assert loaded.digest.startswith("sha256:")
    assert loaded.digest == parse_policy(HEAD, "b.yaml").digest
    assert loaded.digest != parse_policy(HEAD + "# more\n", "a.yaml").digest


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "planning:\n  mingain: 3\n",
            "policy.yaml:4:3 planning.mingain: unknown field (did you mean minGain?)",
        ),
        ("descheduler: {}\n", "policy.yaml:3:1 descheduler: unknown field (did you mean scheduler?)"),
        (
            "evictable: {protect: [LocalStorag]}\n",
            'policy.yaml:3:23 evictable.protect[0]: "LocalStorag" is unknown; known: LocalStorage, '
            "PersistentVolumes, SingleReplica (did you mean LocalStorage?)",
        ),
        ("evictable: {protect: [LocalStorage, LocalStorage]}\n", "LocalStorage is listed twice"),
        (
            "hotNodes: {any: [{utilization: {cpu: 101}}]}\n",
            "utilization.cpu: should be less than or equal to 100",
        ),
        ("hotNodes: {any: [{utilization: {cpu: 0}}]}\n", "utilization.cpu: should be greater than 0, not 0"),
        (
            "hotNodes: {any: [{utilization: {memry: 5}}]}\n",
            "(did you mean memory? Or define it",
        ),
        ("hotNodes: {any: [{utilization: {}}]}\n", "utilization: "),
        (
            "hotNodes: {any: [{utilization: {cpu: 50}, coolTo: {cpu: 51}}]}\n",
            "coolTo cpu 51 must not be above",
        ),
        ("hotNodes: {any: [{utilization: {cpu: 50}, coolTo: {memory: 5}}]}\n", "coolTo names memory"),
        ("hotNodes: {any: [{deviation: {cpu: 50}, floor: {pods: 5}}]}\n", "floor names pods"),
        (
            "hotNodes: {any: [{utilization: {cpu: 5}, deviation: {cpu: 5}}]}\n",
            "exactly one of the keys utilization",
        ),
        (
            "hotNodes: {any: [{coolTo: {cpu: 5}}]}\n",
            "exactly one of the keys utilization, deviation or score",
        ),
        ("hotNodes: {any: []}\n", "hotNodes.any: must not be empty"),
        ("hotNodes: {any: [{score: {plugins: [], below: 20}}]}\n", "plugins: must not be empty"),
        ("hotNodes: {forRuns: 0}\n", "hotNodes.forRuns: "),
        ("load: {sources: []}\n", "load.sources: must not be empty"),
        ("load: {sources: [{loadWatcher: {adress: x}}]}\n", "adress: unknown field"),
        ("load: {sources: [{loadWatcher: {address: load-watcher}}]}\n", "write e.g. http://load-watcher"),
        ("load: {sources: [{metricServer: {}}]}\n", "unknown key metricServer (did you mean metricsServer?)"),
        ("load: {maxAge: 180}\n", "load.maxAge: 180 has no unit; write e.g. 3m"),
        ("load: {maxAge: 0s}\n", "load.maxAge: should be greater than 0"),
        ("load: {maxAge: 1d}\n", "'1d' is not a duration; write e.g. 90s, 10m, 1h30m"),
        ("load: {minCoverage: 0.8}\n", "0.8 or 80%? Write it with the percent sign"),
        ("hotNodes: {any: [{utilization: {cpu: 0.8}}]}\n", "0.8 %? Write 80 for 80 percent"),
        (
            "hotNodes: {any: [{utilisation: {cpu: 80}}]}\n",
            "key utilisation (did you mean utilization?)",
        ),
        ("hotNodes: {any: [{utilization: {cpu: x%}}]}\n", "'x%' is not a percentage"),
        ("hotNodes: {any: [{utilization: {gpu: 80}}]}\n", "define it under load.signals"),
        ("limits: {perRun: '20'}\n", "perRun is a number; write 20 without quotes"),
        ("limits: {perRun: 10%}\n", "only perWorkload and maxNotReadyNodes take a percentage"),
        (
            "load: {sources: [{prometheus: {address: 'prometheus:9090'}}]}\n",
            "write e.g. http://prometheus.monitoring:9090",
        ),
        ("load: {statistic: p95th}\n", "write e.g. mean, max, meanPlusDeviation, p95"),
        ("limits:\n\tperRun: 3\n", "line 4 begins with a tab (YAML indents with spaces)"),
        ("evictable: {namespaces: {exclude: [ba*]}}\n", "patterns are not supported, list the names"),
        ("evictable: {namespaces: {exclude: [Kube_System]}}\n", "cannot be the name of a namespace"),
        ("limits: {perRun: -1, perNode: -1}\n", "; policy.yaml:3:31 limits.perNode: should be"),
        ("load: {minCoverage: 101%}\n", "not a percentage from 0% to 100%"),
        ("limits: {perRun: -1}\n", "limits.perRun: should be greater than or equal to 0, not -1"),
        ("limits: {perWorkload: 101%}\n", "limits.perWorkload: "),
        ("limits: {perWorkload: true}\n", "limits.perWorkload: should be a whole number or a percentage"),
        ("planning: {confidence: 0}\n", "planning.confidence: should be greater than 0"),
        ("planning: {confidence: 1.01}\n", "planning.confidence: should be less than or equal to 1"),
        ("planning: {minGain: -1}\n", "planning.minGain: "),
        ("execution: {waveSize: 0}\n", "execution.waveSize: "),
        ("execution: {firstWave: 0}\n", "execution.firstWave: "),
        ("execution: {waveSize: 2, firstWave: 3}\n", "execution: firstWave 3 is larger than waveSize 2"),
        ("execution: {onUnexpectedLanding: halt}\n", "known: stop, continue"),
        ("safety: {pause: yes}\n", "policy.yaml:3:17 safety.pause: yes is a boolean to some YAML readers"),
        ("safety: {pause: 'true'}\n", 'safety.pause: should be a valid boolean, not "true"'),
        ("scheduler: {version: 1.35}\n", '(quote it: "1.35")'),
        ("scheduler: {version: latest}\n", "scheduler.version: "),
        ("scheduler: {file: a.yaml, inline: b}\n", "at most one of configMap, file and inline"),
        ("scheduler: {configMap: {name: x}}\n", "scheduler.configMap.namespace: is required"),
        (
            "evictable: {namespaces: {include: [a], exclude: [a]}}\n",
            "namespace a is both included and excluded",
        ),
        ("metadata: null\n", "policy.yaml:3:11 metadata: should be a mapping, not null"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_what_would_be_right(body: str, message: str) -> None:
    assert message in refusal(body)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not"),
        ("kind: RebalancePolicy\n", "apiVersion is required (write apiVersion: rebalancer/v1alpha1)"),
        ("apiVersion: rebalancer/v1alpha1\n", "kind is required"),
        (
            "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n",
            "p:1:13 apiVersion: descheduler/v1alpha2",
        ),
        ("apiVersion: rebalancer/v1alpha1\nkind: Policy\n", "p:2:7 kind: Policy is not supported"),
    ],
)
def test_a_document_that_is_no_policy_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_policy(text, "p")
    assert message in str(caught.value) or not text


def test_a_coolto_that_is_not_given_lies_ten_points_below_its_threshold_and_never_below_zero() -> None:
    policy = read("hotNodes: {any: [{utilization: {cpu: 80, memory: 85, pods: 5}, coolTo: {cpu: 50}}]}\n")
    rule = policy.hot_nodes.any[0]
    assert isinstance(rule, UtilizationRule)
    assert rule.cool_to == {"cpu": 50, "memory": 75, "pods": 0}


def test_an_inline_configuration_may_be_text_or_a_mapping() -> None:
    assert read("scheduler: {inline: 'a: 1'}\n").scheduler.inline == "a: 1"
    inline = read("scheduler:\n  inline:\n    kind: KubeSchedulerConfiguration\n").scheduler.inline
    assert json.loads(inline or "") == {"kind": "KubeSchedulerConfiguration"}


def test_policies_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        RebalancePolicy().limits.per_run = 1000


def test_namespaces_are_allowed_unless_excluded_or_not_included() -> None:
    assert Namespaces().allows("default")
    assert not Namespaces().allows("kube-system")
    assert not Namespaces(include=("a",)).allows("b")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10m", 600),
        ("1h30m", 5400),
        ("90s", 90),
        ("500ms", 0.5),
        ("1.5h", 5400),
        ("0s", 0),
        ("1h0m0.25s", 3600.25),
    ],
)
def test_durations_are_read_as_kubernetes_writes_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "10", "m", "1d", "-1m", "1m1h", "1m1m", " 1m", "1m ", "1 m", "1e3s", "٣m", "1h.5m"]
)
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@given(st.integers(0, 10**10).map(lambda milliseconds: milliseconds / 1000))
def test_a_printed_duration_parses_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(0, 10_000))
def test_a_printed_percentage_parses_back(hundredths: int) -> None:
    fraction = hundredths / 10_000
    assert parse_percentage(format_percentage(fraction)) == fraction


@given(st.integers(0, 100), st.integers(0, 10**6))
def test_a_percentage_of_a_total_is_rounded_up(percent: int, total: int) -> None:
    amount = Amount(percent, percent=True).of(total)
    assert (amount - 1) * 100 < percent * total <= amount * 100


def test_an_amount_is_a_number_or_a_percentage() -> None:
    assert parse_amount("10%").of(11) == 2
    assert parse_amount("3").of(1000) == 3
    assert [str(Amount(3)), str(Amount(3, percent=True))] == ["3", "3%"]
    for text in ("-1", "1.5", "101%", "%", "x", ""):
        with pytest.raises(ValueError, match="neither a whole number nor a percentage"):
            parse_amount(text)


def test_every_key_of_the_schema_is_camel_case_and_described() -> None:
    found = schema()
    json.dumps(found)
    assert found["required"] == ["apiVersion", "kind"]
    for model in (found, *found["$defs"].values()):
        for name, described in model.get("properties", {}).items():
            assert "_" not in name
            sentence = (
                described.get("description")
                or found["$defs"][described["$ref"].split("/")[-1]]["description"]
            )
            assert sentence.endswith("."), name


def test_the_schema_is_one_that_editors_can_use_and_accepts_every_default_and_every_shipped_policy() -> None:
    found = schema()
    jsonschema.Draft202012Validator.check_schema(found)
    assert found["$id"] == SCHEMA_ID
    for place, entry in every_default(found):
        closed = {**{key: part for key, part in entry.items() if key != "default"}, "$defs": found["$defs"]}
        errors = jsonschema.Draft202012Validator(closed).iter_errors(entry["default"])
        assert [error.message for error in errors] == [], place
    root = Path(__file__).parents[3]
    shipped = [*(root / "policies").glob("*.yaml"), *(root / "k8s").glob("**/policy.yaml")]
    assert len(shipped) > 7
    for path in shipped:
        jsonschema.validate(yaml.safe_load(path.read_text()), found)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"apiVersion": API_VERSION, "kind": KIND, "limts": {}}, found)


def every_default(entry: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each part of a schema that has a default, with its place."""
    if isinstance(entry, dict):
        if "default" in entry and not place.endswith("/properties"):
            yield place, entry
        for key, part in entry.items():
            yield from every_default(part, f"{place}/{key}")
    elif isinstance(entry, list):
        for index, part in enumerate(entry):
            yield from every_default(part, f"{place}/{index}")


def test_reading_a_policy_needs_neither_numpy_nor_pandas_nor_the_client() -> None:
    code = (
        "import sys, rebalancer.policy, rebalancer.profiles;"
        "print({'numpy', 'pandas', 'kubernetes'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("written", "allowed", "protected"),
    [
        ("{}", "shop", "kube-system"),
        ("{exclude: [batch]}", "shop", "kube-system"),
        ("{exclude: []}", "shop", "kube-system"),
        ("{include: [kube-system]}", "kube-system", "shop"),
        ("{include: [kube-system], exclude: [batch]}", "kube-system", "batch"),
    ],
)
def test_the_system_namespace_is_protected_unless_it_is_included_by_name(
    written: str, allowed: str, protected: str
) -> None:
    policy = read(f"evictable: {{namespaces: {written}}}\n")

    assert policy.evictable.namespaces.allows(allowed)
    assert not policy.evictable.namespaces.allows(protected)
    assert parse_policy(to_yaml(policy), "again").policy == policy


def test_percentages_may_be_written_with_and_without_the_sign() -> None:
    signed = read("load: {minCoverage: 80%}\nhotNodes: {any: [{utilization: {cpu: 85%}}]}\n")
    bare = read("load: {minCoverage: 80}\nhotNodes: {any: [{utilization: {cpu: 85}}]}\n")

    assert signed == bare
