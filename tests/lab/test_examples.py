"""Workers: the manifest is one that dask-kubernetes' operator takes, and their image can be built."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "examples" / "dask" / "cluster.yaml"
DOCKERFILE = ROOT / "examples" / "dask" / "Dockerfile"


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


def test_the_context_of_their_image_holds_what_it_installs(tmp_path: Path) -> None:
    """An engine takes the ignore file beside the Dockerfile that is called so, and else that of the clone."""
    lines = DOCKERFILE.with_name(f"{DOCKERFILE.name}.dockerignore").read_text().splitlines()
    (copied,) = (line for line in DOCKERFILE.read_text().splitlines() if line.startswith("COPY"))
    assert copied == "COPY . /src"
    assert next(line for line in lines if not line.startswith("#")) == "*"
    for name in (line.removeprefix("!") for line in lines if line.startswith("!")):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)

    # The Dockerfile has pip install these two, and pip has hatchling build them.
    for project in (tmp_path, tmp_path / "lab"):
        build = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
            str(tmp_path / "dist"),
        ]
        subprocess.run(build, cwd=project, check=True, capture_output=True, timeout=120)

    assert {path.name.partition("-")[0] for path in (tmp_path / "dist").iterdir()} == {
        "rebalancer",
        "rebalancer_lab",
    }
