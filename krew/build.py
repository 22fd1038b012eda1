"""Builds the archive that krew installs, and its manifest: ``python krew/build.py``."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = re.findall(r'__version__ = "(.+)"', (ROOT / "rebalancer" / "__init__.py").read_text())[0]


def main(target: Path) -> None:
    """Write ``kubectl-rebalance-VERSION.tar.gz`` and ``rebalance.yaml`` to the folder."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = Path(folder).glob("*.whl")
        content = packed([wheel, ROOT / "krew" / "kubectl-rebalance", ROOT / "LICENSE"])
    (target / f"kubectl-rebalance-{VERSION}.tar.gz").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    manifest = (ROOT / "krew" / "rebalance.yaml").read_text().split("\n", 1)[1]
    manifest = manifest.replace("SHA256", digest).replace("VERSION", VERSION)
    (target / "rebalance.yaml").write_text(manifest)
    print(f"{target}: {len(content) / 1e6:.1f} MB, sha256 {digest}")


def packed(files: list[Path]) -> bytes:
    """The files as an archive that depends on their content alone."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for path in sorted(files, key=lambda path: path.name):
            item = tarfile.TarInfo(path.name)
            item.size = path.stat().st_size
            item.mode = 0o755 if path.name == "kubectl-rebalance" else 0o644
            archive.addfile(item, io.BytesIO(path.read_bytes()))
    return packed.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "krew")
