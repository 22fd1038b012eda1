"""What an extender of others answers is taken as the scheduler takes it, or keeps its pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rebalancer.observe import extenders
from tests.loopback import Answer
from tests.unit.observe.test_extenders import NODES, asked, rejecting
from tests.unit.planning.builders import because, kept

LARGE = Answer(b" " * (2 << 20))
FAILING: Mapping[str, tuple[Any, str]] = {
    "an error": ({"Error": "the cache is not warm"}, "its filter fails: the cache is not warm"),
    "not JSON": (Answer(b"<html>"), "its filter fails: its answer is no JSON"),
    "NaN": (Answer(b'{"NodeNames": NaN}'), "its filter fails: its answer is no JSON"),
    "deep": (Answer(b"[" * 100_000), "its filter fails: its answer is no JSON"),
    "a list": (["cold"], "its filter fails: its answer is no ExtenderFilterResult"),
    "odd names": ({"NodeNames": [["cold"]]}, "its filter fails: its answer is no ExtenderFilterResult"),
    "odd words": ({"NodeNames": ["cold"], "FailedNodes": "x"}, "its answer is no ExtenderFilterResult"),
    "names as a text": ({"NodeNames": "cold"}, "its filter fails: its answer is no ExtenderFilterResult"),
    "an error that is no text": (
        {"Error": 0, "NodeNames": ["cold"]},
        "its answer is no ExtenderFilterResult",
    ),
    "a node twice": ({"NodeNames": ["cold", "cold"]}, "its filter fails: it admits a node twice"),
    "more behind it": (Answer(b'{"NodeNames": ["cold"]} {}'), "its filter fails: its answer is no JSON"),
    "unknown nodes": ({"NodeNames": ["cold", "mars"]}, "it admits node mars, about which it was not asked"),
    "HTTP 500": (Answer(b"secret", 500), "its filter fails: HTTP 500"),
}
SILENT: Mapping[str, tuple[Any, str]] = {
    "too large": (LARGE, "it gave no answer when it was asked: the answer is larger than 1 MiB"),
    "HTTP 503": (Answer(status=503), "it gave no answer when it was asked: HTTP 503"),
    "HTTP 403": (Answer(status=403), "it gave no answer when it was asked: HTTP 403"),
    "a redirect": (Answer(status=307, headers={"Location": "http://169.254.169.254/"}), "HTTP 307"),
}


@pytest.mark.parametrize(("said", "why"), [*FAILING.values(), *SILENT.values()], ids=[*FAILING, *SILENT])
def test_a_filter_that_cannot_be_used_keeps_the_pods_and_says_why(said: Any, why: str) -> None:
    found = asked(lambda _verb, _body: said)
    assert kept(found.plan) == {"web-0": "Unpredictable", "web-1": "Unpredictable"}
    assert because(found.plan, "web-0").startswith("extender http://127.0.0.1:")
    assert why in because(found.plan, "web-0")
    assert why in found.warnings


@pytest.mark.parametrize(
    "said",
    [
        Answer(b'[{"Host": "cold", "Score": NaN}]'),
        [{"Host": "cold", "Score": 1.5}],
        [{"Host": "cold", "Score": "9"}],
        [{"Host": "cold", "Score": True}],
        [{"Host": "cold", "Score": 1 << 70}],
        [{"Host": "cold", "Score": (1 << 63) - 1}],
        [{"Host": ["cold"], "Score": 1}],
        {"Host": "cold", "Score": 1},
        [{"Host": "cold", "Score": 10**400}],
        [{"Host": "cold", "Score": ""}],
        [{}] * (2 * extenders.MAX_NODES + 1),
        ["cold"],
        7,
        False,
    ],
)
def test_scores_that_are_none_keep_the_pods(said: Any) -> None:
    found = asked(lambda _verb, _body: said, filterVerb="")
    assert kept(found.plan) == {"web-0": "Unpredictable", "web-1": "Unpredictable"}


@pytest.mark.parametrize(
    ("said", "ignored"),
    [
        ({"Error": "no"}, True),
        ({"NodeNames": ["mars"]}, True),
        (Answer(status=500), True),
        (Answer(status=503), False),
        (Answer(b'{"NodeNames": ["hot"]} {}'), False),
        ({"NodeNames": ["hot", "hot"]}, False),
        ([], False),
    ],
)
def test_an_ignorable_ones_answer_is_ignored_only_where_the_scheduler_is_sure_to_ignore_it(
    said: Any, ignored: bool
) -> None:
    found = asked(lambda verb, _body: said if verb == "filter" else [], ignorable=True)
    assert kept(found.plan)["web-0"] == ("NoBetterLanding" if ignored else "Unpredictable")


def test_of_words_without_end_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extenders, "MAX_WORDS", 300)
    found = asked(rejecting(FailedNodes=dict.fromkeys(NODES, "x" * 1000)))
    (known,) = next(iter(found.answers.values())).by_class.values()
    assert known.rejected == dict.fromkeys(NODES, "it rejects it")
