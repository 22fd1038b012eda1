"""What overlays of your own make of k8s/, by what its comments say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.manifests.documents import ROOT, Document
from tests.unit.manifests.rendering import NO_KUSTOMIZE

pytestmark = pytest.mark.skipif(bool(NO_KUSTOMIZE), reason=NO_KUSTOMIZE or "never")


def shown(part: str) -> str:
    """What the comment of a component shows to add to an overlay."""
    text = (ROOT / "k8s" / "components" / part / "kustomization.yaml").read_text()
    lines = [line.removeprefix("#   ") for line in text.splitlines() if line.startswith("#   ")]
    return "\n".join(lines[lines.index("patches:") :])


def made_by(overlay: dict[str, Any], folder: Path) -> list[Document]:
    """The objects of an overlay beside a copy of k8s/."""
    shutil.copytree(ROOT / "k8s", folder / "k8s")
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    (folder / "overlay").mkdir()
    (folder / "overlay" / "kustomization.yaml").write_text(yaml.safe_dump(head | overlay))
    command = ["kubectl", "kustomize", str(folder / "overlay")]
    made = subprocess.run(command, capture_output=True, check=True, timeout=60, text=True)
    return [item for item in yaml.safe_load_all(made.stdout) if item]


@pytest.mark.parametrize("part", ["steer", "surge"])
def test_an_overlay_with_a_suffix_limits_its_own_service_account(part: str, tmp_path: Path) -> None:
    """With the patch that the comment of the component shows."""
    patches = shown(part).replace("NAMESPACE", "other").replace("NAME", "rebalancer-two")
    overlay = {
        "namespace": "other",
        "nameSuffix": "-two",
        "resources": ["../k8s/overlays/active"],
        "components": [f"../k8s/components/{part}"],
        **yaml.safe_load(patches),
    }
    objects = made_by(overlay, tmp_path)

    (policy,) = (item for item in objects if item["kind"] == "ValidatingAdmissionPolicy")
    (account,) = (item for item in objects if item["kind"] == "ServiceAccount")
    name = f"system:serviceaccount:{account['metadata']['namespace']}:{account['metadata']['name']}"
    assert name == "system:serviceaccount:other:rebalancer-two"
    assert [item["expression"] for item in policy["spec"]["matchConditions"]] == [
        f'request.userInfo.username == "{name}"'
    ]


def test_a_service_behind_a_network_policy_can_be_scraped(tmp_path: Path) -> None:
    """With the patch that the comment of the component shows."""
    component = "network-policy"
    overlay = {
        "resources": ["../k8s/overlays/service"],
        "components": [f"../k8s/components/{component}"],
        **yaml.safe_load(shown(component)),
    }
    objects = made_by(overlay, tmp_path)

    (policy,) = (item for item in objects if item["kind"] == "NetworkPolicy")
    (service,) = (item for item in objects if item["kind"] == "Deployment")
    (container,) = service["spec"]["template"]["spec"]["containers"]
    opened = [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
    assert opened == [port["containerPort"] for port in container["ports"]]
