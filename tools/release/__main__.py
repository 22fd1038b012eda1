"""``python -m tools.release VERSION``: builds a release of the commit that is checked out, and verifies it.

``--set`` writes the version into the checkout instead, for the commit that is to be tagged.
"""

from __future__ import annotations

import argparse
import datetime as dt
import shutil
import sys
import tempfile
from pathlib import Path

from tools.release import build, records, versions
from tools.release.build import ROOT
from tools.release.verify import verify
from tools.release.versions import ReleaseError


def main() -> None:
    """Leave with 1 and a line for each thing that is missing or wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "release", help="folder of releases")
    parser.add_argument(
        "--set", action="store_true", dest="only_set", help="write the version, build nothing"
    )
    parser.add_argument("--tagged", action="store_true", help="the commit has to say this version itself")
    options = parser.parse_args()
    try:
        if options.only_set:
            versions.write(ROOT, options.version, dt.datetime.now(dt.UTC).date().isoformat())
        else:
            make(options.version, options.output, tagged=options.tagged)
    except ReleaseError as error:
        sys.exit("\n".join(f"release: {line}" for line in str(error).splitlines()))


def make(version: str, output: Path, *, tagged: bool) -> None:
    """Build and verify; the folder of the version appears only once everything in it was verified."""
    needed = build.missing()
    if needed:
        raise ReleaseError("\n".join(f"needs {line}" for line in needed))
    build.require_committed()
    if tagged and set(versions.written(ROOT).values()) != {version}:
        raise ReleaseError(
            f"the commit does not say {version} everywhere: python -m tools.release {version} --set"
        )
    if tagged and (behind := versions.before_releases(ROOT)):
        raise ReleaseError("\n".join(f"{name}: says that nothing is released yet" for name in behind))
    with tempfile.TemporaryDirectory(prefix="rebalancer-release-") as folder:
        work = Path(folder)
        stage = work / "stage"
        release = work / "release"
        release.mkdir()
        environment = build.staged(stage, version)
        print(f"release: {version} of commit {environment['REVISION'][:12]}", flush=True)
        image = build.build_image(stage, release, environment)
        build.build_chart(stage, release, version, image)
        build.build_packages(stage, release, environment)
        build.build_site(stage, release, version, environment)
        build.describe(stage, release, version, environment["REVISION"])
        for line in verify(release, stage, version, work):
            print(f"verified: {line}", flush=True)
        target = output / version
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(release, target)
    for path in records.artifacts(target):
        print(f"{path.stat().st_size:>12,}  {records.digest(path)[:16]}  {path.name}")
    print(f"{target}: everything above, built from one commit and verified")


if __name__ == "__main__":
    main()
