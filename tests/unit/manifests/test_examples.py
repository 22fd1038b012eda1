"""The chart as Argo CD and Flux install it: their examples render, plan only, and name their cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.policy.policy_file import parse_policy
from tests.unit.manifests.documents import ROOT
from tests.unit.manifests.rendering import NO_HELM
from tests.unit.manifests.test_chart_values import rendered
from tests.unit.manifests.test_schemas import CHART, check

pytestmark = pytest.mark.skipif(bool(NO_HELM), reason=NO_HELM or "never")
EXAMPLES = ROOT / "examples"


def argo_cd() -> tuple[str, dict[str, Any]]:
    """The folder of the chart and the values that the Application gives it."""
    application = yaml.safe_load((EXAMPLES / "argo-cd" / "application.yaml").read_text())
    source = application["spec"]["source"]
    return source["path"], source["helm"]["valuesObject"]


def flux() -> tuple[str, dict[str, Any]]:
    """The same of the HelmRelease, which reads the repository that stands before it."""
    repository, release = yaml.safe_load_all((EXAMPLES / "flux" / "helmrelease.yaml").read_text())
    chart = release["spec"]["chart"]["spec"]
    metadata = repository["metadata"]
    assert chart["sourceRef"] == {
        "kind": repository["kind"],
        "name": metadata["name"],
        "namespace": metadata["namespace"],
    }
    return chart["chart"], release["spec"]["values"]


@pytest.mark.parametrize("example", [argo_cd, flux])
@pytest.mark.parametrize("change", [{}, {"act": True}, {"kind": "Deployment"}], ids=["plan", "act", "serve"])
def test_an_example_renders_and_the_cluster_has_its_name(
    tmp_path: Path, example: Any, change: dict[str, Any]
) -> None:
    path, values = example()
    objects = rendered(tmp_path, {**values, **change})
    check(objects)
    (workload,) = [item for item in objects if item["kind"] in ("CronJob", "Deployment")]
    (policy,) = [
        item["data"]["policy.yaml"]
        for item in objects
        if item["kind"] == "ConfigMap" and "policy.yaml" in item.get("data", {})
    ]
    spec = workload["spec"]
    pod = spec["jobTemplate"]["spec"]["template"] if workload["kind"] == "CronJob" else spec["template"]
    (container,) = pod["spec"]["containers"]

    assert Path(CHART) == ROOT / path
    assert "--cluster-name=prod-eu-1" in container["args"]
    assert values["image"]["repository"] == "registry.example.com/platform/rebalancer"
    assert parse_policy(policy, "policy.yaml").policy.metadata.name == "prod-eu-1"
