"""An extender is computed or asked: which of both, and where, a policy says once and safely."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.policy.schema import RebalancePolicy


@pytest.mark.parametrize(
    "item",
    [
        {"urlPrefix": "http://x:1/../../api"},
        {"urlPrefix": "http://bob:pw@x:1"},
        {"urlPrefix": "http://bob:pw@x:1", "address": "http://x:1"},
        {"urlPrefix": "ftp://x"},
        {"urlPrefix": "http://x", "address": "http://bob:pw@x"},
        {"urlPrefix": "http://x", "file": "scores.yaml"},
        {"urlPrefix": "http://x", "ask": False},
        {"urlPrefix": "http://x", "ask": False, "file": "f", "address": "http://x"},
    ],
)
def test_addresses_that_lead_elsewhere_and_two_answers_to_one_question_are_refused(
    item: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match=r"urlPrefix|address|ask") as found:
        RebalancePolicy.model_validate({"scheduler": {"extenders": [{"ask": True, **item}]}})
    assert "pw" not in str(found.value).split("input_value")[0]


def test_one_beside_the_scheduler_is_asked_at_an_address_of_its_own() -> None:
    item = {"urlPrefix": "http://127.0.0.1:8888/", "ask": True, "address": "http://gpu.kube-system:8888"}
    (found,) = RebalancePolicy.model_validate({"scheduler": {"extenders": [item]}}).scheduler.extenders
    assert (found.url, found.address) == ("http://127.0.0.1:8888", "http://gpu.kube-system:8888")
