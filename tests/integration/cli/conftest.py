from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rebalancer.cli.program import main
from tests.integration.cli.dumps import Items, a_hot_cluster, write_dump

Program = Callable[..., Result]
Refusal = Callable[..., str]


@pytest.fixture(autouse=True)
def outside_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.fixture
def rebalancer_program() -> Program:
    """Runs the program in this process, as a shell would."""

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def refusal(rebalancer_program: Program) -> Refusal:
    """Runs the program, which must refuse with one line and this exit code; returns the line."""

    def run(code: int, *arguments: object) -> str:
        result = rebalancer_program(*arguments)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        assert result.stderr.startswith("error: ")
        assert result.stderr.endswith("\n")
        line = result.stderr.removeprefix("error: ").removesuffix("\n")
        assert line.isprintable()
        assert len(line) < 1500
        return line

    return run


@pytest.fixture
def items() -> Items:
    return a_hot_cluster()


@pytest.fixture
def dump(tmp_path: Path) -> Callable[[Items], Path]:
    return lambda items: write_dump(tmp_path / "dump", items)
