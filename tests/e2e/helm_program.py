"""Helm, built once from the module beside this file; ``python -m tests.e2e.helm_program`` builds it.

A cache of its own, so that neither a newer Helm builds the control plane anew nor the other way round.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import go_programs

MODULE = Path(__file__).parent / "helm"
VERSION = "v3.22.0"
KUBERNETES_MINOR = "34"  # whose APIs `helm template` and `helm lint` take for granted
_PACKAGE = "helm.sh/helm/v3/cmd/helm"


def program() -> Path:
    """The program, built if it is not there. Raises go_programs.BuildError."""
    built = path()
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        fresh = built.with_name(f"helm-{os.getpid()}")
        command = [go_programs.find_go(), "build", *_flags(), "-o", str(fresh), _PACKAGE]
        go_programs.run_go(command, MODULE, {**os.environ, "CGO_ENABLED": "0"}, announced_by="e2e")
        fresh.replace(built)
    return built


def path() -> Path:
    """Where the program is once it has been built."""
    files = (MODULE / "go.mod", MODULE / "go.sum")
    return go_programs.cache_folder("helm", MODULE, files, (VERSION, KUBERNETES_MINOR)) / "helm"


def _flags() -> list[str]:
    values = [f"-X helm.sh/helm/v3/internal/version.version={VERSION}"]
    for package in ("chartutil", "lint/rules"):
        values.append(f"-X helm.sh/helm/v3/pkg/{package}.k8sVersionMajor=1")
        values.append(f"-X helm.sh/helm/v3/pkg/{package}.k8sVersionMinor={KUBERNETES_MINOR}")
    return ["-trimpath", f"-ldflags=-s -w {' '.join(values)}"]


# The chart's image, which has to be named: a registry that cannot exist, as in k8s/.
IMAGE = "--set=image.repository=registry.invalid/rebalancer"


def helm(
    *arguments: str | Path, folder: Path, kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Helm; ``folder`` takes what it keeps for its user."""
    home = {f"HELM_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    cluster = {"KUBECONFIG": str(kubeconfig or folder / "no-cluster")}
    return subprocess.run(
        [str(program()), *map(str, arguments)],
        env={**os.environ, **go_programs.SHORT_LIVED, **home, **cluster},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{program()}\n")
    except go_programs.BuildError as error:
        sys.exit(f"e2e: {error}")
