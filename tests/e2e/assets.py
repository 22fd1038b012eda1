"""Where the programs of a real control plane come from; ``python -m tests.e2e.assets`` builds those missing.

As users of envtest have them, ``KUBEBUILDER_ASSETS`` is looked in first; then a cache, filled from the Go
modules beside this file and two published programs. Its folders are named by the content they are built from.
An old minor has an API server, controllers and a scheduler of its own; etcd and the clients are those of
``MINORS[0]``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tests import go_programs, kubernetes_modules, trimaran
from tests.e2e import custom_resources

MODULE = Path(__file__).parent / "controlplane"
MINORS = tuple(sorted(path.stem for path in (MODULE / "minors").glob("*.mod")))
OLD_MODULE = Path(__file__).parent / "oldcontrolplane"
OLD_MINORS = tuple(sorted(path.stem for path in (OLD_MODULE / "minors").glob("*.mod")))
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
OLD_PARTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
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
    folders = _folders(name)
    for folder in folders:
        if (path := folder / name).exists():
            return path
    raise MissingAssetsError(f"{name}: not in {' or '.join(map(str, folders))}; {HOW_TO_GET_THEM}")


def missing() -> list[str]:
    """The names of the programs that are not there."""
    return [
        name
        for name in (*PARTS, *INSTALLED)
        if not any((folder / name).exists() for folder in _folders(name))
    ]


def build() -> Path:
    """Build what is not in the cache; its folder. Raises MissingAssetsError when that fails."""
    try:
        go = go_programs.find_go()
        if MINOR not in OLD_MINORS:
            return _build(go, MINOR)
        _build(go, MINORS[0])
        return _build_old(go, MINOR)
    except go_programs.BuildError as error:
        raise MissingAssetsError(str(error)) from error


def _build(go: str, minor: str) -> Path:
    folder = cache_folder(minor)
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(folder)}
    if not (folder / "controlplane").exists():
        of_minor = {**environment, "GOTOOLCHAIN": kubernetes_modules.toolchain(_module(minor))}
        module = trimaran.module_file(go, minor, _module(minor), folder, MODULE, of_minor)
        if custom_resources.are_split_off(module):
            custom_resources.add_to(module, go, folder, of_minor)
        from_135 = ["-tags=from135"] if int(minor.split(".")[1]) >= 35 else []
        command = [go, "build", *from_135, *_flags(minor), f"-modfile={module}"]
        _go([*command, "-o", str(folder / "controlplane"), "."], of_minor, MODULE)
    _link(folder, PARTS)
    for name, package in INSTALLED.items():
        if not (folder / name).exists():
            _go([go, "install", "-trimpath", "-ldflags=-s -w", package], environment, Path("/"))
    return folder


def _build_old(go: str, minor: str) -> Path:
    folder = cache_folder(minor)
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0"}
    if not (folder / "controlplane").exists():
        # Without the clients of cloud providers, which are much of the program.
        command = [go, "build", "-tags=providerless", *_flags(minor), f"-modfile={_module(minor)}"]
        _go([*command, "-o", str(folder / "controlplane"), "."], environment, OLD_MODULE)
    _link(folder, OLD_PARTS)
    return folder


def _link(folder: Path, names: Iterable[str]) -> None:
    """Call the program in this folder by the names of its parts."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("controlplane")


def cache_folder(minor: str = MINOR) -> Path:
    """Where programs built from this content are kept."""
    module = _module(minor)
    files = module, module.with_suffix(".sum")
    if minor in OLD_MINORS:
        sources = sorted((*OLD_MODULE.rglob("*.go"), OLD_MODULE / "go.mod", *files))
        return go_programs.cache_folder("controlplane", OLD_MODULE, sources, minor)
    sources = sorted((*MODULE.rglob("*.go"), MODULE / "go.mod", *files))
    settings: tuple[object, ...] = (minor, sorted(INSTALLED.items()), Path(trimaran.__file__).read_text())
    if custom_resources.are_split_off(module):
        settings = (*settings, Path(custom_resources.__file__).read_text())
    return go_programs.cache_folder("controlplane", MODULE, sources, settings)


def _module(minor: str) -> Path:
    """The go.mod of the minor. Raises MissingAssetsError when there is none."""
    for module, minors in ((MODULE, MINORS), (OLD_MODULE, OLD_MINORS)):
        if minor in minors:
            return module / "minors" / f"{minor}.mod"
    raise MissingAssetsError(
        f"REBALANCER_E2E_MINOR is {minor}: there are {', '.join((*OLD_MINORS, *MINORS))}"
    )


def kubernetes_version(minor: str = MINOR) -> str:
    """The version of the control plane, such as 1.34.4: what k8s.io/kubernetes is replaced by."""
    found = re.search(r"k8s\.io/kubernetes => k8s\.io/kubernetes v(\S+)", _module(minor).read_text())
    assert found is not None
    return found[1]


def _folders(name: str) -> list[Path]:
    """Where a program may be, the first choice first."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folders = [Path(assets)] if assets else []
    folders.append(cache_folder())
    if MINOR in OLD_MINORS and name not in OLD_PARTS:
        folders.append(cache_folder(MINORS[0]))
    return folders


def _flags(minor: str) -> list[str]:
    version = kubernetes_version(minor)
    major, number, _ = version.split(".", 2)
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": number}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    settings = [f"-X {package}.{name}={value}" for package in packages for name, value in values.items()]
    return ["-trimpath", f"-ldflags=-s -w {' '.join(settings)}"]


def _go(command: list[str], environment: dict[str, str], folder: Path) -> None:
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
