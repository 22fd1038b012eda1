"""-o parquet holds the rows of -o csv, as a data frame reads them; pyarrow is installed where this runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.ux.terminal import EXAMPLE, ROOT


@pytest.mark.parametrize("subject", ["plan", "nodes"])
def test_parquet_holds_the_rows_of_csv(subject: str, tmp_path: Path) -> None:
    frames = {}
    for form in ("csv", "parquet"):
        path = tmp_path / f"rows.{form}"
        with path.open("wb") as stream:
            command = [sys.executable, "-m", "rebalancer", subject, *EXAMPLE, "-o", form]
            subprocess.run(command, cwd=ROOT, stdout=stream, check=True, timeout=120)
        frames[form] = pd.read_csv(path) if form == "csv" else pd.read_parquet(path)

    assert list(frames["csv"].columns) == list(frames["parquet"].columns)
    assert frames["parquet"].to_csv(index=False) == frames["csv"].to_csv(index=False)
