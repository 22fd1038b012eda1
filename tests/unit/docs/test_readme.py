"""The README is true: its tables are made from code, its commands exist and do what it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from rebalancer.cli.program import main
from rebalancer.cluster.kinds import KINDS, METRICS
from rebalancer.errors import ExitCode

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def _between(name: str) -> str:
    found = re.search(rf"<!-- {name}: begin -->\n(.*?)<!-- {name}: end -->", README, re.DOTALL)
    assert found, name
    return found[1]


def exit_code_table() -> str:
    rows = [f"| {int(code)} | {code.meaning} |\n" for code in ExitCode]
    return "".join(["| code | meaning |\n", "|---|---|\n", *rows])


def test_the_exit_codes_are_those_of_the_code() -> None:
    assert _between("exit codes") == exit_code_table()


def test_a_dump_made_as_it_says_holds_every_kind_that_every_cluster_serves() -> None:
    found = re.search(r'\$ kinds="([^"]*)"', README)
    assert found
    assert set(found[1].split()) == {
        kind.plural for kind in KINDS if not kind.optional and kind not in METRICS
    }
    for kind in METRICS:
        assert f"$ kubectl get --raw {kind.path} > dump/{kind.plural}.json" in README


def _commands() -> list[list[str]]:
    lines = re.findall(r"^\s*\$ (rebalancer .*)$", README, re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_the_readme_names_commands() -> None:
    assert len(_commands()) >= 8


@pytest.mark.parametrize("arguments", _commands(), ids=" ".join)
def test_every_command_of_the_readme_takes_the_options_it_shows(arguments: list[str]) -> None:
    words = [word for word in arguments if word != ">"]
    names = [word for word in words[:2] if not word.startswith("-")]
    helped = CliRunner().invoke(main, [*names[: 2 if names[0] in ("policy", "snapshot") else 1], "--help"])
    assert helped.exit_code == 0, helped.output
    for option in (word for word in words if word.startswith("-")):
        assert option in helped.output


def test_the_first_policy_of_the_readme_validates(tmp_path: Path) -> None:
    runner = CliRunner()
    policy = tmp_path / "policy.yaml"
    policy.write_text(runner.invoke(main, ["policy", "init"]).stdout)
    validated = runner.invoke(main, ["policy", "validate", str(policy)])
    assert (validated.exit_code, validated.stderr) == (0, "")


@pytest.mark.parametrize(
    "path", re.findall(r"`(policies|k8s/base|k8s/overlays/active|Dockerfile)/?`", README)
)
def test_every_path_the_readme_names_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_shipped_policies_are_the_ones_the_readme_names() -> None:
    named = set(re.findall(r"`([a-z0-9-]+\.yaml)`", README))
    assert named >= {path.name for path in (ROOT / "policies").glob("*.yaml")}
