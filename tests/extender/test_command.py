"""``rebalancer extender``: how `rebalancer` finds it, and what its options are held to."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import click
import pytest

from rebalancer.cli.groups import COMMAND_GROUP
from rebalancer.cli.program import COMMANDS
from rebalancer.errors import InputError
from rebalancer_extender.command import extender

PROJECT = tomllib.loads((Path(__file__).parents[2] / "extender" / "pyproject.toml").read_text())["project"]


def test_the_distribution_brings_the_command_and_the_program_has_none_of_its_name() -> None:
    entries = PROJECT["entry-points"][COMMAND_GROUP]

    assert {name: metadata.EntryPoint(name, at, COMMAND_GROUP).load() for name, at in entries.items()} == {
        "extender": extender
    }
    assert "extender" not in COMMANDS


@pytest.mark.parametrize("option", ["--tls-cert", "--tls-key"])
def test_a_certificate_and_its_key_belong_together(option: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(InputError, match="--tls-cert and --tls-key belong together"):
        extender.main([f"--config={file}", f"{option}={file}"], standalone_mode=False)


def test_it_listens_on_loopback_unless_it_is_told_otherwise() -> None:
    listen = next(parameter for parameter in extender.params if parameter.name == "listen")

    assert listen.get_default(click.Context(extender)) == "127.0.0.1:8890"
