"""What is counted agrees with its noun: no sentence says ``1 nodes``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rebalancer.counting import counted

ROOT = Path(__file__).parents[2]
PLURAL = re.compile(r"\}\}? (?:(?:hot|more|Pending) )?(?:nodes|pods|replicas|moves|times|others|days)\b")
BY_HAND = re.compile(r"""[a-z]\{(?:'s' (?:if|\*)|'' if)""")
# Of these there are several always, or the words are those of kube-scheduler.
NEVER_ONE = re.compile(
    r"""
      \{[\w.]*[A-Z_]{3,}(:g)?\}\ (nodes|times)         # a limit of the program
    | (any|one)\ of\ \{ | pods\ that\ leave | an\ even\ share | pods\ like\ it | it\ wants\ \{replicas\}
    | replicas\ (fit;|\{verb\}) | nodes\ are\ available | times\ (the\ request|today's) | times\ in\ a\ row
    | of\ pods:                                       # the load of pods
    | (scores\ of|verdicts\ on)\ \{                   # of all nodes, where some code of ours is wrong
    """,
    re.VERBOSE,
)


@pytest.mark.parametrize(("number", "expected"), [(0, "0 nodes"), (1, "1 node"), (2000, "2,000 nodes")])
def test_a_count_agrees_with_its_noun(number: int, expected: str) -> None:
    assert counted(number, "node") == expected


def test_a_noun_may_have_its_verb_with_it() -> None:
    assert counted(1, "pod moves", "pods move") == "1 pod moves"
    assert counted(2, "pod moves", "pods move") == "2 pods move"


def test_sentences_count_what_may_be_one_by_that_function() -> None:
    files = [
        path
        for folder in ("rebalancer", "lab/rebalancer_lab")
        for suffix in ("*.py", "*.jinja")
        for path in (ROOT / folder).rglob(suffix)
    ]
    assert len(files) > 300

    plural = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (PLURAL.search(line) and not NEVER_ONE.search(line)) or BY_HAND.search(line)
    ]

    assert plural == []
