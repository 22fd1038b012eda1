"""What a user sees of each Kubernetes: minors that were not compared are named, with what a run does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rebalancer.cli.program import main
from rebalancer.cluster import times
from rebalancer.scheduling.versions.verified import verified_in_words
from rebalancer_demo.hot_cluster import CONFIGURATION_NAME, CONFIGURATION_NAMESPACE, POLICY
from rebalancer_demo.objects import Object
from tests.conftest import some_of
from tests.integration.hot_cluster import hot_sandbox
from tests.waiting import present

CONFIGURED = "scheduler:\n"
REFUSED = 3


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    sandbox = hot_sandbox()
    with sandbox:
        yield sandbox.write_kubeconfig(tmp_path_factory.mktemp("kube") / "config")


def _start(kubeconfig: Path, folder: Path, scheduler: str, *arguments: str) -> Result:
    policy = folder / "policy.yaml"
    policy.write_text(POLICY.replace(CONFIGURED, f"{CONFIGURED}  {scheduler}\n"))
    return CliRunner().invoke(
        main, [*arguments, "--policy", str(policy), "--kubeconfig", str(kubeconfig), "-o", "json"]
    )


def _versions(document: dict[str, Any]) -> list[str]:
    return [warning for warning in document["warnings"] if warning.startswith("scheduler 1.")]


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("version", "warning"),
    some_of(
        [
            ("1.26", ""),
            ("1.31", ""),
            ("1.34", ""),
            ("1.36", ""),
            ("1.37", ""),
            (
                "1.28",
                f"was read but not compared ({verified_in_words()} were); run refuses a plan that moves pods",
            ),
            ("1.38", "was compared as of 1.38.0-beta.0; run refuses a plan that moves pods which depend on"),
            ("1.99", "what changed after 1.38 is not known; run refuses to act on it"),
        ]
    ),
)
def test_a_plan_names_a_version_that_was_not_compared(
    kubeconfig: Path, tmp_path: Path, version: str, warning: str
) -> None:
    result = _start(kubeconfig, tmp_path, f'version: "{version}"', "plan")
    found = _versions(json.loads(result.stdout))
    assert result.exit_code == 0
    assert len(found) == bool(warning)
    assert all(warning in line for line in found)


@pytest.mark.many_cases
@pytest.mark.parametrize("version", some_of(["1.20", "1.22", "1.26", "1.31", "1.34", "1.36", "1.37", "1.38"]))
def test_a_run_acts_where_no_rule_that_differs_is_in_use(
    kubeconfig: Path, tmp_path: Path, version: str
) -> None:
    result = _start(kubeconfig, tmp_path, f'version: "{version}"', "run", "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["outcomes"]


def test_a_run_refuses_a_version_nobody_has_read_and_says_how_to_allow_it(
    kubeconfig: Path, tmp_path: Path
) -> None:
    result = _start(kubeconfig, tmp_path, 'version: "1.99"', "run", "--dry-run")
    assert result.exit_code == REFUSED
    assert "run does not act on scheduler 1.99: what changed after 1.38 is not known" in result.stderr
    assert "scheduler.allowUnverifiedVersion: true" in result.stderr
    allowed = 'version: "1.99"\n  allowUnverifiedVersion: true'
    assert _start(kubeconfig, tmp_path, allowed, "run", "--dry-run").exit_code == 0


def a_scheduler(name: str, version: str) -> Object:
    """A pod of the demo's second scheduler, which mounts its configuration."""
    moment = times.render(present() - 86400.0)
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": moment} for kind in _CONDITIONS]
    image = f"registry.k8s.io/scheduler-plugins/kube-scheduler:v{version}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": CONFIGURATION_NAMESPACE,
            "name": name,
            "uid": f"pod-{name}",
            "creationTimestamp": moment,
        },
        "spec": {
            "nodeName": "node-3",
            "containers": [{"name": "scheduler", "image": image, "command": ["kube-scheduler"]}],
            "volumes": [{"name": "config", "configMap": {"name": CONFIGURATION_NAME}}],
        },
        "status": {"phase": "Running", "startTime": moment, "conditions": conditions},
    }


NAMES = ("sandbox-scheduler", "waiting-scheduler")  # the first holds the Lease
_CONDITIONS = ("PodScheduled", "Ready")


@pytest.mark.parametrize(
    ("versions", "refused"),
    [
        (("0.35.4", "0.35.4"), ""),
        (("0.36.3", "0.37.2"), ""),  # which differ in nothing that these pods use
        (("0.35.4", "0.36.3"), "have versions 1.35 and 1.36, which differ in balance before and after"),
    ],
)
def test_a_run_refuses_a_scheduler_half_of_which_decides_otherwise(
    tmp_path: Path, versions: tuple[str, str], refused: str
) -> None:
    with hot_sandbox() as sandbox:
        sandbox.load(map(a_scheduler, NAMES, versions))
        path = sandbox.write_kubeconfig(tmp_path / "config")
        result = _start(path, tmp_path, "profiles: []", "run", "--dry-run")
    assert result.exit_code == (REFUSED if refused else 0), result.stderr
    assert refused in result.stderr
