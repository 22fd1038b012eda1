"""What commands of the lab write with -o json says what it is, also where names are no text of the locale."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import click
import pytest

from rebalancer.cli.program import main
from tests.unit.cli.conftest import Program
from tests.unit.cli.hot_dumps import a_hot_dump

DUMP = str(Path(__file__).parents[2] / "examples" / "hot-cluster")
ODD = "x\udcff"  # how Python has the byte 255 of a name
FILES = {
    "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"
    "spec: {containers: [{name: a, image: b, resources: {requests: {cpu: 500m}}}]}\n",
    "test.yaml": "apiVersion: rebalancer/v1alpha1\nkind: PolicyTest\nmaxEvictions: 9\n",
}
GIVEN: dict[str, tuple[str, ...]] = {
    "what-if": ("--drain", "node-1", "--from", DUMP),
    "fit": ("pod.yaml", "--from", DUMP),
    "simulate": ("--cycles", "1", "--from", DUMP),
    "fleet plan": ("--from", DUMP),
    "policy test": ("test.yaml", "--from", DUMP),
}
ELSEWHERE = {
    "shadow": "follows a live cluster; tests/lab/shadow has it",
    "fleet agreement": "follows live clusters",
    "timeline backfill": "asks Prometheus; tests/integration/prometheus has it",
    "timeline replay": "replays a timeline; tests/lab/timeline has it",
    "tune": "searches for minutes; tests/lab/timeline has it",
}


def test_every_command_that_writes_documents_is_tried_here_or_elsewhere() -> None:
    context = click.Context(main)
    groups = {"": main, **{name: main.get_command(context, name) for name in ("policy", "timeline", "fleet")}}
    written = set()
    for group, commands in groups.items():
        assert isinstance(commands, click.Group)
        for name in commands.list_commands(context):
            command = commands.get_command(context, name)
            assert command is not None
            of_the_lab = command.callback is not None and command.callback.__module__.startswith(
                "rebalancer_lab."
            )
            if of_the_lab and any(item.name == "output_format" for item in command.params):
                written.add(f"{group} {name}".strip())

    assert written == {*GIVEN, *ELSEWHERE}


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


@pytest.mark.parametrize(
    "words",
    [
        ("policy", "test", f"tests{ODD}.yaml", "--from", ODD),
        (
            "simulate",
            "--policy",
            f"one{ODD}.yaml",
            "--policy",
            f"two{ODD}.yaml",
            "--cycles",
            "1",
            "--from",
            ODD,
        ),
        ("fleet", "plan", "--from", "fleet/*"),
    ],
    ids=" ".join,
)
def test_documents_escape_what_is_no_letter_in_them(
    rebalancer_program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        a_hot_dump(tmp_path / ODD)
    except OSError as error:
        pytest.skip(f"this file system has no such names: {error}")
    for name in ("one", "two"):
        (tmp_path / f"{name}{ODD}.yaml").write_text(
            "{apiVersion: rebalancer/v1alpha1, kind: RebalancePolicy}"
        )
    (tmp_path / f"tests{ODD}.yaml").write_text(
        "{apiVersion: rebalancer/v1alpha1, kind: PolicyTest, maxEvictions: 99}"
    )
    shutil.copytree(tmp_path / ODD, tmp_path / "fleet" / ODD)

    result = rebalancer_program(*words, "-o", "json")

    assert (result.exit_code, result.stderr) == (0, "")
    assert os.fsencode(ODD).decode(errors="backslashreplace") in json.dumps(
        json.loads(result.stdout), ensure_ascii=False
    ).replace("\\\\", "\\")
