"""NodeMetadata scores a number or a time that a label or annotation of a node says; without one it is 0."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rebalancer.errors import InputError
from rebalancer.profiles import SchedulerConfiguration
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows

KEY = "node.example.com/says"
NUMBER = {
    "metadataKey": KEY,
    "metadataSource": "Label",
    "metadataType": "Number",
    "scoringStrategy": "Highest",
}
TIME = {
    "metadataKey": KEY,
    "metadataSource": "Annotation",
    "metadataType": "Timestamp",
    "scoringStrategy": "Newest",
}


def configured(arguments: dict[str, Any]) -> SchedulerConfiguration:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"score": {"enabled": [{"name": "NodeMetadata"}]}},
                "pluginConfig": [{"name": "NodeMetadata", "args": arguments}],
            }
        ],
    }
    return load_configuration(json.dumps(document), "test")


def scores(arguments: dict[str, Any], texts: list[str | None]) -> list[int]:
    """The score of nodes of which each says a text, or nothing."""
    nodes = []
    for number, text in enumerate(texts):
        node = a_node(f"n-{number}")
        said = {} if text is None else {KEY: text}
        node["metadata"].setdefault("labels", {}).update(
            said if arguments["metadataSource"] == "Label" else {}
        )
        node["metadata"]["annotations"] = said if arguments["metadataSource"] == "Annotation" else {}
        nodes.append(node)
    snapshot = a_snapshot(nodes=nodes, pods=[a_pod("p")])
    configuration = configured(arguments)
    scheduler = make_scheduler(
        configuration, configuration.profiles[0], PluginInputs.of(snapshot, PluginInputs().view)
    )
    placement = scheduler.place(ClusterState.of(snapshot), 0)
    return [int(score) for score in placement.scores["NodeMetadata"]]


@rows(
    "changes, texts, expected",
    [
        ({}, ["10", "100", "50"], [1, 100, 45]),
        ({"scoringStrategy": "Lowest"}, ["10", "100", "50"], [100, 1, 56]),
        ({}, ["-3", "+4", "0.9"], [1, 100, 43]),
        ({}, ["7", "7", "cheap"], [1, 1, 0]),
        ({}, [None, "7", "9"], [0, 1, 100]),
        ({"scoringStrategy": "Lowest"}, [None, "7", "9"], [0, 100, 1]),
        ({}, [None, "cheap", ""], [0, 0, 0]),
        ({}, ["1e400", "NaN", "9223372036854775808", "1"], [0, 0, 0, 1]),
        ({"defaultValue": "8"}, [None, "7", "9", "cheap"], [50, 1, 100, 0]),
    ],
)
def test_numbers_score_from_1_to_100_and_nodes_without_one_0(
    changes: dict[str, Any], texts: list[str | None], expected: list[int]
) -> None:
    assert scores({**NUMBER, **changes}, texts) == expected


@rows(
    "changes, texts, expected",
    [
        ({}, ["2025-12-01T10:00:00Z", "2025-12-03T10:00:00Z", "2025-12-02T10:00:00Z"], [1, 100, 50]),
        ({}, ["2025-12-01T10:00:00.5Z", "2025-12-01T12:00:00+02:00", "yesterday"], [1, 1, 0]),
        ({"scoringStrategy": "Oldest"}, ["2025-12-01T10:00:00Z", "2025-12-03T10:00:00Z"], [100, 1]),
        ({"timestampFormat": "2006-01-02"}, ["2025-12-01", "2025-12-31", "2025-12-32"], [1, 100, 0]),
        ({"timestampFormat": "2006-01-02 15:04:05"}, ["2025-12-01 10:00:00", "2025-12-01T10:00:00"], [1, 0]),
    ],
)
def test_times_score_from_1_to_100_as_the_layout_reads_them(
    changes: dict[str, Any], texts: list[str | None], expected: list[int]
) -> None:
    assert scores({**TIME, **changes}, texts) == expected


@rows(
    "arguments, why",
    [
        ({**NUMBER, "scoringStrategy": "Newest"}, "needs scoringStrategy Highest or Lowest"),
        ({**TIME, "scoringStrategy": "Lowest"}, "needs scoringStrategy Newest or Oldest"),
        ({**NUMBER, "metadataKey": ""}, "metadataKey"),
        ({**NUMBER, "defaultValue": "cheap"}, "defaultValue cheap is no Number"),
        ({**TIME, "timestampFormat": "Mon Jan 2 15:04:05 2006"}, "is none that rebalancer reads"),
    ],
)
def test_arguments_that_say_no_order_are_refused(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        configured(arguments)
