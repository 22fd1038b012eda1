"""A quantity of a cluster that no machine has ends no command as a defect, wherever it stands."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from rebalancer.cli.program import main
from tests.conftest import some_of
from tests.rows import rows
from tests.unit.cli.hot_dumps import a_hot_dump

ODD = ("1e308", "1e400", "-1e308", "9223372036854775807Gi", "1e-308", "NaN")
PLACES = (
    *(("nodes", ("status", kind, name)) for kind in ("allocatable", "capacity") for name in ("cpu", "pods")),
    *(("nodemetrics", ("usage", name)) for name in ("cpu", "memory")),
    *(
        ("pods", ("spec", "containers", 0, "resources", "requests", name))
        for name in ("cpu", "memory", "x/y")
    ),
    ("pods", ("spec", "overhead", "memory")),
    ("replicasets", ("spec", "template", "spec", "containers", 0, "resources", "requests", "cpu")),
)


def with_quantity(folder: Path, plural: str, path: tuple[str | int, ...], quantity: str) -> None:
    """Write the quantity into the first object of a kind."""
    file = folder / f"{plural}.json"
    listing = msgspec.json.decode(file.read_bytes())
    part: Any = listing["items"][0]
    for key in path[:-1]:
        part = part.setdefault(key, {}) if isinstance(key, str) else part[key]
    part[path[-1]] = quantity
    file.write_bytes(msgspec.json.encode(listing))


@pytest.mark.many_cases
@rows("place, quantity", some_of(list(itertools.product(PLACES, ODD))))
def test_it_is_read_refused_or_called_malformed(
    tmp_path: Path, place: tuple[str, tuple[str | int, ...]], quantity: str
) -> None:
    plural, path = place
    folder = a_hot_dump(tmp_path / "recorded")
    with_quantity(folder, plural, path, quantity)

    for command in ("plan", "nodes"):
        result = CliRunner().invoke(main, [command, "--from", str(folder)])
        assert result.exit_code in (0, 2, 3, 6), result.output
        assert "internal error" not in result.stderr
