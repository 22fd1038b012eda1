"""What an extender computes a policy says once, and it names nothing that could be asked instead."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.policy.schema import RebalancePolicy
from tests.rows import rows


@rows(
    "item",
    [
        {"urlPrefix": "http://x"},
        {"urlPrefix": "http://x", "file": "f", "scores": {"kind": "ExtenderScores"}},
        {"urlPrefix": "http://x", "ask": True},
        {"urlPrefix": "http://x", "file": "f", "address": "http://x"},
    ],
)
def test_an_extender_without_one_source_of_its_scores_is_refused(item: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"one of scores, file and configMap|ask|address"):
        RebalancePolicy.model_validate({"scheduler": {"extenders": [item]}})


def test_an_extender_is_known_by_its_url_without_a_slash_at_its_end() -> None:
    item = {"urlPrefix": "http://127.0.0.1:8888/", "file": "scores.yaml"}
    (known,) = RebalancePolicy.model_validate({"scheduler": {"extenders": [item]}}).schedulers[0].extenders

    assert known.url == "http://127.0.0.1:8888"
