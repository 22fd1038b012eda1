"""The module k8s.io/apiextensions-api, made from the release before the one that split it off.

From 1.38 on the types and clients of CustomResourceDefinitions are a module of their own, which the module
proxy does not serve. Up to 1.37 the same packages were part of k8s.io/apiextensions-apiserver, beside their
conversions, which stayed there. So a build gets a copy of them that names them at their new place.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests import go_programs

_NEW = "k8s.io/apiextensions-api"
_OLD = "k8s.io/apiextensions-apiserver"
_OLD_VERSION = "v0.37.2"
_PARTS = ("pkg/apis/apiextensions/v1", "pkg/apis/apiextensions/v1beta1", "pkg/client")
_CONVERSIONS = ("conversion.go", "zz_generated.conversion.go")
_RENAMED = {
    f'"{_OLD}/': f'"{_NEW}/',
    '"sigs.k8s.io/structured-merge-diff/v6/': '"sigs.k8s.io/structured-merge-diff/v7/',
    "nullLiteral": '[]byte("null")',  # declared among the conversions
}
_GO_MOD = f"module {_NEW}\n\ngo 1.27.0\n"


def are_split_off(module: Path) -> bool:
    """Whether a go.mod names the module."""
    return f"{_NEW} " in module.read_text()


def add_to(module: Path, go: str, folder: Path, environment: Mapping[str, str]) -> None:
    """Have a go.mod in ``folder`` use the copy. Raises BuildError when its sources cannot be fetched."""
    download = subprocess.run(
        [go, "mod", "download", "-json", f"{_OLD}@{_OLD_VERSION}"],
        cwd="/",  # outside of any module, so that no go.sum changes
        env=dict(environment),
        check=False,
        capture_output=True,
        text=True,
    )
    if download.returncode:
        raise go_programs.BuildError(f"{_OLD} could not be fetched: {download.stderr.strip()[-300:]}")
    original = Path(json.loads(download.stdout)["Dir"])
    copy = folder / "apiextensions-api"
    for part in _PARTS:
        for path in sorted((original / part).rglob("*.go")):
            if path.name in _CONVERSIONS or path.stem.endswith("_test"):
                continue
            target = copy / path.relative_to(original)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(renamed(path.read_text()))
    (copy / "go.mod").write_text(_GO_MOD)
    with module.open("a") as file:
        file.write(f"\nreplace {_NEW} => {copy}\n")


def renamed(source: str) -> str:
    """A file of these packages with all that it imports named at its new place."""
    for old, new in _RENAMED.items():
        source = source.replace(old, new)
    return source
