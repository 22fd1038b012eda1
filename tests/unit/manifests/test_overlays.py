"""What overlays of your own make of k8s/, by what its comments say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.manifests.documents import ROOT
from tests.unit.manifests.rendering import NO_KUSTOMIZE

pytestmark = pytest.mark.skipif(bool(NO_KUSTOMIZE), reason=NO_KUSTOMIZE or "never")


@pytest.mark.parametrize("part", ["steer", "surge"])
def test_an_overlay_with_a_suffix_limits_its_own_service_account(part: str, tmp_path: Path) -> None:
    """With the patch that the comment of the component shows."""
    shutil.copytree(ROOT / "k8s", tmp_path / "k8s")
    text = (ROOT / "k8s" / "components" / part / "kustomization.yaml").read_text()
    lines = [line.removeprefix("#   ") for line in text.splitlines() if line.startswith("#   ")]
    shown = "\n".join(lines[lines.index("patches:") :])
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "other",
        "nameSuffix": "-two",
        "resources": ["../k8s/overlays/active"],
        "components": [f"../k8s/components/{part}"],
        **yaml.safe_load(shown.replace("NAMESPACE", "other").replace("NAME", "rebalancer-two")),
    }
    (tmp_path / "overlay").mkdir()
    (tmp_path / "overlay" / "kustomization.yaml").write_text(yaml.safe_dump(overlay))

    command = ["kubectl", "kustomize", str(tmp_path / "overlay")]
    made = subprocess.run(command, capture_output=True, check=True, timeout=60, text=True)

    objects = [item for item in yaml.safe_load_all(made.stdout) if item]
    (policy,) = (item for item in objects if item["kind"] == "ValidatingAdmissionPolicy")
    (account,) = (item for item in objects if item["kind"] == "ServiceAccount")
    name = f"system:serviceaccount:{account['metadata']['namespace']}:{account['metadata']['name']}"
    assert name == "system:serviceaccount:other:rebalancer-two"
    assert [item["expression"] for item in policy["spec"]["matchConditions"]] == [
        f'request.userInfo.username == "{name}"'
    ]
