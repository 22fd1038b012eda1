"""An option or argument that a command does not have is answered with the one that was probably meant."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import Program

HINTS = {
    "--context eu nodes": "put it after the command: rebalancer COMMAND --context",
    "-n shop plan": "put it after the command: rebalancer COMMAND -n",
    "nodes -v=6": "did you mean -v, which takes no number?",
    "run --dry-run=server": "every dry run asks the API server; leave the value out",
    "plan policy.yaml": "did you mean --policy policy.yaml?",
    "nodes ./dump": "did you mean --from ./dump?",
    "plan -f policy.yaml": "did you mean --policy FILE?",
    "run -n shop": "run carries out the whole plan: limit it in the policy, under evictable or limits",
    "run --selector app=web": "run carries out the whole plan: limit it in the policy",
    "plan -n -o json": "-n needs a value, but -o is an option",
    "plan --policy --from dump": "--policy needs a value, but --from is an option",
    "plan -o": "-o needs a value (see: ",
    "plan --from all/one all/other": "(--from takes one PATH; see: ",
    "plan --from one --from=other": "--from is given twice",
    "nodes --context eu --context us": "--context is given twice",
}


@pytest.mark.parametrize("words", HINTS)
def test_a_usual_slip_is_answered_with_what_was_meant(rebalancer_program: Program, words: str) -> None:
    result = rebalancer_program(*words.split())

    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert HINTS[words] in line
    assert line.endswith(" --help)")


@pytest.mark.parametrize("words", ["plan nonsense", "plan --nonsense", "policy validate"])
def test_what_is_like_nothing_gets_no_suggestion_of_ours(rebalancer_program: Program, words: str) -> None:
    result = rebalancer_program(*words.split())

    assert result.exit_code == 2
    assert "did you mean --" not in result.stderr
