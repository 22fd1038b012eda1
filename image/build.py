"""Builds the image of rebalancer without a container engine or a registry: ``python image/build.py``.

It holds what the image of the Dockerfile holds: Python 3.11 of Debian 12, the packages of
``image/site_packages.sh`` and our own; with ``--image rebalancer-extender`` those of the extender too. Its
base is made of Debian's own packages, pinned by their SHA-256 in ``image/debian.lock``, where the Dockerfile
takes an image from a registry. The result is an OCI archive, which ``docker load``, ``podman load`` and
``skopeo`` read, and beside it an SBOM in CycloneDX for each architecture. Nothing in it depends on when and
where it was built, so that two builds of a commit are equal, byte for byte.

Nothing of another architecture is run: its packages and wheels are unpacked; bytecode is the same for all.

Needs Debian 12 with apt, and Python 3.11 with pip in PYTHON (by default the one that runs this).
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "image" / "debian.lock"
VERSION = re.findall(r'__version__ = "(.+)"', (ROOT / "rebalancer" / "__init__.py").read_text())[0]


class Image(NamedTuple):
    """One of the images."""

    description: str
    projects: tuple[str, ...]  # whose packages it holds


IMAGES = {
    "rebalancer": Image("Evicts pods from hot Kubernetes nodes, only when they will land better.", (".",)),
    "rebalancer-extender": Image("Scores nodes for a stock kube-scheduler.", (".", "extender")),
}
# By Debian's name, which is the registries' too: what wheels and ELF files call an architecture.
MACHINES = {"amd64": ("x86_64", 62), "arm64": ("aarch64", 183)}
HERE = {machine: name for name, (machine, _) in MACHINES.items()}.get(platform.machine(), "")
USER = 65532
# Links that the base-files package of a merged-usr Debian brings.
MERGED = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
# Of Debian's packages only what runs; the licences stay.
UNUSED = ("usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bash-completion", "var")
UNUSED_OF_PYTHON = ("lib2to3", "idlelib", "pydoc_data", "ensurepip", "unittest", "tkinter", "turtledemo")


def main() -> None:
    """Build, or renew the lock of Debian's packages."""
    parser = argparse.ArgumentParser(description="Build the image of rebalancer without a container engine.")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "dist", help="folder for the archive and the SBOM"
    )
    parser.add_argument(
        "--check", action="store_true", help="start the image's program in a chroot (needs root)"
    )
    parser.add_argument(
        "--architecture",
        dest="architectures",
        action="append",
        choices=MACHINES,
        help="by default this machine's",
    )
    parser.add_argument("--image", default="rebalancer", choices=IMAGES, help="which of the images")
    parser.add_argument("--renew", action="store_true", help="renew image/debian.lock and do nothing else")
    options = parser.parse_args()
    if options.renew:
        renew()
        return
    require_python()
    with tempfile.TemporaryDirectory(prefix="rebalancer-image-") as work:
        build(Path(work), options.output, options.architectures or [HERE], options.image, check=options.check)


def require_python() -> None:
    """Leave unless wheels are built for the Python that they will run on."""
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    python = os.environ.get("PYTHON", sys.executable)
    found = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()
    if found != "3.11":
        sys.exit(f"image: {python} is Python {found}, and the image has 3.11; name a Python 3.11 in PYTHON")


def build(work: Path, output: Path, architectures: list[str], image: str, *, check: bool) -> None:
    """Write the archive and the SBOMs; say how large the image is."""
    output.mkdir(parents=True, exist_ok=True)
    images = []
    for architecture in architectures:
        folder = work / architecture
        base, application = folder / "base", folder / "application"
        application.mkdir(parents=True)
        debian_layer(base, folder, architecture)
        site_packages = application / "site-packages"
        script = [str(ROOT / "image" / "site_packages.sh"), str(site_packages), MACHINES[architecture][0]]
        # The order in which Python writes the members of a set into bytecode depends on its seed for hashes.
        environment = {"PYTHON": os.environ.get("PYTHON", sys.executable), "PYTHONHASHSEED": "0"}
        subprocess.run(script, cwd=ROOT, env={**os.environ, **environment}, check=True)
        own = [environment["PYTHON"], "image/own_packages.py", str(site_packages), *IMAGES[image].projects]
        subprocess.run(own, cwd=ROOT, env={**os.environ, **environment}, check=True)
        check_machine(folder, architecture)
        if check and architecture == HERE:
            start(folder, base, application)
        layers = [(layer(part), note) for part, note in ((base, "Debian 12"), (application, image))]
        images.append((architecture, layers))
        bill = output / f"{image}-{VERSION}-{architecture}.cdx.json"
        bill.write_text(json.dumps(sbom(image, site_packages, architecture), indent=2) + "\n")
        for (content, note), part in zip(layers, (base, application), strict=True):
            print(f"{architecture}, {note}: {size(part) / 1e6:.1f} MB, {len(content) / 1e6:.1f} MB packed")
    archive = output / f"{image}-{VERSION}.oci.tar"
    digest = write_archive(archive, image, images)
    print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB, index sha256:{digest}")


def check_machine(folder: Path, architecture: str) -> None:
    """Leave where a program or library is for another machine: nobody here could start that one."""
    found = set()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                head = file.read(20)
            if head[:4] == b"\x7fELF":
                found.add(int.from_bytes(head[18:20], "little"))
    if found != {MACHINES[architecture][1]}:
        sys.exit(f"image: {architecture}: programs are for ELF machines {sorted(found)}")


# Debian's packages


def locked(architecture: str) -> list[tuple[str, str, str]]:
    """Name, version and SHA-256 of each of Debian's packages for an architecture."""
    lines = (line.split() for line in LOCK.read_text().splitlines() if not line.startswith("#"))
    column = list(MACHINES).index(architecture)
    return [(name, version, digests[column]) for name, version, *digests in lines]


def apt(folder: Path, architecture: str) -> list[str]:
    """Options by which apt keeps lists of its own in a folder, those of an architecture; reads them first.

    So nothing of this machine's changes, nobody has to be root, and the lists are never older than the build.
    """
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    updated = subprocess.run(
        ["apt-get", "update", "--quiet", *options], check=False, capture_output=True, text=True
    )
    if updated.returncode:
        sys.exit(f"image: apt-get update: {' '.join(updated.stderr.split())[:300]}")
    return options


def renew() -> None:
    """Write the versions that apt offers now to the lock."""
    head = [line for line in LOCK.read_text().splitlines() if line.startswith("#")]
    rows: dict[str, list[str]] = {}
    for architecture in MACHINES:
        with tempfile.TemporaryDirectory(prefix="rebalancer-apt-") as folder:
            options = apt(Path(folder), architecture)
            for name, _, _ in locked("amd64"):
                command = ["apt-cache", "show", "--no-all-versions", *options, name]
                shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                fields = dict(re.findall(r"^(Version|SHA256): (.+)$", shown, re.MULTILINE))
                row = rows.setdefault(name, [name, fields["Version"]])
                if row[1] != fields["Version"]:
                    sys.exit(f"image: {name} has another version for {architecture}: {fields['Version']}")
                row.append(fields["SHA256"])
    LOCK.write_text("\n".join([*head, *(" ".join(row) for row in rows.values())]) + "\n")


def debian_layer(target: Path, work: Path, architecture: str) -> None:
    """Unpack the locked packages, and add a user, its home and the certificates."""
    packages = work / "packages"
    packages.mkdir(mode=0o755)
    work.chmod(0o755)  # apt downloads as a user of its own
    target.mkdir()
    for link, to in MERGED.items():
        (target / to).mkdir(parents=True, exist_ok=True)
        (target / link).symlink_to(to)
    wanted = locked(architecture)
    options = apt(work / "apt", architecture)
    for name, version, _ in wanted:
        fetched = subprocess.run(
            ["apt-get", "download", "--quiet", *options, f"{name}={version}"],
            cwd=packages,
            check=False,
            capture_output=True,
            text=True,
        )
        if fetched.returncode:
            sys.exit(
                f"image: {name} {version} is not offered by apt any more: {fetched.stderr.strip()[:300]}\n"
                "image: renew image/debian.lock: python image/build.py --renew"
            )
    found = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in packages.iterdir()}
    for name, version, digest in wanted:
        if digest not in found:
            sys.exit(
                f"image: {name} {version}: what apt fetched does not have the SHA-256 of image/debian.lock"
            )
        subprocess.run(["dpkg-deb", "--extract", str(found[digest]), str(target)], check=True)
    _finish_base(target)


def _finish_base(target: Path) -> None:
    for folder in UNUSED:
        shutil.rmtree(target / folder, ignore_errors=True)
    for path in (target / "usr" / "share" / "doc").rglob("*"):
        if path.is_file() and path.name != "copyright":
            path.unlink()
    library = target / "usr" / "lib" / "python3.11"
    for name in UNUSED_OF_PYTHON:
        shutil.rmtree(library / name, ignore_errors=True)
    (target / "usr" / "bin" / "python3").symlink_to("python3.11")
    python = os.environ.get("PYTHON", sys.executable)
    compiled = ["-m", "compileall", "-q", "-j", "1", "--invalidation-mode", "unchecked-hash"]
    subprocess.run(
        [python, *compiled, "-s", str(target), "-p", "/", str(library)],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=True,
    )
    certificates = sorted((target / "usr" / "share" / "ca-certificates").rglob("*.crt"))
    bundle = target / "etc" / "ssl" / "certs" / "ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_bytes(b"".join(path.read_bytes() for path in certificates))
    (target / "etc" / "passwd").write_text(
        f"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/home/nonroot:/sbin/nologin\n"
    )
    (target / "etc" / "group").write_text(f"root:x:0:\nnonroot:x:{USER}:\n")
    (target / "etc" / "nsswitch.conf").write_text("hosts: files dns\n")
    (target / "home" / "nonroot").mkdir(parents=True)
    (target / "tmp").mkdir(mode=0o777)
    (target / "tmp").chmod(0o1777)


# The archive


def layer(folder: Path) -> bytes:
    """A folder as a layer: files in order, without times and owners, so that it depends on content alone."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=6) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(folder.rglob("*")):
            item = archive.gettarinfo(str(path), str(path.relative_to(folder)))
            home = path.parts[-2:] == ("home", "nonroot")
            item.uid = item.gid = USER if home else 0
            item.uname = item.gname = ""
            item.mtime = 0
            if item.isreg():
                with path.open("rb") as content:
                    archive.addfile(item, content)
            else:
                archive.addfile(item)
    return packed.getvalue()


def write_archive(path: Path, image: str, images: list[tuple[str, list[tuple[bytes, str]]]]) -> str:
    """Write an OCI archive of an image for each architecture; the digest of the index that lists them."""
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    oci = "application/vnd.oci.image"
    manifests = []
    for architecture, layers in images:
        entry = blob(_manifest(image, architecture, layers, blob), f"{oci}.manifest.v1+json")
        manifests.append({**entry, "platform": {"architecture": architecture, "os": "linux"}})
    kind = {"schemaVersion": 2, "mediaType": f"{oci}.index.v1+json"}
    listed = blob(
        _json({**kind, "manifests": manifests, "annotations": labels(image)}), f"{oci}.index.v1+json"
    )
    listed["annotations"] = {"org.opencontainers.image.ref.name": f"{image}:{VERSION}"}
    members = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({**kind, "manifests": [listed]}),
        **{f"blobs/sha256/{digest}": content for digest, content in sorted(blobs.items())},
    }
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            item = tarfile.TarInfo(name)
            item.size = len(content)
            archive.addfile(item, io.BytesIO(content))
    return str(listed["digest"]).removeprefix("sha256:")


def _manifest(
    image: str,
    architecture: str,
    layers: list[tuple[bytes, str]],
    blob: Callable[[bytes, str], dict[str, Any]],
) -> bytes:
    """The manifest of an image for one architecture, whose layers and configuration become blobs."""
    oci = "application/vnd.oci.image"
    described = [blob(content, f"{oci}.layer.v1.tar+gzip") for content, _ in layers]
    unpacked = [hashlib.sha256(gzip.decompress(content)).hexdigest() for content, _ in layers]
    configuration = {
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": [
                "PATH=/usr/bin:/bin",
                "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
                "PYTHONPATH=/site-packages",
                "PYTHONUNBUFFERED=1",
                "PYTHONDONTWRITEBYTECODE=1",
            ],
            "Entrypoint": ["python3", "-m", "rebalancer"],
            "Cmd": ["--help"],
            "WorkingDir": "/home/nonroot",
            "Labels": labels(image),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in unpacked]},
        "history": [{"created_by": f"image/build.py: {note}"} for _, note in layers],
    }
    written = {
        "schemaVersion": 2,
        "mediaType": f"{oci}.manifest.v1+json",
        "config": blob(_json(configuration), f"{oci}.config.v1+json"),
        "layers": described,
        "annotations": labels(image),
    }
    return _json(written)


def labels(image: str) -> dict[str, str]:
    """The labels that registries and scanners read."""
    # A release is built from a copy of a commit, which git does not know, so it says which.
    asked = (
        os.environ.get("REVISION")
        or subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip()
    )
    found = {
        "title": image,
        "description": IMAGES[image].description,
        "version": VERSION,
        "licenses": "Apache-2.0",
        "revision": asked,
    }
    return {f"org.opencontainers.image.{name}": value for name, value in found.items() if value}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def size(folder: Path) -> int:
    """Bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


# What the image holds


def sbom(image: str, site_packages: Path, architecture: str) -> dict[str, Any]:
    """The bill of materials: Debian's packages and Python's, in CycloneDX."""
    parts = [
        _part(name, version, f"pkg:deb/debian/{name}@{version}?arch={architecture}&distro=bookworm", digest)
        for name, version, digest in locked(architecture)
    ]
    found = {item.metadata["Name"]: item.version for item in distributions(path=[str(site_packages)])}
    parts += [
        _part(name, version, f"pkg:pypi/{name.lower()}@{version}") for name, version in sorted(found.items())
    ]
    parts.sort(key=lambda part: str(part["purl"]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": f"pkg:oci/{image}@{VERSION}",
                "name": image,
                "version": VERSION,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": parts,
    }


def _part(name: str, version: str, purl: str, digest: str = "") -> dict[str, Any]:
    part: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }
    return {**part, "hashes": [{"alg": "SHA-256", "content": digest}]} if digest else part


# Does it start?


def start(work: Path, base: Path, application: Path) -> None:
    """Start the image's program as its user on a read-only disk; compare its plan with the checkout's."""
    if os.geteuid() or not shutil.which("unshare"):
        sys.exit("image: --check needs root and unshare, for a chroot with a read-only file system")
    tree, dump = work / "tree", work / "dump"
    for folder in (base, application):
        shutil.copytree(folder, tree, symlinks=True, dirs_exist_ok=True)
    python = os.environ.get("PYTHON", sys.executable)
    recording = [python, "image/recording.py", str(dump)]
    subprocess.run(recording, cwd=ROOT, check=True, env=_on_path(ROOT, ROOT / "demo"))
    shutil.copytree(dump, tree / "dump")
    plan = [
        "plan",
        "--from",
        "dump/dump",
        "--policy",
        "dump/policy.yaml",
        "--now",
        "2026-11-20T12:00:10Z",
    ]
    plan += ["-o", "json"]
    expected = subprocess.run(
        [python, "-m", "rebalancer", *plan], cwd=work, check=True, capture_output=True, env=_on_path(ROOT)
    ).stdout
    answered = in_tree(tree, "python3", "-m", "rebalancer", *plan)
    if answered != expected or not json.loads(answered)["moves"]:
        sys.exit("image: the plan of the image differs from the plan of the checkout, or moves nothing")
    modules = in_tree(tree, "python3", "-c", _IMPORT_ALL).decode().strip()
    version = in_tree(tree, "python3", "-m", "rebalancer", "--version").decode().splitlines()
    print(f"started as {USER} on a read-only file system: {'; '.join(version)}")
    print(f"imports {modules} modules; plans as the checkout does, byte for byte ({len(answered)} bytes)")


def in_tree(tree: Path, *command: str) -> bytes:
    """The standard output of a command with this tree as its read-only file system."""
    inside = (
        f'mount --bind "{tree}" "{tree}" && mount -o remount,ro,bind "{tree}" && cd "{tree}" &&'
        f' exec chroot --userspec={USER}:{USER} "{tree}" "$@"'
    )
    environment = {
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "PYTHONPATH": "/site-packages",
        "HOME": "/home/nonroot",
    }
    started = subprocess.run(
        ["unshare", "--mount", "sh", "-c", inside, "sh", *command],
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
    )
    if started.returncode:
        sys.exit(
            f"image: {' '.join(command)[:80]} failed in it: {started.stderr.decode(errors='replace')[-2000:]}"
        )
    return started.stdout


def _on_path(*folders: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "OPENBLAS_NUM_THREADS": "1"}


_IMPORT_ALL = """
import importlib, pkgutil, rebalancer
names = [item.name for item in pkgutil.walk_packages(rebalancer.__path__, "rebalancer.")]
names = [name for name in names if not name.endswith(("__main__", "commands.demo"))]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


if __name__ == "__main__":
    main()
