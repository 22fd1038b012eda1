"""Writes the clusters of the descheduler's own unit tests as cases.

``python -m tests.conformance.descheduler.tables.harvest``: its tests build them in Go, so they are run, in a
copy of the module whose constructors print what they are given. Each case keeps the facts (objects, arguments
and how many pods its test saw evicted), under the name of its test. Cases that read metrics are left out, for
a client of them is no part of a case.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests import go_programs
from tests.conformance.descheduler import recorded
from tests.conformance.descheduler.build import MODULE

_PACKAGES = "./pkg/framework/plugins/..."
_PLUGINS = {
    "podlifetime": "PodLifeTime",
    "removeduplicates": "RemoveDuplicates",
    "removefailedpods": "RemoveFailedPods",
    "removepodshavingtoomanyrestarts": "RemovePodsHavingTooManyRestarts",
    "removepodsviolatinginterpodantiaffinity": "RemovePodsViolatingInterPodAntiAffinity",
    "removepodsviolatingnodeaffinity": "RemovePodsViolatingNodeAffinity",
    "removepodsviolatingnodetaints": "RemovePodsViolatingNodeTaints",
    "removepodsviolatingtopologyspreadconstraint": "RemovePodsViolatingTopologySpreadConstraint",
    "lownodeutilization": "LowNodeUtilization",
    "highnodeutilization": "HighNodeUtilization",
}
_BALANCE = (
    "RemoveDuplicates",
    "RemovePodsViolatingTopologySpreadConstraint",
    "LowNodeUtilization",
    "HighNodeUtilization",
)
_IMPORT = 'import (\n\t"sigs.k8s.io/descheduler/pkg/recorded"\n'
_NEW = re.compile(
    r"^func New(\w*)\(\s*ctx context\.Context, (\w+) runtime\.Object, handle \w+\.Handle,?\s*\) .*\{$",
    re.MULTILINE,
)
_EVICTOR = re.compile(r"^func NewPodEvictor\((?:.|\n)*?^\) .*\{$", re.MULTILINE)
_TOTAL = re.compile(r"^func \(pe \*PodEvictor\) TotalEvicted\(\) uint \{$", re.MULTILINE)
Case = dict[str, Any]


def copy_of_module(target: Path) -> None:
    """The descheduler's source as the oracle is built from, with what prints added."""
    answer = subprocess.run(
        [go_programs.find_go(), "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/descheduler"],
        cwd=MODULE, env=os.environ, check=True, capture_output=True, text=True,
    )  # fmt: skip
    shutil.copytree(answer.stdout.strip(), target, copy_function=shutil.copyfile)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    (target / "pkg/recorded").mkdir()
    shutil.copy(Path(__file__).with_name("recorded.go"), target / "pkg/recorded")
    for path in (target / "pkg/framework/plugins").rglob("*.go"):
        if not path.name.endswith("_test.go"):
            _patch(path, _NEW, lambda found, path=path: _made(found, path.parent.name))
    evictor = target / "pkg/descheduler/evictions/evictions.go"
    _patch(
        evictor,
        _EVICTOR,
        lambda found: (
            f"{found[0]}\n\tif o := options; o != nil {{\n\t\trecorded.Limits("
            "o.maxPodsToEvictPerNode, o.maxPodsToEvictPerNamespace, o.maxPodsToEvictTotal)\n\t}"
        ),
    )
    _patch(
        evictor,
        _TOTAL,
        lambda found: f"{found[0]}\n\tdefer func() {{ recorded.Evicted(pe.totalPodCount) }}()",
    )


def _made(found: re.Match[str], package: str) -> str:
    name = (found[1] or package).lower()
    return f'{found[0]}\n\trecorded.Made("{name}", {found[2]}, handle.ClientSet())'


def _patch(path: Path, pattern: re.Pattern[str], replacement: Any) -> None:
    text = path.read_text()
    patched, count = pattern.subn(replacement, text)
    if count:
        path.write_text(patched if "pkg/recorded" in text else patched.replace("import (\n", _IMPORT, 1))


def cases_of(lines: Iterable[str]) -> Iterator[Case]:
    """The cases that a run of the tests prints."""
    name, limits, case = "", {}, None
    for line in lines:
        if line.startswith("=== RUN"):
            name = line.split(None, 2)[2].strip()
        if not line.startswith("RECORDED "):
            continue
        ((kind, value),) = json.loads(line.removeprefix("RECORDED ")).items()
        if kind == "limits":
            limits = {key: number for key, number in value.items() if number is not None}
        elif kind == "evictor":
            if case is not None:
                yield case
            case, limits = _case(name, value, limits), {}
        elif kind == "plugin" and case is not None:
            plugin = _PLUGINS.get(value["package"])
            case = (
                None
                if plugin is None or value["args"].get("metricsUtilization")
                else _with(case, plugin, value["args"])
            )
        elif kind == "evicted" and case is not None:
            yield case | {"evicted": value}
            case = None
    if case is not None:
        yield case


def _case(name: str, made: dict[str, Any], limits: dict[str, int]) -> Case:
    """The case of an evictor: what it lets go is what a strategy that wants all pods evicts."""
    arguments = _stated(made["args"])
    if isinstance(arguments.get("priorityThreshold"), dict) and not arguments["priorityThreshold"]:
        del arguments["priorityThreshold"]
    policy = {
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", **limits,
        "profiles": [{"name": "p", "pluginConfig": [{"name": "DefaultEvictor", "args": arguments}]}],
    }  # fmt: skip
    objects = {plural: [_item(item) for item in items or ()] for plural, items in made["objects"].items()}
    case = {
        "id": name,
        "objects": {plural: items for plural, items in objects.items() if items},
        "policy": policy,
    }
    return _with(case, "PodLifeTime", {"maxPodLifeTimeSeconds": 0})


def with_spare_node(case: Case) -> Case:
    """The case with a cordoned, tainted node if it has a single one: no cycle is run with fewer than two."""
    nodes = case["objects"].get("nodes", [])
    if len(nodes) > 1:
        return case
    spare: Case = {
        "metadata": {"name": "spare", "labels": {"kubernetes.io/hostname": "spare"}},
        "spec": {"unschedulable": True, "taints": [{"key": "spare", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    return case | {"objects": case["objects"] | {"nodes": [*nodes, spare]}}


def _with(case: Case, plugin: str, arguments: dict[str, Any]) -> Case:
    policy = case["policy"]
    evictor = policy["profiles"][0]["pluginConfig"][0]
    point = "balance" if plugin in _BALANCE else "deschedule"
    profile = {
        "name": "p",
        "pluginConfig": [evictor, {"name": plugin, "args": _stated(arguments)}],
        "plugins": {point: {"enabled": [plugin]}},
    }
    return case | {"family": plugin, "policy": policy | {"profiles": [profile]}}


def _stated(value: Any) -> Any:
    """A value without what is null: Go prints fields that nobody set."""
    if isinstance(value, dict):
        return {key: _stated(item) for key, item in value.items() if item is not None}
    return [_stated(item) for item in value] if isinstance(value, list) else value


def _item(item: dict[str, Any]) -> dict[str, Any]:
    """An object without what is drawn by chance in every run."""
    made: Case = _stated(item)
    for name in ("uid", "selfLink"):
        made["metadata"].pop(name, None)
    return made


def main() -> int:
    """Run the tests and write what they set up."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "descheduler"
        copy_of_module(source)
        tests = subprocess.run(
            [go_programs.find_go(), "test", "-p=1", "-trimpath", "-mod=mod", "-count=1", "-v", _PACKAGES],
            cwd=source, env=os.environ, check=False, capture_output=True, text=True,
        )  # fmt: skip
    found = list(map(with_spare_node, cases_of(tests.stdout.splitlines())))
    if tests.returncode or not found:
        sys.stderr.write(tests.stderr[-2000:] + "\n".join(tests.stdout.splitlines()[-20:]))
        return 1
    recorded.write("tables", found)
    sys.stdout.write(f"{len(found)} cases of {len({case['family'] for case in found})} plugins\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
