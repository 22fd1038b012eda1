"""Every code block of README and docs works as it stands, or says why it is not run."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rebalancer.planning.extender_scores import read_scores
from rebalancer.policy.policy_file import parse_policy
from rebalancer.scheduling.extenders import cannot_be_computed
from rebalancer.scheduling.registry import described
from rebalancer_demo import Sandbox
from tests.docs.article_clusters import ARTICLE_CLUSTERS
from tests.docs.blocks import PAGES, ROOT, Block, blocks, commands
from tests.docs.outputs import a_folder_and_environment, outputs_of, page_cluster, with_outputs
from tests.kubernetes_api.schemas import VERSIONS, problems

BLOCKS = [block for page in PAGES for block in blocks(page)]
POLICY = {"apiVersion": "rebalancer/v1alpha1", "kind": "RebalancePolicy"}
SHOWN = {"text", ""}  # output
WITH_COMMANDS = [page for page in PAGES if any(block.language == "console" for block in blocks(page))]


def of_language(*languages: str) -> list[Any]:
    return [pytest.param(block, id=block.where) for block in BLOCKS if block.language in languages]


def test_every_block_is_of_a_language_that_is_checked() -> None:
    # tests/unit/planning/strategies/test_strategy_contributing.py, test_public_face.py,
    # test_notebook.py, and the test below
    elsewhere = (
        "docs/adding-a-strategy.md",
        "docs/extender.md",
        "docs/analysis.md",
        "docs/lab/public-face.md",
    )
    unknown = {
        block.where: block.language
        for block in BLOCKS
        if not (block.language == "python" and block.where.startswith(elsewhere))
    }
    checked = SHOWN | {"console", "yaml", "toml", "json"}

    assert {where: language for where, language in unknown.items() if language not in checked} == {}


def test_an_extender_can_compute_the_plugin_of_its_page() -> None:
    (block,) = (item for item in BLOCKS if item.language == "python" and "extender.md" in item.where)
    names: dict[str, Any] = {}
    exec(block.text, names)

    assert cannot_be_computed(described(names["FewPods"], block.where)) == ""


def test_only_what_needs_another_program_is_not_run() -> None:
    marked = [block for block in BLOCKS if block.why_not]

    assert [block.where for block in marked if len(block.why_not) < 20 or block.language != "console"] == []
    for block in marked:
        for named in (word.strip("();,") for word in block.why_not.split() if word.startswith("tests/")):
            assert (ROOT / named).exists(), block.where


def test_every_block_of_commands_shows_what_they_print_or_says_why_they_are_not_run() -> None:
    silent = [
        block.where
        for block in BLOCKS
        if block.language == "console" and commands(block) and not block.why_not
        if block.text == with_outputs(block, [""] * len(commands(block)))
    ]

    assert [where.split(":")[0] for where in silent] == ["README.md"]  # a picture shows what those print


def test_expressions_are_ones_that_the_sed_of_macos_knows_too() -> None:
    gnu = re.compile(r"\bsed '[^']*\\[|+?]")

    assert [block.where for block in BLOCKS if gnu.search(block.text)] == []


def test_loops_are_ones_that_the_shell_of_macos_runs_too() -> None:
    """What a variable holds is one word for zsh; what a command prints is several."""
    loop = re.compile(r"\bfor \w+ in [^;]*(?<!echo )\$\w")

    assert [block.where for block in BLOCKS if loop.search(block.text)] == []


@pytest.fixture(scope="module")
def hot() -> Iterator[Sandbox]:
    """The cluster of every page that has none of its own, one after the other."""
    with page_cluster() as sandbox:
        yield sandbox


@pytest.fixture
def cluster(page: Path, hot: Sandbox) -> Iterator[Sandbox]:
    """The cluster of a page."""
    if page.name not in ARTICLE_CLUSTERS:
        yield hot
        return
    with page_cluster(page.name) as own:
        yield own


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_print_in_its_order_what_it_shows(
    page: Path, cluster: Sandbox, tmp_path: Path
) -> None:
    with a_folder_and_environment(cluster, tmp_path) as environment:
        for block in blocks(page):
            if block.language != "console" or block.why_not:
                continue
            outputs = outputs_of(block, tmp_path, environment)
            if block.text != with_outputs(block, [""] * len(outputs)):  # it shows what they print
                renew = f"{block.where}: renew it with python -m tests.docs.outputs {page.name}"
                assert block.text == with_outputs(block, outputs), renew


@pytest.mark.parametrize("block", of_language("yaml"))
def test_a_yaml_block_is_a_policy_or_a_part_of_one_or_an_object_of_kubernetes(
    block: Block,
) -> None:
    found = yaml.safe_load(block.text)
    if "apiVersion" in found and not found["apiVersion"].startswith("rebalancer/"):
        assert [problem for version in VERSIONS for problem in problems(found, version)] == []
        return
    if found.get("kind") == "ExtenderScores":
        read_scores(block.text, block.where)
        return
    # Signals and pressure need a Prometheus, which the block that shows them need not repeat.
    sources = [{"prometheus": {"address": "http://prometheus.monitoring:9090"}}]
    whole = {**POLICY, **found, "load": {"sources": sources, **found.get("load", {})}}

    policy = parse_policy(json.dumps(whole), block.where).policy

    assert policy.model_fields_set >= {"load"}


@pytest.mark.parametrize("block", of_language("toml", "json"))
def test_a_block_of_data_can_be_read(block: Block) -> None:
    assert tomllib.loads(block.text) if block.language == "toml" else json.loads(block.text)


def test_commands_are_read_with_the_lines_that_continue_them() -> None:
    block = Block(ROOT, 1, "console", '$ a --b \\\n    --c\noutput\n$ d="e\n  f"\n$ g\n', "")

    assert commands(block) == ["a --b \\\n    --c", 'd="e\n  f"', "g"]
