"""What is said about artifacts: checksums, the bill of materials of the wheel, and where it all comes from.

Nothing here reads a clock, so that what is said about equal artifacts of one commit is equal too.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tools.release.versions import ReleaseError

CHECKSUMS = "SHA256SUMS"
PROVENANCE = "provenance.intoto.json"
REPOSITORY = "https://github.com/rebalancer/rebalancer"
_LINE = re.compile(r"([0-9a-f]{64})  ([\w.+-]+)")


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def artifacts(folder: Path, *without: str) -> list[Path]:
    """The files of a release by name."""
    return sorted(path for path in folder.iterdir() if path.name not in without)


def write_checksums(folder: Path) -> None:
    """Write what ``sha256sum --check`` reads, over everything else in the folder."""
    lines = [f"{digest(path)}  {path.name}\n" for path in artifacts(folder, CHECKSUMS)]
    (folder / CHECKSUMS).write_text("".join(lines))


def wrong_checksums(folder: Path) -> list[str]:
    """What differs from the checksums: a file that changed, is missing, or that nothing is said about."""
    listed = {}
    for line in (folder / CHECKSUMS).read_text().splitlines():
        match = _LINE.fullmatch(line)
        if not match:
            return [f"{CHECKSUMS}: {line[:80]!a} is no checksum"]
        listed[match[2]] = match[1]
    there = {path.name: digest(path) for path in artifacts(folder, CHECKSUMS)}
    return [
        f"{name}: {'is not there' if name not in there else 'is not what the checksum says'}"
        if name in listed
        else f"{name}: has no checksum"
        for name in sorted({*listed, *there})
        if listed.get(name) != there.get(name)
    ]


def provenance(folder: Path, version: str, revision: str, builder: str, lock_files: Iterable[Path]) -> Any:
    """SLSA's statement about every file of the folder: from which commit it was built, how and by whom."""
    source = {"uri": f"git+{REPOSITORY}", "digest": {"gitCommit": revision}}
    locks = [{"uri": f"file:{path.name}", "digest": {"sha256": digest(path)}} for path in sorted(lock_files)]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": path.name, "digest": {"sha256": digest(path)}}
            for path in artifacts(folder, CHECKSUMS, PROVENANCE)
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{REPOSITORY}/blob/main/docs/releasing.md",
                "externalParameters": {"command": f"make release VERSION={version}", "source": source},
                "resolvedDependencies": [source, *locks],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def wheel_sbom(lock: str, version: str) -> Any:
    """The bill of materials of an installation, in CycloneDX: what the lock pins, with every file's hash."""
    parts = []
    for entry in re.split(r"\n(?=\S)", lock):
        match = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)(?: ; ([^\\\n]+))?", entry)
        if match:
            name, number, marker = match.groups()
            reference = f"pkg:pypi/{name.lower()}@{number}"
            hashes = re.findall(r"sha256:([0-9a-f]{64})", entry)
            part: dict[str, Any] = {"type": "library", "bom-ref": reference, "name": name, "version": number}
            part |= {"purl": reference, "hashes": [{"alg": "SHA-256", "content": value} for value in hashes]}
            if marker:
                part["properties"] = [{"name": "python:marker", "value": marker.strip()}]
            parts.append(part)
    if not parts or not all(part["hashes"] for part in parts):
        raise ReleaseError("requirements-runtime.lock: a package without a hash, or none at all")
    about = {"type": "application", "bom-ref": f"pkg:pypi/rebalancer@{version}", "name": "rebalancer"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {**about, "version": version, "licenses": [{"license": {"id": "Apache-2.0"}}]}
        },
        "components": parts,
    }


def packed(files: Mapping[str, Path]) -> bytes:
    """An archive of files by the name they get, which depends on names and content alone."""
    stream = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = path.stat().st_size
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(path.read_bytes()))
    return stream.getvalue()


def folder_packed(folder: Path, prefix: str = "") -> bytes:
    """An archive of a folder's files, under a prefix."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return packed({f"{prefix}{path.relative_to(folder).as_posix()}": path for path in paths})


def to_json(value: object) -> str:
    """JSON as the files of a release hold it."""
    return json.dumps(value, indent=2, sort_keys=True) + "\n"
