"""Where the programs of a real control plane come from; ``python -m tests.e2e.assets`` builds those missing.

As users of envtest have them, ``KUBEBUILDER_ASSETS`` is looked in first; then a cache, filled from the Go
module beside this file and two published programs. Its folder is named by the content it is built from.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tests import go_programs, trimaran

MODULE = Path(__file__).parent / "controlplane"
MINORS = tuple(sorted(path.stem for path in (MODULE / "minors").glob("*.mod")))
# The minor whose control plane the suite runs on.
MINOR = os.environ.get("REBALANCER_E2E_MINOR") or MINORS[0]
PARTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "load-watcher",
    "service-account-key",
)
INSTALLED = {
    "kwok": "sigs.k8s.io/kwok/cmd/kwok@v0.7.0",
    "metrics-server": "sigs.k8s.io/metrics-server/cmd/metrics-server@v0.9.0",
}
HOW_TO_GET_THEM = (
    "make e2e-assets builds them (Go >= 1.26, about 10 minutes on two cores, once), or set KUBEBUILDER_ASSETS"
)


class MissingAssetsError(Exception):
    """Programs of the control plane are nowhere to be found, or cannot be built."""


def find(name: str) -> Path:
    """The program of this name. Raises MissingAssetsError."""
    for folder in _folders():
        if (path := folder / name).exists():
            return path
    raise MissingAssetsError(f"{name}: not in {' or '.join(map(str, _folders()))}; {HOW_TO_GET_THEM}")


def missing() -> list[str]:
    """The names of the programs that are not there."""
    return [
        name for name in (*PARTS, *INSTALLED) if not any((folder / name).exists() for folder in _folders())
    ]


def build() -> Path:
    """Build what is not in the cache; its folder. Raises MissingAssetsError when that fails."""
    try:
        return _build(go_programs.find_go())
    except go_programs.BuildError as error:
        raise MissingAssetsError(str(error)) from error


def _build(go: str) -> Path:
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(folder)}
    if not (folder / "controlplane").exists():
        module = trimaran.module_file(go, MINOR, _module(), folder, MODULE, environment)
        flags = [*_flags(), f"-modfile={module}"]
        _go([go, "build", *flags, "-o", str(folder / "controlplane"), "."], environment)
    for name in PARTS:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("controlplane")
    for name, package in INSTALLED.items():
        if not (folder / name).exists():
            _go([go, "install", "-trimpath", "-ldflags=-s -w", package], environment, Path("/"))
    return folder


def cache_folder() -> Path:
    """Where programs built from this content are kept."""
    module = _module()
    sources = sorted((*MODULE.rglob("*.go"), MODULE / "go.mod", module, module.with_suffix(".sum")))
    settings = (MINOR, sorted(INSTALLED.items()), Path(trimaran.__file__).read_text())
    return go_programs.cache_folder("controlplane", MODULE, sources, settings)


def _module() -> Path:
    """The go.mod of the minor. Raises MissingAssetsError when there is none."""
    if MINOR not in MINORS:
        raise MissingAssetsError(f"REBALANCER_E2E_MINOR is {MINOR}: there are {', '.join(MINORS)}")
    return MODULE / "minors" / f"{MINOR}.mod"


def kubernetes_version() -> str:
    """The version of the control plane, such as 1.34.4: what k8s.io/kubernetes is replaced by."""
    found = re.search(r"k8s\.io/kubernetes => k8s\.io/kubernetes v(\S+)", _module().read_text())
    assert found is not None
    return found[1]


def _folders() -> list[Path]:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    return [*([Path(assets)] if assets else []), cache_folder()]


def _flags() -> list[str]:
    version = kubernetes_version()
    major, minor, _ = version.split(".")
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    settings = [f"-X {package}.{name}={value}" for package in packages for name, value in values.items()]
    from_135 = ["-tags=from135"] if int(minor) >= 35 else []
    return [*from_135, "-trimpath", f"-ldflags=-s -w {' '.join(settings)}"]


def _go(command: list[str], environment: dict[str, str], folder: Path = MODULE) -> None:
    go_programs.run_go(command, folder, environment, announced_by="e2e")


def is_built() -> bool:
    """Whether all programs of the minor are there already."""
    return not missing()


if __name__ == "__main__":
    if sys.argv[1:] == ["--only-find"]:
        sys.exit(0 if is_built() else 1)
    try:
        if missing():
            sys.stderr.write(f"e2e: built in {build()}\n")
        sys.stdout.write(f"{find('kubectl').parent}\n")
    except MissingAssetsError as error:
        sys.exit(f"e2e: {error}")
