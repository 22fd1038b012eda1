"""The manifest of workers is one that dask-kubernetes' operator takes, without rights in the cluster."""

from pathlib import Path
from typing import Any

import yaml

MANIFEST = Path(__file__).parents[2] / "examples" / "dask" / "cluster.yaml"


def test_workers_and_scheduler_have_no_rights_and_the_names_that_the_operator_looks_for() -> None:
    document: dict[str, Any] = yaml.safe_load(MANIFEST.read_text())

    assert (document["apiVersion"], document["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    name, spec = document["metadata"]["name"], document["spec"]
    for part in ("worker", "scheduler"):
        pod = spec[part]["spec"]
        (container,) = pod["containers"]
        assert container["name"] == part
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["args"][:2] == ["dask", part]
    service = spec["scheduler"]["service"]
    assert service["selector"] == {"dask.org/cluster-name": name, "dask.org/component": "scheduler"}
    assert {port["name"] for port in service["ports"]} == {"tcp-comm", "http-dashboard"}
