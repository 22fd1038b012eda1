"""While replacements are awaited only pods of their controllers are read, for as long as those say."""

from __future__ import annotations

from typing import Any

import pytest

from rebalancer.run.run import min_ready_seconds_in, selectors_of
from tests.builders import a_snapshot
from tests.rows import rows
from tests.unit.execution.builders import a_move


@rows(
    "kind, selector, query",
    [
        ("ReplicaSet", {"matchLabels": {"app": "web", "hash": "1"}}, "app=web,hash=1"),
        ("StatefulSet", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "app"),
        ("ReplicationController", {"app": "web"}, "app=web"),
        ("ReplicaSet", None, ""),
        ("ReplicaSet", {"matchExpressions": [{"key": "app", "operator": "Near"}]}, ""),
        ("ReplicationController", ["app"], ""),
    ],
)
def test_the_selector_is_that_of_the_pods_controller(kind: str, selector: Any, query: str) -> None:
    controller = {
        "metadata": {"namespace": "shop", "name": "web", "uid": "rs-web"},
        "spec": {"selector": selector},
    }
    plural = f"{kind.lower()}s"
    snapshot = a_snapshot(**{plural: [controller]})
    assert selectors_of(snapshot)(a_move(controller="rs-web")) == query


def test_of_a_controller_that_was_not_read_the_whole_namespace_is() -> None:
    assert selectors_of(a_snapshot())(a_move(controller="rollout-web")) == ""


@pytest.mark.parametrize(
    ("spec", "seconds"), [({"minReadySeconds": 30}, 30), ({}, 0), ({"minReadySeconds": -1}, 0)]
)
def test_the_seconds_for_which_a_replacement_has_to_be_ready_are_those_of_its_controller(
    spec: dict[str, Any], seconds: float
) -> None:
    controller = {"metadata": {"namespace": "shop", "name": "web", "uid": "rs-web"}, "spec": spec}
    of = min_ready_seconds_in(a_snapshot(replicasets=[controller]))
    assert of(a_move(controller="rs-web")) == seconds
    assert of(a_move(controller="of-an-add-on")) == 0
