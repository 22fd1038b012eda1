"""What every command writes with -o json says what it is: which kind of document, of which version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from rebalancer.cli.program import main
from tests.unit.cli.conftest import Program

ROOT = Path(__file__).parents[3]
DUMP = ("--from", str(ROOT / "examples" / "hot-cluster"))
POLICY = str(ROOT / "policies" / "conservative.yaml")
POD = "pod/shop/web-7d9f-02"
FILES = {
    "descheduler.yaml": "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles: []\n",
    "journal": "",
}
GIVEN: dict[str, tuple[str, ...]] = {
    "plan": DUMP,
    "nodes": DUMP,
    "explain": (POD, *DUMP),
    "agreement why": (POD, *DUMP),
    "snapshot info": (DUMP[1],),
    "snapshot save": ("copy", *DUMP),
    "policy import": ("descheduler.yaml",),
    "policy show": (POLICY,),
    "policy validate": (POLICY,),
    "journal show": ("journal",),
    "journal in-flight": ("journal",),
}
ELSEWHERE = {
    "run": "acts on a live cluster; tests/unit/reporting has its outcomes",
    "agreement": "follows a live cluster",
    "policy schema": "is a JSON schema, which has its own words for that",
}


def commands(command: click.Command, context: click.Context, *path: str) -> Iterator[str]:
    """The commands of the program itself that write documents."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            if inner.callback is None or inner.callback.__module__.startswith("rebalancer."):
                yield from commands(inner, click.Context(inner, parent=context), *path, name)
    if any(parameter.name == "output_format" for parameter in command.params):
        yield " ".join(path)


def test_every_command_that_writes_documents_is_tried_here_or_elsewhere() -> None:
    assert set(commands(main, click.Context(main))) == {*GIVEN, *ELSEWHERE}


@pytest.mark.parametrize("command", GIVEN)
def test_a_document_says_its_kind_and_version(
    command: str, rebalancer_program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    result = rebalancer_program(*command.split(), *GIVEN[command], "-o", "json")

    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["apiVersion"] == "rebalancer/v1alpha1"
    assert document["kind"]
