"""The README and pages beside it are true: their commands exist and do what they say, and none is missing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import get_args

from click.testing import CliRunner

from rebalancer.cli.groups import installed_commands
from rebalancer.cli.program import COMMANDS, main
from rebalancer.cluster.kinds import KINDS, METRICS
from rebalancer.policy.load_sources import LoadSource
from tests.rows import rows

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
RECORDINGS = (ROOT / "docs" / "recordings.md").read_text()
TIMELINES = (ROOT / "docs" / "lab" / "timeline.md").read_text()
TUNING = (ROOT / "docs" / "tuning.md").read_text()


def test_a_dump_made_as_it_says_holds_every_kind_that_every_cluster_serves() -> None:
    found = re.search(r'\$ kinds="([^"]*)"', RECORDINGS)
    assert found
    assert set(found[1].split()) == {
        kind.plural for kind in KINDS if not kind.optional and kind not in METRICS
    }
    for kind in METRICS:
        assert f"$ kubectl get --raw {kind.path} > dump/{kind.plural}.json" in RECORDINGS


def _commands() -> list[list[str]]:
    lines = re.findall(r"^\s*\$ (rebalancer .*)$", README + RECORDINGS + TIMELINES, re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_the_readme_names_commands() -> None:
    assert len(_commands()) >= 8


@rows("arguments", _commands())
def test_every_command_of_the_readme_takes_the_options_it_shows(arguments: list[str]) -> None:
    words = [word for word in arguments if word != ">"]
    names = [word for word in words[:2] if not word.startswith("-")]
    helped = CliRunner().invoke(
        main, [*names[: 2 if names[0] in ("policy", "snapshot", "timeline", "fleet") else 1], "--help"]
    )
    assert helped.exit_code == 0, helped.output
    for option in (word for word in words if word.startswith("-")):
        assert option in helped.output


@rows("name", [*COMMANDS, *installed_commands()])
def test_every_command_is_named_on_a_page(name: str) -> None:
    pages = (README, *(path.read_text() for path in (ROOT / "docs").glob("**/*.md")))
    words = name.replace(".", " ")
    assert any(re.search(rf"\brebalancer {words}\b", page) for page in pages)


def test_contributing_names_every_target_of_make_that_is_no_part_of_another() -> None:
    targets = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets is not None
    parts = {"clean", "conformance-ci", "e2e-assets", "e2e-built"}
    page = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where things go")[0]
    named = set(re.findall(r"`(?:make )?([a-z0-9-]+)[^`]*`", page))
    assert set(targets[1].replace("\\", " ").split()) - parts - named == set()


def test_the_page_of_load_has_a_row_for_every_source() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "load.md").read_text(), re.MULTILINE)
    sources = [get_args(item)[0] for item in get_args(get_args(LoadSource)[0])]
    keys = {field.alias for source in sources for field in source.model_fields.values()}
    assert set(rows) >= keys >= {"prometheus", "requests"}


def test_the_first_policy_of_the_readme_validates(tmp_path: Path) -> None:
    runner = CliRunner()
    policy = tmp_path / "policy.yaml"
    policy.write_text(runner.invoke(main, ["policy", "init"]).stdout)
    validated = runner.invoke(main, ["policy", "validate", str(policy)])
    assert (validated.exit_code, validated.stderr) == (0, "")


def test_the_shipped_policies_are_the_ones_that_the_page_of_tuning_names() -> None:
    named = set(re.findall(r"`([a-z0-9-]+\.yaml)`", TUNING))
    assert named >= {path.name for path in (ROOT / "policies").glob("*.yaml")}
