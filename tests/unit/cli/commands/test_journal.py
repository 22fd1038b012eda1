"""``rebalancer journal``: what a run recorded, as a document and as rows."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from tests.unit.cli.conftest import Program

LINES = [
    {"time": "2026-11-20T12:00:00Z", "event": "evicting", "run": "r-1", "wave": 1, "pod": "shop/web-1"},
    {
        "time": "2026-11-20T12:00:09Z",
        "event": "outcome",
        "run": "r-1",
        "pod": "shop/web-1",
        "result": "Landed",
    },
]


def test_the_lines_of_a_journal_are_rows_of_csv(rebalancer_program: Program, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in LINES))

    result = rebalancer_program("journal", "show", str(journal), "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))

    assert result.exit_code == 0, result.stderr
    assert [(row["time"], row["event"], row["pod"], row["result"]) for row in rows] == [
        ("2026-11-20T12:00:00Z", "evicting", "shop/web-1", ""),
        ("2026-11-20T12:00:09Z", "outcome", "shop/web-1", "Landed"),
    ]
    assert [row["wave"] for row in rows] == ["1", ""]
