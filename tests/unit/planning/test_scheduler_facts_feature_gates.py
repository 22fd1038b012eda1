"""The scheduler's feature gates are read from its own command line; the policy goes before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.writer import save
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.planning.inputs import SchedulerFacts
from rebalancer.planning.scheduler_facts import feature_gates, with_pods
from rebalancer.planning.warnings import _of_scheduler, contradicted_gates, unknown_gates
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.registry import default_configuration, load_configuration
from rebalancer.scheduling.versions.release import FeatureGates, Release
from rebalancer.scheduling.versions.verified import unpredictable_rule
from tests.builders import a_node, a_pod, a_snapshot, owned_by
from tests.rows import rows

IMAGE = "registry.k8s.io/kube-scheduler:v1.36.3"
STATIC = owned_by("Node", "n")
FIRST = default_configuration()
SECOND = load_configuration(
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "profiles: [{schedulerName: load-aware}]\n",
    "test",
)
CONFIG = "--config=/etc/kubernetes/scheduler.yaml"


def _snapshot(*containers: dict[str, Any], owner: dict[str, Any] | None = STATIC) -> Snapshot:
    pods = [
        a_pod(
            f"scheduler-{number}",
            node="n",
            owner=owner,
            containers=[{"name": "c", "image": IMAGE} | container],
        )
        for number, container in enumerate(containers)
    ]
    return a_snapshot(nodes=[a_node("n")], pods=pods)


def _scheduler(
    snapshot: Snapshot, configuration: SchedulerConfiguration = FIRST, **scheduler: Any
) -> SchedulerFacts:
    """A scheduler with the pods that run it, of a policy that says this of it."""
    (settings,) = RebalancePolicy.model_validate({"scheduler": scheduler}).schedulers
    (found,) = with_pods([SchedulerFacts(configuration, settings, version="1.36")], snapshot)
    return found


def _gates(snapshot: Snapshot, configuration: SchedulerConfiguration = FIRST, **gates: bool) -> FeatureGates:
    return feature_gates(_scheduler(snapshot, configuration, featureGates=gates))


@rows(
    "container, gates",
    [
        ({"command": ["kube-scheduler", CONFIG]}, {}),
        ({"command": ["/usr/local/bin/kube-scheduler", CONFIG, "--feature-gates=A=true,B=false"]}, "AB"),
        ({"command": ["kube-scheduler"], "args": ["--feature-gates", "A=true,B=false"]}, "AB"),
        ({"args": [CONFIG, "--feature-gates=A=True", "--feature-gates=B=0"]}, "AB"),
        ({"args": ["--feature-gates=kube:A=true,wardle:C=true", "--feature-gates=kube:B=false"]}, "AB"),
        ({"args": ["--feature-gates=A=true,B=false", "--emulated-version=kube=1.36,wardle=1.2"]}, "AB"),
        ({"args": ["--feature-gates=A=true", "--emulated-version=kube=1.35"]}, None),
        ({"args": ["--feature-gates=A=true", "--emulated-version", "1.35"]}, None),
        ({"args": ["kube-scheduler --feature-gates=A=true"]}, None),
        ({"command": ["sh", "-c", "exec kube-scheduler --feature-gates=A=true"]}, None),
        ({"command": ["kube-scheduler", "--feature-gates=A=perhaps"]}, None),
        ({}, None),
    ],
)
def test_gates_are_known_where_the_command_line_is_seen(container: dict[str, Any], gates: Any) -> None:
    found = _gates(_snapshot(container))
    assert found.others_are_default == (gates is not None)
    assert found.stated == ({"A": True, "B": False} if gates == "AB" else {})


def test_schedulers_that_differ_or_that_nobody_sees_leave_the_gates_unknown() -> None:
    one, other = {"command": ["kube-scheduler"]}, {"command": ["kube-scheduler", "--feature-gates=A=true"]}
    assert _gates(_snapshot(one, one)).others_are_default
    assert not _gates(_snapshot(one, other)).others_are_default
    assert not _gates(_snapshot(one, {})).others_are_default
    assert not _gates(_snapshot()).others_are_default


def test_a_second_scheduler_tells_nothing_of_the_first_that_nobody_sees() -> None:
    deployed = _snapshot({"command": ["kube-scheduler"]}, owner=owned_by("ReplicaSet", "load-aware"))
    assert not _gates(deployed).others_are_default
    assert _gates(deployed, SECOND).others_are_default


def test_a_gate_that_opens_others_leaves_them_unknown() -> None:
    found = _gates(_snapshot({"args": ["--feature-gates=AllAlpha=true"]}))
    assert not found.others_are_default


def test_the_policy_goes_before_and_a_contradiction_is_a_warning() -> None:
    snapshot = _snapshot({"args": ["--feature-gates=A=true,B=false"]})
    assert _gates(snapshot, A=False).stated == {"A": False, "B": False}
    scheduler = _scheduler(snapshot, featureGates={"A": False, "B": False})
    (warning,) = contradicted_gates(scheduler)
    assert "A: false, but the scheduler was started with A=true" in warning


@rows(
    "arguments, warning",
    [
        (["--feature-gates=DRAExtendedResource=false,AllAlpha=false"], ""),
        (
            ["--feature-gates=B=true,A=false"],
            "was started with the feature gates A, B, which rebalancer does",
        ),
        (
            ["--feature-gates=kube:A=true"],
            "was started with the feature gate A, which rebalancer does not know",
        ),
        (["--emulated-version=1.36"], ""),
        (["--emulated-version=1.35"], "emulates 1.35: which feature gates are on is not known"),
    ],
)
def test_gates_that_nobody_knows_are_a_warning(arguments: list[str], warning: str) -> None:
    warnings = list(unknown_gates(_scheduler(_snapshot({"args": arguments}))))
    assert len(warnings) == bool(warning)
    assert all(warning in line for line in warnings)


def test_pods_with_gpus_are_predictable_once_the_gate_is_seen_to_be_off() -> None:
    gpu = [{"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]
    snapshot = a_snapshot(nodes=[a_node("n")], pods=[a_pod("p", containers=gpu)])
    (pod,) = snapshot.pods.classes
    for container, predictable in (
        ({}, False),
        ({"command": ["kube-scheduler"]}, False),
        ({"command": ["kube-scheduler", "--feature-gates=DRAExtendedResource=false"]}, True),
    ):
        release = Release.of("1.36", _gates(_snapshot(container)))
        assert (unpredictable_rule(release, pod) == "") == predictable


def test_a_recording_keeps_the_gates_and_the_leader_election_and_no_other_argument(tmp_path: Path) -> None:
    flags = ["--secret=hush", "--feature-gates=A=true", "--leader-elect-resource-name=x", "--leader-elect"]
    scheduler = {"command": ["kube-scheduler", *flags, "--password=hush"]}
    other = a_pod("app", node="n", containers=[{"name": "c", "image": "app", "args": ["--password=hush"]}])
    containers = [{"name": "c", "image": IMAGE} | scheduler]
    pods = [a_pod("scheduler", node="n", owner=STATIC, containers=containers), other]
    save(a_snapshot(nodes=[a_node("n")], pods=pods).recording, tmp_path / "recording", 0.0)
    again = build_snapshot(DumpReader(tmp_path / "recording").read())
    assert _gates(again).stated == {"A": True}
    kept = [
        token
        for pod in again.pods.classes
        for container in pod.spec.containers or ()
        for token in (*(container.command or ()), *(container.args or ()))
    ]
    kept_flags = ["--feature-gates=A=true", "--leader-elect-resource-name=x", "--leader-elect=true"]
    assert kept == ["kube-scheduler", *kept_flags]


@rows(
    "container, policy, warns",
    [
        ({"command": ["kube-scheduler", CONFIG]}, {}, True),
        ({"command": ["kube-scheduler"], "args": ["--config", "/etc/x.yaml"]}, {}, True),
        ({"command": ["kube-scheduler", "--leader-elect=true"]}, {}, False),
        ({"command": ["kube-scheduler", CONFIG]}, {"file": "scheduler.yaml"}, False),
    ],
)
def test_defaults_that_are_assumed_of_a_scheduler_with_a_configuration_are_warned_of(
    container: dict[str, Any], policy: dict[str, Any], warns: bool
) -> None:
    found = _of_scheduler(_scheduler(_snapshot(container), **policy))
    assert any("the defaults are assumed" in text for text in found) is warns


@pytest.mark.parametrize(("source", "warns"), [("defaults", True), ("recorded/scheduler-config.yaml", False)])
def test_a_configuration_that_the_policy_names_and_the_recording_lacks_is_warned_of(
    source: str, warns: bool
) -> None:
    place = {"namespace": "kube-system", "name": "theirs"}
    configuration = replace(FIRST, source=source)
    found = _of_scheduler(_scheduler(_snapshot({}), configuration, configMap=place))
    said = [text for text in found if "the defaults are assumed" in text]
    assert bool(said) is warns
    assert all(text.startswith("configmap kube-system/theirs, which") for text in said)
