from __future__ import annotations

import json
from pathlib import Path

import pytest

from rebalancer.cluster.kinds import BY_PLURAL
from tests.lab.what_if.builders import a_manifest
from tests.unit.cli.conftest import Program
from tests.unit.cli.hot_dumps import a_hot_dump


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return a_hot_dump(tmp_path / "recorded", nodes=("hot", "hot", "hot", "cool"), also_read=tuple(BY_PLURAL))


def test_how_many_more_pods_fit_is_shown_in_eighty_columns(rebalancer_program: Program, dump: Path) -> None:
    file = dump.parent / "more.json"
    file.write_text(json.dumps(a_manifest()))

    result = rebalancer_program("fit", str(file), "--from", str(dump))

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Pod default/new: 4 more pods fit, on 2 nodes\n")
    assert "0/2 nodes are available: 2 Insufficient cpu." in result.stdout
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines if str(dump) not in line) <= 80
    assert len(lines) <= 26


@pytest.mark.parametrize(
    ("replicas", "said"),
    [(3, "all 3 replicas fit, and 1 more pod, on 2 nodes"), (5, "4 of its 5 replicas fit, on 2 nodes")],
)
def test_whether_the_replicas_of_a_workload_fit_is_what_is_said_first(
    rebalancer_program: Program, dump: Path, replicas: int, said: str
) -> None:
    manifest = a_manifest("Deployment")
    manifest["spec"]["replicas"] = replicas

    result = rebalancer_program("fit", "-", "--from", str(dump), typed=json.dumps(manifest))

    assert result.stdout.startswith(f"Deployment default/new: {said}\n")


def test_a_deployment_on_standard_input_is_answered_in_json(rebalancer_program: Program, dump: Path) -> None:
    manifest = json.dumps(a_manifest("Deployment"))

    result = rebalancer_program("fit", "-", "--from", str(dump), "-o", "json", typed=manifest)

    answer = json.loads(result.stdout)
    assert (answer["kind"], answer["pod"], answer["fits"]) == ("Fit", "Deployment default/new", 4)
    assert answer["inputs"].startswith("sha256:")


def test_a_file_without_a_pod_is_refused_before_the_cluster_is_read(rebalancer_program: Program) -> None:
    result = rebalancer_program("fit", "-", "--from", "/nowhere", typed="kind: Service\n")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "standard input:1:7 kind: 'Service' makes no pods" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_fit_of_a_pod_of_the_cluster_names_the_commands_that_answer_about_it(
    rebalancer_program: Program,
) -> None:
    result = rebalancer_program("fit", "pod/shop/web-1", "--from", "/nowhere")

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: pod/shop/web-1: cannot be read: No such file or directory (fit takes a file with pods to "
        "come, or -; about pods of the cluster ask rebalancer explain pod/NAMESPACE/NAME)\n"
    )


def test_what_a_drain_would_do_is_shown_in_eighty_columns(rebalancer_program: Program, dump: Path) -> None:
    result = rebalancer_program("what-if", "--drain", "hot", "--add-node", "cool=1", "--from", str(dump))

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("What if: drain hot; add 1 like cool\n")
    assert "3 pods: 3 land" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines() if str(dump) not in line) <= 80


def test_two_scheduler_configurations_are_compared_in_json(rebalancer_program: Program, dump: Path) -> None:
    other = dump.parent / "other.yaml"
    other.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")

    result = rebalancer_program(
        "what-if", "--scheduler-config", str(other), "--from", str(dump), "-o", "json"
    )

    answer = json.loads(result.stdout)
    assert answer["kind"] == "WhatIf"
    assert answer["comparison"]["configurations"] == ["defaults", str(other)]
    assert (answer["comparison"]["compared"], answer["comparison"]["differing"]) == (1, [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "what should change?"),
        (("--drain", "no\nde"), "is not the name of a node"),
        (("--scale", "deployment=3"), "names neither a pod nor a node nor a workload"),
    ],
)
def test_a_change_that_cannot_be_read_is_refused_before_the_cluster_is_read(
    rebalancer_program: Program, arguments: tuple[str, ...], words: str
) -> None:
    result = rebalancer_program("what-if", *arguments, "--from", "/nowhere")

    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
