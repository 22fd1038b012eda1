"""Fuzzes one target in a process of its own: ``python -m tests.fuzz.worker TARGET SECONDS FOLDER``.

A finding does not end it: its input is kept in the folder, once per place, and fuzzing goes on. What Python
cannot catch (a crash, an input that takes for ever, memory without end) ends the process, and the fuzzer
keeps the input.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from random import Random

TIMEOUT_SECONDS = 60
MEMORY_MIB = 3072
REPORT = "report.json"


def main(name: str, seconds: float, folder: Path, corpus: Path) -> None:
    """Fuzz until the time is over; the report is written on the way."""
    import atheris

    with atheris.instrument_imports(include=["rebalancer"], enable_loader_override=False):
        from tests.fuzz.target import finding_of
        from tests.fuzz.targets import ALL
    target = ALL[name]
    findings: dict[str, str] = {}
    runs = 0
    end = time.monotonic() + seconds
    for content in target.seeds().values():
        target.decode(content)  # a sound input that is refused is a defect of the target

    def report() -> None:
        (folder / REPORT).write_text(json.dumps({"runs": runs, "findings": findings}))

    def one(content: bytes) -> None:
        nonlocal runs
        runs += 1
        found = finding_of(target, content)
        if found is not None and found.place not in findings:
            findings[found.place] = found.what
            digest = hashlib.sha256(content).hexdigest()[:16]
            (folder / f"finding-{digest}").write_bytes(content)
            report()
        if time.monotonic() > end:
            report()
            os._exit(0)  # the fuzzer has no other end that is not called a crash

    def mutated(content: bytes, max_bytes: int, seed: int) -> bytes:
        changed = None
        if target.mutate is not None and seed % 3:
            changed = target.mutate(content, max_bytes, Random(seed))
        return changed or atheris.Mutate(content, max_bytes)

    report()
    options = [
        f"-max_len={target.max_bytes}",
        f"-timeout={TIMEOUT_SECONDS}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-artifact_prefix={folder}/fuzzer-",
        "-seed=1",
        "-print_final_stats=0",
        str(corpus),
    ]
    atheris.Setup([sys.argv[0], *options], one, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
