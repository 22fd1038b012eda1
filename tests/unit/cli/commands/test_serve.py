"""``rebalancer serve`` as typed: what it refuses, it does not offer."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rebalancer.cli.program import main
from rebalancer.errors import ExitCode

REFUSED = {
    "--from": ("a recorded cluster does not change", "use: rebalancer plan --from"),
    "--now": ("a service plans for the present", "leave out --now"),
}


@pytest.mark.parametrize("option", REFUSED)
def test_options_that_it_always_refuses_are_refused_with_the_way_out_and_not_shown(
    option: str, tmp_path: Path
) -> None:
    value = {"--from": str(tmp_path), "--now": "2026-11-20T12:00:00Z"}[option]
    result = CliRunner().invoke(main, ["serve", option, value])

    assert result.exit_code == ExitCode.BAD_INPUT
    for words in REFUSED[option]:
        assert words in result.stderr
    shown = CliRunner().invoke(main, ["serve", "--help"]).stdout
    assert f"{option} " not in shown
    assert "--max-dump-size" not in shown


def test_run_shows_the_time_that_it_takes_for_a_dry_run() -> None:
    assert "--now TIME" in CliRunner().invoke(main, ["run", "--help"]).stdout
