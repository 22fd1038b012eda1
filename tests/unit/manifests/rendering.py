"""What renders manifests on this machine, and why it cannot."""

from __future__ import annotations

import json
import shutil
import subprocess

from tests.e2e import helm_program
from tests.go_programs import BuildError


def _no_kustomize() -> str:
    """Why overlays cannot be rendered here; empty when they can."""
    if shutil.which("kubectl") is None:
        return "no kubectl: apt-get install kubernetes-client, or see https://kubernetes.io/docs/tasks/tools"
    printed = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"], capture_output=True, check=False, timeout=60
    )
    try:
        version = json.loads(printed.stdout)["kustomizeVersion"]
    except (ValueError, KeyError):
        return "kubectl is older than 1.21: its kustomize cannot render these overlays"
    return "" if version >= "v4" else f"kustomize {version} cannot render these overlays; 4.1 can"


def _no_helm() -> str:
    """Why the chart cannot be rendered here; empty when it can. Nothing is built."""
    try:
        return "" if helm_program.path().exists() else "no Helm: make e2e-assets builds it"
    except BuildError as error:
        return str(error)


NO_KUSTOMIZE, NO_HELM = _no_kustomize(), _no_helm()
