from __future__ import annotations

import json
from pathlib import Path

import pytest

from rebalancer.errors import ExitCode, UnreachableError
from rebalancer.planning.plan import Plan
from tests.unit.cli.conftest import FakePipeline, Program


@pytest.fixture
def watched(pipeline: FakePipeline, monkeypatch: pytest.MonkeyPatch) -> FakePipeline:
    """Looks at a fake cluster; someone presses Ctrl-C during the third look."""

    def make_plan(options: object) -> Plan:
        pipeline.asked.append(options)  # type: ignore[arg-type]
        if len(pipeline.asked) == 3:
            raise KeyboardInterrupt
        if len(pipeline.asked) == 2 and pipeline.failure:
            raise pipeline.failure
        return pipeline.plan

    monkeypatch.setattr(pipeline, "make_plan", make_plan)
    monkeypatch.setattr("rebalancer.cli.commands.nodes._LEAST_SECONDS", 0.0)
    return pipeline


def test_nodes_are_shown_until_interrupted(rebalancer_program: Program, watched: FakePipeline) -> None:
    result = rebalancer_program("nodes", "--watch", "--every", "1ms")

    assert result.exit_code == ExitCode.INTERRUPTED
    assert result.stdout.count("3 nodes: 2 hot") == 2  # the third look was interrupted


def test_in_json_every_look_is_a_document(rebalancer_program: Program, watched: FakePipeline) -> None:
    result = rebalancer_program("nodes", "--watch", "--every", "1ms", "-o", "json")
    decoder, text, found = json.JSONDecoder(), result.stdout, []
    while text.strip():
        document, end = decoder.raw_decode(text.lstrip())
        found.append(document)
        text = text.lstrip()[end:]

    assert [document["kind"] for document in found] == ["NodeListing"] * 2


def test_a_look_that_fails_is_an_error_line_and_the_next_one_may_succeed(
    rebalancer_program: Program, watched: FakePipeline
) -> None:
    watched.failure = UnreachableError("no answer")
    result = rebalancer_program("nodes", "--watch", "--every", "1ms")

    assert result.exit_code == ExitCode.INTERRUPTED
    assert "no answer" in result.stderr
    assert result.stdout.count("3 nodes: 2 hot") == 1  # the second failed, the third was interrupted


def test_the_api_is_not_asked_more_often_than_every_second(
    rebalancer_program: Program, pipeline: FakePipeline
) -> None:
    result = rebalancer_program("nodes", "--watch", "--every", "1ms")

    assert result.exit_code == ExitCode.BAD_INPUT
    assert result.stderr == "error: --every is shorter than a second (write e.g. 5s)\n"
    assert not pipeline.asked


def test_a_recorded_cluster_is_not_watched(rebalancer_program: Program, tmp_path: Path) -> None:
    result = rebalancer_program("nodes", "--watch", "--from", str(tmp_path))

    assert result.exit_code == ExitCode.BAD_INPUT
    assert "--watch looks at a live cluster" in result.stderr
