"""Cases and the descheduler's answers that were recorded, so that tests need no Go."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
Case = dict[str, Any]


def read(name: str) -> list[Case]:
    """The cases under a name, each with its ``evictions``."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def write(name: str, cases: Iterable[Case]) -> None:
    """Keep cases under a name; the same cases make the same file."""
    DATA.mkdir(exist_ok=True)
    text = "".join(json.dumps(case, sort_keys=True, separators=(",", ":")) + "\n" for case in cases)
    (DATA / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
