"""Where fuzzing begins: sound inputs made by the targets' builders, and what earlier fuzzing found.

A folder a target holds the inputs that reached code no seed reaches, so that a minute of fuzzing begins where
the last one ended, and as ``finding-...`` those of defects that were mended.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.fuzz.target import Target

CORPUS = Path(__file__).parent / "corpus"
MAX_INPUTS, MAX_INPUT_BYTES = 40, 4096  # kept of a target, the smallest first
FINDING = "finding-"


def kept(name: str) -> list[Path]:
    """The inputs that are kept of a target."""
    folder = CORPUS / name
    return sorted(folder.iterdir()) if folder.is_dir() else []


def begin(target: Target, folder: Path) -> None:
    """Write everything to begin with into a folder."""
    folder.mkdir()
    for content in (*target.seeds().values(), *(path.read_bytes() for path in kept(target.name))):
        (folder / hashlib.sha1(content).hexdigest()).write_bytes(content)


def grow(target: Target, folder: Path) -> None:
    """Keep the smallest inputs of a folder that fuzzing added to, besides those of findings."""
    known = {*target.seeds().values()}
    known |= {path.read_bytes() for path in kept(target.name) if path.name.startswith(FINDING)}
    found = {path.read_bytes() for path in folder.iterdir()} - known
    small = sorted(
        (content for content in found if len(content) <= MAX_INPUT_BYTES), key=lambda item: (len(item), item)
    )
    place = CORPUS / target.name
    place.mkdir(parents=True, exist_ok=True)
    for path in kept(target.name):
        if not path.name.startswith(FINDING):
            path.unlink()
    # Every other one: a fuzzer adds runs of inputs that differ by a byte.
    for content in small[:: max(1, len(small) // MAX_INPUTS)][:MAX_INPUTS]:
        (place / hashlib.sha1(content).hexdigest()[:16]).write_bytes(content)
