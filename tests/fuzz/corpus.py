"""The seeds on disk, which the fuzzer starts from: written by the targets' builders, a file each."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.targets import ALL

CORPUS = Path(__file__).parent / "corpus"
REGRESSION = "finding-"  # the inputs of findings that were mended stay, and are no seeds of a builder


def write_corpus() -> None:
    """Write every seed anew, and remove what is none."""
    for name, target in ALL.items():
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        seeds = target.seeds()
        for path in folder.iterdir():
            if path.name not in seeds and not path.name.startswith(REGRESSION):
                path.unlink()
        for seed, content in seeds.items():
            (folder / seed).write_bytes(content)
