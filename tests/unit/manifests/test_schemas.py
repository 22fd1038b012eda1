"""Every manifest is what Kubernetes defines, field by field, on the oldest and the newest minor supported.

The chart is rendered where Helm has been built (``make e2e-assets``), overlays where there is a kubectl.
"""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import helm_program
from tests.kubernetes_api.schemas import VERSIONS, problems
from tests.rows import rows
from tests.unit.manifests.documents import ACTIVE, BASE, ROOT, Document, resources
from tests.unit.manifests.rendering import NO_HELM, NO_KUSTOMIZE

CHART = ROOT / "charts" / "rebalancer"
RICH = ROOT / "tests" / "e2e" / "chart_values.yaml"
MODES = (
    (),
    ("--set=act=true",),
    ("--set=act=true,allowSurge=true,allowSteer=true,networkPolicy.create=true",),
    (f"--values={RICH}",),
    (f"--values={RICH}", "--set=kind=Deployment,metricsPush=,suspend=false"),
    ("--set=kind=Deployment",),
    ("--set=kind=Deployment,replicas=2,act=true",),
    (
        "--set=kind=Deployment,act=true,networkPolicy.create=true,service.enabled=true",
        "--set=serviceMonitor.enabled=true,prometheusRule.enabled=true,grafanaDashboard.enabled=true",
    ),
)


def check(objects: list[Document]) -> None:
    assert objects
    for version in VERSIONS:
        assert [found for item in objects for found in problems(item, version)] == []


def test_what_stands_in_the_repository_is_as_kubernetes_defines_it() -> None:
    folders = (BASE, ROOT / "extender" / "k8s", *sorted((ROOT / "k8s" / "components").iterdir()))
    check([item for folder in folders for item in resources(folder)])


@pytest.mark.skipif(bool(NO_KUSTOMIZE), reason=NO_KUSTOMIZE or "never")
@pytest.mark.parametrize("folder", [BASE, ACTIVE], ids=["base", "active"])
def test_what_kustomize_makes_is_as_kubernetes_defines_it(folder: Path) -> None:
    command = ["kubectl", "kustomize", str(folder)]
    made = subprocess.run(command, capture_output=True, check=True, timeout=60, text=True)
    check([item for item in yaml.safe_load_all(made.stdout) if item])


@pytest.mark.skipif(bool(NO_HELM), reason=NO_HELM or "never")
@pytest.mark.parametrize("options", MODES, ids=" ".join)
def test_what_the_chart_makes_is_as_kubernetes_defines_it(options: tuple[str, ...], tmp_path: Path) -> None:
    made = helm_program.helm("template", "rebalancer", CHART, helm_program.IMAGE, *options, folder=tmp_path)
    assert made.returncode == 0, made.stderr
    check([item for item in yaml.safe_load_all(made.stdout) if item])


def every_map(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every map in a document that is not free in its keys."""
    if isinstance(value, dict):
        yield path
        for key, item in value.items():
            yield from every_map(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from every_map(item, (*path, index))


FREE = {"labels", "annotations", "data", "matchLabels", "limits", "requests", "nodeSelector"}


def test_a_misspelt_key_is_found_wherever_it_stands() -> None:
    objects = [
        item for folder in (BASE, ROOT / "k8s/components/network-policy") for item in resources(folder)
    ]
    tried = 0
    for item in objects:
        for path in every_map(item):
            if path and path[-1] in FREE:
                continue
            changed: Any = copy.deepcopy(item)
            place = changed
            for step in path:
                place = place[step]
            place["misspelt"] = True
            tried += 1
            assert any("misspelt" in found for found in problems(changed, VERSIONS[0])), (item["kind"], path)
    assert tried > 50


@rows(
    "path, value",
    [
        (("spec", "schedule"), 15),
        (("spec", "concurrencyPolicy"), True),
        (("spec", "jobTemplate", "spec", "template", "spec", "containers"), {}),
        (("apiVersion",), "batch/v1beta1"),
    ],
)
def test_a_value_of_another_type_or_a_removed_version_is_found(path: tuple[str, ...], value: Any) -> None:
    (item,) = [found for found in resources(BASE) if found["kind"] == "CronJob"]
    changed: Any = copy.deepcopy(item)
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value

    assert all(problems(changed, version) for version in VERSIONS)
