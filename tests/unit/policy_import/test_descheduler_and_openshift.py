from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from rebalancer.cli.program import main
from rebalancer.documents import to_yaml
from rebalancer.errors import ExitCode, InputError
from rebalancer.planning.strategies.consolidation import Consolidation, ConsolidationSettings
from rebalancer.planning.strategies.failed import Failed, FailedSettings
from rebalancer.planning.strategies.misplaced import Misplaced, MisplacedSettings
from rebalancer.policy.hotness import UtilizationRule
from rebalancer.policy.policy_file import parse_policy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.policy_import import Imported, import_policy
from tests.rows import rows

CURRENT = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
nodeSelector: pool=general
maxNoOfPodsToEvictPerNode: 3
maxNoOfPodsToEvictPerNamespace: 12
maxNoOfPodsToEvictTotal: 30
gracePeriodSeconds: 20
profiles:
  - name: load
    pluginConfig:
      - name: DefaultEvictor
        args:
          evictSystemCriticalPods: true
          ignorePvcPods: true
          evictLocalStoragePods: true
          nodeFit: true
          minReplicas: 2
          minPodAge: 15m
          priorityThreshold: {value: 5000}
          labelSelector: {matchLabels: {tier: web}}
      - name: LowNodeUtilization
        args:
          thresholds: {cpu: 20, memory: 20}
          targetThresholds: {cpu: 60, memory: 70, ephemeral-storage: 50}
          metricsUtilization: {source: KubernetesMetrics}
          evictableNamespaces: {exclude: [kube-system, monitoring]}
          evictionLimits: {node: 5}
          numberOfNodes: 4
      - name: RemovePodsViolatingNodeTaints
        args: {excludedTaints: [dedicated=batch]}
      - name: PodLifeTime
        args: {maxPodLifeTimeSeconds: 86400}
    plugins:
      balance: {enabled: [LowNodeUtilization]}
      deschedule: {enabled: [RemovePodsViolatingNodeTaints, PodLifeTime]}
"""
FIRST = """\
apiVersion: descheduler/v1alpha1
kind: DeschedulerPolicy
evictLocalStoragePods: true
maxNoOfPodsToEvictPerNode: 7
strategies:
  LowNodeUtilization:
    enabled: true
    params:
      nodeFit: true
      thresholdPriority: 900
      nodeResourceUtilizationThresholds:
        useDeviationThresholds: true
        thresholds: {cpu: 10}
        targetThresholds: {cpu: 15}
  RemoveDuplicates: {enabled: true}
  PodLifeTime: {enabled: false}
"""
OPERATOR = """\
apiVersion: operator.openshift.io/v1
kind: KubeDescheduler
metadata: {name: cluster}
spec:
  deschedulingIntervalSeconds: 3600
  mode: Predictive
  evictionLimits: {total: 5, node: 2}
  profiles: [LifecycleAndUtilization, AffinityAndTaints, EvictPodsWithPVC, CompactAndScale]
  profileCustomizations:
    devLowNodeUtilizationThresholds: High
    devActualUtilizationProfile: PrometheusCPUUsage
    namespaces: {excluded: [payments]}
    podLifetime: 48h
"""


def imported(text: str) -> tuple[RebalancePolicy, Imported]:
    found = import_policy(text, "theirs.yaml")
    return parse_policy(to_yaml(found.policy), "ours.yaml").policy, found


def notes(found: Imported) -> Mapping[str, str]:
    return {note.key: f"{note.fate}: {note.text}" for note in found.notes}


def test_load_and_limits_of_the_current_version_become_ours() -> None:
    policy, found = imported(CURRENT)

    (rule,) = policy.hot_nodes.any
    assert rule.model_dump(include={"utilization", "cool_to"}) == {
        "utilization": {"cpu": 60, "memory": 70},
        "cool_to": {"cpu": 60, "memory": 70},
    }
    assert (policy.limits.per_run, policy.limits.per_namespace) == (30, 12)
    assert policy.limits.per_node == 3, "the limit of the strategy is 5, but all of them together stop at 3"
    assert found.policy["hotNodes"]["nodeSelector"] == {"matchLabels": {"pool": "general"}}
    assert found.policy["load"]["sources"] == [{"metricsServer": {}}]
    assert "monitoring" in policy.evictable.namespaces.exclude


def test_what_may_be_evicted_becomes_ours() -> None:
    policy, _ = imported(CURRENT)

    assert set(policy.evictable.protect) == {"PersistentVolumes", "SingleReplica"}
    assert (policy.evictable.min_replicas, policy.evictable.min_age) == (2, 900)
    assert policy.evictable.priority_below == 5000
    assert Misplaced.settings_in(policy) == MisplacedSettings(
        filters=("TaintToleration",), excluded_taints=("dedicated=batch",)
    )


def test_thresholds_of_extended_resources_become_ours() -> None:
    policy, found = imported(CURRENT.replace("ephemeral-storage", "nvidia.com/gpu"))
    (rule,) = policy.hot_nodes.any

    assert isinstance(rule, UtilizationRule)
    assert rule.utilization["nvidia.com/gpu"] == 50
    assert "nvidia.com/gpu" not in notes(found)


def test_what_has_no_counterpart_is_named_with_its_place_and_why() -> None:
    _, found = imported(CURRENT)
    said = notes(found)

    assert said["thresholds"].startswith("changed: which nodes have room is not a threshold here")
    assert said["ephemeral-storage"].startswith("not mapped: no source measures ephemeral-storage")
    assert said["gracePeriodSeconds"].startswith("not mapped")
    assert said["evictSystemCriticalPods"].startswith("not mapped")
    where = next(note.where for note in found.notes if note.key == "thresholds")
    assert where == f"theirs.yaml:{CURRENT[: CURRENT.index(' thresholds')].count(chr(10)) + 1}:11"


def test_a_plugin_whose_place_a_strategy_takes_hands_on_its_arguments() -> None:
    arguments = (
        "{minPodLifetimeSeconds: 3600, reasons: [Evicted], exitCodes: [1, 137], excludeOwnerKinds: [Job], "
        "includingInitContainers: true, labelSelector: {matchLabels: {app: web}}}"
    )
    text = CURRENT.replace("{maxPodLifeTimeSeconds: 86400}", arguments)
    text = text.replace("PodLifeTime", "RemoveFailedPods")
    policy, found = imported(text)

    assert Failed.settings_in(policy) == FailedSettings(
        min_age=3600,
        reasons=("Evicted",),
        exit_codes=(1, 137),
        including_init_containers=True,
        exclude_owner_kinds=("Job",),
    )
    said = notes(found)
    assert said["RemoveFailedPods"] == "mapped: strategies.failed"
    assert said["minPodLifetimeSeconds"] == "mapped: strategies.failed.minAge"
    assert said["labelSelector"].startswith("narrowed: evictable.podSelector")
    assert policy.evictable.pod_selector is not None, "the evictor asks for other labels, and both hold"
    assert str(policy.evictable.pod_selector) == "app=web,tier=web"


def test_a_plugin_that_empties_nodes_becomes_consolidation_of_the_nodes_that_it_chooses() -> None:
    text = CURRENT.replace("{maxPodLifeTimeSeconds: 86400}", "{thresholds: {cpu: 20}, numberOfNodes: 3}")
    policy, found = imported(text.replace("PodLifeTime", "HighNodeUtilization"))
    wanted = ConsolidationSettings(thresholds={"cpu": 20}, number_of_nodes=3)
    assert Consolidation.settings_in(policy) == wanted
    said = notes(found)
    assert said["HighNodeUtilization"].startswith("changed: strategies.consolidation: empties whole nodes")
    assert said["thresholds"] == "mapped: strategies.consolidation.thresholds"


def test_conditions_and_kinds_of_owners_are_mapped_where_they_mean_the_same() -> None:
    arguments = (
        "{ownerKinds: {include: [ReplicaSet], exclude: [Job]}, states: [Pending], conditions: "
        '[{type: Ready, status: "False", minTimeSinceLastTransitionSeconds: 60}]}'
    )
    policy, found = imported(CURRENT.replace("{maxPodLifeTimeSeconds: 86400}", arguments))
    lifetime = policy.strategies.lifetime  # type: ignore[attr-defined]

    assert (lifetime.include_owner_kinds, lifetime.exclude_owner_kinds) == (("ReplicaSet",), ("Job",))
    assert [(item.type, item.status, item.min_since) for item in lifetime.conditions] == [
        ("Ready", "False", 60)
    ]
    said = notes(found)
    assert said["conditions"] == "mapped: strategies.lifetime.conditions"
    assert said["ownerKinds"] == (
        "mapped: strategies.lifetime.includeOwnerKinds, strategies.lifetime.excludeOwnerKinds"
    )


def test_a_plugin_without_a_counterpart_is_named_by_its_name() -> None:
    text = CURRENT.replace("PodLifeTime", "TheirOwnPlugin").replace("{maxPodLifeTimeSeconds: 86400}", "{}")
    _, found = imported(text)

    assert notes(found)["TheirOwnPlugin"].startswith("not mapped: no strategy of ours has this aim")


def test_a_slip_of_the_pen_is_named_as_what_it_is() -> None:
    _, found = imported(
        CURRENT.replace("PodLifeTime", "PodLifetimes").replace("{maxPodLifeTimeSeconds: 86400}", "{}")
    )
    assert notes(found)["PodLifetimes"].endswith("did you mean PodLifeTime?")

    _, found = imported(CURRENT.replace("maxPodLifeTimeSeconds: 86400", "maxPodLifeTimeSeconds: 1d"))
    assert notes(found)["maxPodLifeTimeSeconds"] == 'not mapped: strategies.lifetime.maxAge cannot be "1d"'


@rows(
    "profiles, place",
    [
        ("3", "profiles: should be a list"),
        ("{name: a}", "profiles: should be a list"),
        ("[3]", "should be a mapping"),
        ("[{pluginConfig: 7}]", "pluginConfig: should be a list"),
        ("[{pluginConfig: [7]}]", "should be a mapping"),
        ("[{pluginConfig: [{name: PodLifeTime, args: 7}]}]", "args: should be a mapping"),
        ("[{plugins: 3}]", "plugins: should be a mapping"),
        ("[{plugins: {balance: 3}}]", "balance: should be a mapping"),
        ("[{plugins: {balance: {enabled: PodLifeTime}}}]", "enabled: should be a list"),
    ],
)
def test_what_has_not_the_form_of_a_policy_is_refused_and_not_dropped(profiles: str, place: str) -> None:
    text = f"apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles: {profiles}\n"

    with pytest.raises(InputError) as caught:
        import_policy(text, "theirs.yaml")

    assert str(caught.value).startswith("theirs.yaml:3:")
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("strategies", "place"),
    [
        ("3", "strategies: should be a mapping"),
        ("{PodLifeTime: 3}", "PodLifeTime: should be a mapping"),
        ("{PodLifeTime: {enabled: true, params: 3}}", "params: should be a mapping"),
    ],
)
def test_what_has_not_the_form_of_the_first_version_is_refused_too(strategies: str, place: str) -> None:
    text = f"apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\nstrategies: {strategies}\n"

    with pytest.raises(InputError, match=place):
        import_policy(text, "theirs.yaml")


@pytest.mark.parametrize("text", [CURRENT, FIRST, OPERATOR])
def test_the_comments_of_an_import_fit_eighty_columns(text: str) -> None:
    _, found = imported(text)
    lines = found.header().splitlines()

    assert max(map(len, lines)) <= 80
    assert all(line.startswith("#") for line in lines)
    told = " ".join(" ".join(line.removeprefix("#").split()) for line in lines)
    assert all(" ".join(note.sentence.split()) in told for note in found.notes)


@pytest.mark.parametrize("text", [CURRENT, FIRST, OPERATOR])
def test_every_key_of_the_file_has_a_note_or_one_below_it(text: str) -> None:
    _, found = imported(text)
    lines = {int(note.where.split(":")[1]) for note in found.notes}
    names = (
        "apiVersion kind metadata spec profiles plugins pluginConfig args strategies params name enabled "
        "priorityThreshold profileCustomizations balance deschedule nodeResourceUtilizationThresholds"
    )
    structure = re.compile(rf"(- name: (load|Default)|({'|'.join(names.split())}):)")
    silent = [
        line.strip()
        for number, line in enumerate(text.splitlines(), 1)
        if number not in lines and not structure.match(line.strip())
    ]

    assert silent == []


def test_the_first_version_is_read_too() -> None:
    policy, found = imported(FIRST)

    assert found.policy["hotNodes"]["any"] == [{"deviation": {"cpu": 15}, "coolTo": {"cpu": 15}}]
    assert found.policy["load"]["sources"] == [{"requests": {}}]
    assert (policy.limits.per_node, policy.evictable.priority_below) == (7, 900)
    assert "LocalStorage" not in policy.evictable.protect
    assert notes(found)["PodLifeTime"] == "no effect: it is not enabled"


def test_profiles_of_openshift_become_ours() -> None:
    text = OPERATOR.replace("    devActualUtilizationProfile: PrometheusCPUUsage\n", "")
    policy, found = imported(text)

    assert found.policy["hotNodes"]["any"][0]["utilization"] == {"cpu": 70, "memory": 70, "pods": 70}
    assert (policy.hot_nodes.run_interval, policy.limits.per_run, policy.limits.per_node) == (3600, 5, 2)
    assert Misplaced.settings_in(policy) is not None
    assert "PersistentVolumes" not in policy.evictable.protect
    assert {"payments", "openshift-*", "hypershift"} <= set(policy.evictable.namespaces.exclude)
    said = notes(found)
    assert said["LifecycleAndUtilization"].endswith("RemovePodsHavingTooManyRestarts, LowNodeUtilization")
    assert "the operator spares these" in said["profiles"]


def test_a_query_of_openshift_that_is_not_known_here_makes_no_node_hot() -> None:
    _, found = imported(OPERATOR)

    assert found.policy["hotNodes"]["any"] == []
    assert notes(found)["LowNodeUtilization"].startswith("not mapped: none of its targetThresholds")


NOTHING_HOT = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
  - name: rules
    pluginConfig: [{name: RemovePodsViolatingNodeTaints}, {name: RemovePodsViolatingInterPodAntiAffinity}]
    plugins:
      deschedule: {enabled: [RemovePodsViolatingNodeTaints, RemovePodsViolatingInterPodAntiAffinity]}
"""
PROMETHEUS = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
metricsProviders: [{source: Prometheus, prometheus: {url: "http://prometheus"}}]
profiles:
  - name: load
    pluginConfig:
      - name: LowNodeUtilization
        args:
          useDeviationThresholds: true
          thresholds: {MetricResource: 10}
          targetThresholds: {MetricResource: 10}
          metricsUtilization: {source: Prometheus, prometheus: {query: "instance:node_cpu:rate:sum"}}
    plugins:
      balance: {enabled: [LowNodeUtilization]}
"""


def test_a_file_that_relieves_no_nodes_becomes_a_policy_that_relieves_none() -> None:
    policy, found = imported(NOTHING_HOT)

    assert policy.hot_nodes.any == ()
    assert found.policy["load"]["sources"] == [{"requests": {}}], "it needs no metrics there either"
    assert found.warning == ""


PRESSURE = PROMETHEUS.replace("instance:node_cpu:rate:sum", "node:cpu_pressure:avg1m")


def test_rules_that_cannot_be_mapped_are_not_replaced_by_our_defaults() -> None:
    policy, found = imported(PRESSURE)

    assert policy.hot_nodes.any == ()
    assert found.warning.startswith("NOT EQUIVALENT to theirs.yaml: ")
    assert found.header().splitlines()[0].startswith("# NOT EQUIVALENT to theirs.yaml: ")
    assert "useDeviationThresholds" in found.warning, "nothing is said to be mapped that is lost"


def test_the_command_says_on_standard_error_what_is_not_equivalent(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.yaml"
    theirs.write_text(PRESSURE)
    result = CliRunner().invoke(main, ["policy", "import", str(theirs)])

    assert "NOT EQUIVALENT" in result.stderr
    assert result.exit_code == ExitCode.PARTLY_DONE
    theirs.write_text(NOTHING_HOT)
    equivalent = CliRunner().invoke(main, ["policy", "import", str(theirs)])
    assert (equivalent.stderr, equivalent.exit_code) == ("", 0)


def test_old_booleans_beside_pod_protections_have_no_effect_as_there() -> None:
    both = "evictLocalStoragePods: true\n          podProtections: {extraEnabled: [PodsWithPVC]}"
    text = CURRENT.replace("evictLocalStoragePods: true", both)
    policy, found = imported(text)

    assert "LocalStorage" in policy.evictable.protect
    assert notes(found)["evictLocalStoragePods"] == "no effect: descheduler ignores it beside podProtections"


def test_what_one_profile_spares_is_spared_by_all_and_the_file_says_so() -> None:
    other = """\
  - name: rules
    pluginConfig:
      - name: DefaultEvictor
        args: {minReplicas: 2, evictLocalStoragePods: false}
      - name: RemovePodsViolatingInterPodAntiAffinity
        args: {namespaces: {exclude: [batch]}}
    plugins:
      deschedule: {enabled: [RemovePodsViolatingInterPodAntiAffinity]}
"""
    policy, found = imported(CURRENT + other)

    assert policy.evictable.min_age == 900, "of the first profile alone"
    assert "LocalStorage" in policy.evictable.protect, "one of them protects it"
    assert {"monitoring", "batch"} <= set(policy.evictable.namespaces.exclude)
    said = notes(found)
    assert said["minReplicas"].startswith("changed: "), "both say so"
    assert said["minPodAge"].startswith("narrowed: ")
    assert said["exclude"].startswith("narrowed: ")
    assert said["evictLocalStoragePods"].startswith("not mapped: they are not alike")
    assert "narrowed" in found.warning


def test_only_the_classes_that_a_file_protects_are_protected() -> None:
    config = "{PodsWithPVC: {protectedStorageClasses: [{name: fast}]}}"
    args = f"podProtections: {{extraEnabled: [PodsWithPVC], config: {config}}}"
    policy, _ = imported(CURRENT.replace("minReplicas: 2", args))

    assert policy.evictable.protect_storage_classes == ("fast",)
    assert "PersistentVolumes" not in policy.evictable.protect


def test_the_command_prints_a_policy_that_validates(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs.yaml", tmp_path / "ours.yaml"
    theirs.write_text(CURRENT)
    result = CliRunner().invoke(main, ["policy", "import", str(theirs)])
    ours.write_text(result.stdout)

    assert result.exit_code == ExitCode.PARTLY_DONE
    told = " ".join(line.strip("# ") for line in result.stdout.splitlines())
    assert f"{theirs}:13:11 evictSystemCriticalPods is not mapped" in told
    assert CliRunner().invoke(main, ["policy", "validate", str(ours)]).exit_code == 0
