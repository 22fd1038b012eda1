"""A policy is read into values; what is wrong is refused with its place and what would be right."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from pydantic import ValidationError

from rebalancer.errors import InputError
from rebalancer.policy.hotness import DeviationRule, ScoreRule, UtilizationRule
from rebalancer.policy.load_sources import LoadWatcher, LoadWatcherSource, MetricsServer, MetricsServerSource
from rebalancer.policy.model import PolicyModel
from rebalancer.policy.policy_file import parse_policy, schema, to_yaml
from rebalancer.policy.schema import Namespaces, Protection, RebalancePolicy
from tests.rows import rows
from tests.unit.policy.policy_texts import DESIGN, read, refusal


def test_a_full_policy_is_read_into_values() -> None:
    policy = read(DESIGN)
    assert policy.metadata.name == "k3s-trimaran"
    assert policy.schedulers[0].config_map is not None
    assert policy.schedulers[0].config_map.key == "scheduler-config.yaml"
    assert policy.load.sources == (
        LoadWatcherSource(load_watcher=LoadWatcher(address="http://load-watcher.loadwatcher:2020")),
        MetricsServerSource(metrics_server=MetricsServer()),
    )
    assert policy.load.max_age == 180.0
    assert policy.load.min_coverage == 0.9
    utilization, deviation, score = policy.hot_nodes.any
    assert isinstance(utilization, UtilizationRule)
    assert utilization.utilization == {"cpu": 80, "memory": 85}
    assert isinstance(deviation, DeviationRule)
    assert deviation.floor == {"cpu": 50}
    assert isinstance(score, ScoreRule)
    assert score.score.plugins == ("TargetLoadPacking",)
    assert policy.evictable.protect == tuple(Protection)[:3]
    assert policy.planning.cooldown == 7200.0
    assert policy.execution.wave_timeout == 300.0


def test_what_a_policy_leaves_out_has_the_default_of_the_full_one() -> None:
    full, empty = read(DESIGN), read("")
    for part in ("evictable", "limits", "planning", "execution", "safety"):
        assert getattr(full, part) == getattr(empty, part)


def test_a_taint_that_no_node_can_have_is_refused() -> None:
    assert "excludedTaints[0]" in refusal("strategies: {misplaced: {excludedTaints: ['a b']}}\n")
    assert "should be true, false, or settings" in refusal("strategies: {misplaced: 3}\n")


@rows(
    "body, message",
    [
        (
            "planning:\n  mingain: 3\n",
            "policy.yaml:4:3 planning.mingain: unknown field (did you mean minGain?)",
        ),
        ("descheduler: {}\n", "policy.yaml:3:1 descheduler: unknown field (did you mean scheduler?)"),
        (
            "evictable: {protect: [LocalStorag]}\n",
            'policy.yaml:3:23 evictable.protect[0]: "LocalStorag" is unknown; known: LocalStorage, '
            "PersistentVolumes, SingleReplica, WithoutBudget (did you mean LocalStorage?)",
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
        ("hotNodes: {any: [{score: {plugins: [], below: 20}}]}\n", "plugins: must not be empty"),
        ("hotNodes: {forRuns: 0}\n", "hotNodes.forRuns: "),
        (f"scheduler: [{', '.join(['{}'] * 10)}]\n", "scheduler: has 10 entries, and may have 9"),
        ("scheduler: {version: latest}\n", "does not have the expected form (write e.g. 1.35)"),
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
        ("evictable: {namespaces: {exclude: ['ba?']}}\n", "the only pattern is *, as in team-*"),
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
        (
            "evictable: {windows: [{from: '25:00', to: '06:00'}]}\n",
            '"25:00" does not have the expected form (write e.g. 22:00)',
        ),
        ("scheduler: {version: latest}\n", "scheduler.version: "),
        ("strategies: {fragmentation: {workloads: [web]}}\n", "(write e.g. shop/Deployment/web)"),
        (
            "strategies: {misplaced: {includedTaints: [a b]}}\n",
            "(write e.g. dedicated, dedicated=batch,",
        ),
        ("hotNodes: {any: [{utilization: {CPU: 80}}]}\n", "(write e.g. cpu, memory)"),
        (
            "strategies: {misplaced: {includedTaints: [a], excludedTaints: [a]}}\n",
            "strategies.misplaced: taint a is both included and excluded",
        ),
        (
            "strategies: {restarts: {includeOwnerKinds: [Job], excludeOwnerKinds: [Job]}}\n",
            "strategies.restarts: owner kind Job is both included and excluded",
        ),
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


def test_only_a_rule_with_pressure_is_told_about_pressure() -> None:
    two, alone = "{utilization: {cpu: 5}, deviation: {cpu: 5}}", "{pressure: {cpu: 5}}"

    assert "pressure" not in refusal(f"hotNodes: {{any: [{two}]}}\n")
    assert "pressure needs utilization" in refusal(f"hotNodes: {{any: [{alone}]}}\n")


@rows(
    "text, message",
    [
        ("", "is not"),
        ("kind: RebalancePolicy\n", "apiVersion is required (write apiVersion: rebalancer/v1alpha1)"),
        ("apiVersion: rebalancer/v1alpha1\n", "kind is required"),
        (
            "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n",
            "p:1:13 apiVersion: descheduler/v1alpha2 is not supported (turn it into one of ours: "
            "rebalancer policy import p)",
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
    assert read("scheduler: {inline: 'a: 1'}\n").schedulers[0].inline == "a: 1"
    inline = read("scheduler:\n  inline:\n    kind: KubeSchedulerConfiguration\n").schedulers[0].inline
    assert json.loads(inline or "") == {"kind": "KubeSchedulerConfiguration"}


def test_policies_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        RebalancePolicy().limits.per_run = 1000


def test_namespaces_are_allowed_unless_excluded_or_not_included() -> None:
    assert Namespaces().allows("default")
    assert not Namespaces().allows("kube-system")
    assert not Namespaces(include=("a",)).allows("b")


def test_a_star_in_the_name_of_a_namespace_stands_for_anything() -> None:
    chosen = Namespaces(include=("team-*",), exclude=("team-*-test", "*-old"))

    assert [chosen.allows(name) for name in ("team-a", "team-a-test", "team-old", "shop")] == [
        *(True, False, False, False)
    ]
    assert not Namespaces(include=("*",)).allows("kube-system"), "it is included by its name only"


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


def test_reading_a_policy_needs_neither_numpy_nor_pandas_nor_the_client() -> None:
    code = (
        "import sys, rebalancer.policy, rebalancer.profiles;"
        "print({'numpy', 'pandas', 'kubernetes'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_the_models_of_a_policy_are_not_built_one_by_one_while_they_are_imported() -> None:
    code = (
        "import rebalancer.policy.schema; from rebalancer.policy.model import PolicyModel;"
        "print([kind.__name__ for kind in PolicyModel.__subclasses__() if kind.__pydantic_complete__])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_what_a_policy_leaves_out_is_as_if_an_empty_section_had_been_read() -> None:
    sections = [name for name, value in RebalancePolicy() if isinstance(value, PolicyModel)]
    empty = RebalancePolicy.model_validate({name: {} for name in sections})
    assert len(sections) == 10
    assert empty == RebalancePolicy()
    assert to_yaml(empty) == to_yaml(RebalancePolicy())


@rows(
    "written, allowed, protected",
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


@rows(
    "text, message",
    [
        ("", "is empty (rebalancer policy init prints one with every key)"),
        ("# nothing\n", "is empty"),
        (
            '{"apiVersion": "v1", "kind": "List", "items": []}',
            "kind: is a list of a cluster's objects, not a policy (give it to --from)",
        ),
        ("kind: PodList\napiVersion: v1\n", "not a policy (give it to --from)"),
    ],
)
def test_a_file_that_is_no_policy_is_called_what_it_is(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_policy(text, "policy.yaml")
    assert message in str(caught.value)


@rows(
    "limits, warned",
    [
        ("{perWorkload: 10}", True),
        ("{perWorkload: 5}", True),
        ("{perWorkload: 4}", False),
        ("{perWorkload: 10%}", False),
        ("{perRun: 20, perWorkload: 10}", False),
    ],
)
def test_a_number_where_a_percentage_is_meant_is_remarked(limits: str, warned: bool) -> None:
    said = list(read(f"limits: {limits}\n").without_effect())
    assert bool(said) is warned
    assert all("would be a share of its replicas" in sentence for sentence in said)
