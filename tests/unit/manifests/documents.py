"""The manifests as they stand in the repository, read without any Kubernetes tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
BASE = ROOT / "k8s" / "base"
ACTIVE = ROOT / "k8s" / "overlays" / "active"
SERVICE = ROOT / "k8s" / "overlays" / "service"
VERBS_THAT_READ = {"get", "list", "watch"}

Document = dict[str, Any]


def read(path: Path) -> Document:
    """The one document of a file; libyaml reads it in a tenth of the time."""
    document: Document = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    return document


def resources(folder: Path) -> list[Document]:
    """The objects a kustomization lists in its own folder."""
    listed = read(folder / "kustomization.yaml")["resources"]
    return [read(folder / name) for name in listed if name.endswith(".yaml")]


def of_kind(folder: Path, kind: str) -> Document:
    """The one object of a kind."""
    (found,) = [item for item in resources(folder) if item["kind"] == kind]
    return found


def rules(folder: Path, kind: str = "ClusterRole") -> list[Document]:
    """The rules of all roles of a kind."""
    return [rule for item in resources(folder) if item["kind"] == kind for rule in item["rules"]]


def grants(found: list[Document]) -> set[tuple[str, str, str, tuple[str, ...]]]:
    """What rules grant, one by one: group, resource, verb, names."""
    return {
        (group, resource, verb, tuple(rule.get("resourceNames", ())))
        for rule in found
        for group in rule.get("apiGroups", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def pod_template(cron_job: Document) -> Document:
    """The pod that a CronJob's Job starts, its spec."""
    spec: Document = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec
