from __future__ import annotations

from typing import Any

import pytest

from rebalancer.cluster.snapshot import build_snapshot
from rebalancer.planning.warnings import sentences, unmatched_names
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.scheduling.registry import default_configuration
from tests.builders import a_node, a_pod, a_recording


def warnings(neutral: tuple[str, ...] = (), **policy: Any) -> tuple[str, ...]:
    recording = a_recording(
        None,
        nodes=[a_node("n1")],
        pods=[a_pod("web-1", node="n1", namespace="shop", labels={"app": "web"})],
        storageclasses=[{"metadata": {"name": "fast"}, "provisioner": "x"}],
    )
    found = RebalancePolicy.model_validate(policy)
    return sentences(unmatched_names(found, build_snapshot(recording), default_configuration(), neutral))


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ({"scheduler": {"profiles": ["trimarann"]}}, "scheduler.profiles names the profile trimarann"),
        ({"scheduler": {"assumeNeutral": ["Foo"]}}, "scheduler.assumeNeutral names the plugin Foo"),
        (
            {"hotNodes": {"any": [{"score": {"plugins": ["NodeResourceFit"], "below": 20}}]}},
            "did you mean NodeResourcesFit?",
        ),
        ({"evictable": {"namespaces": {"exclude": ["shopp"]}}}, "did you mean shop?"),
        ({"evictable": {"namespaces": {"include": ["nosuch"]}}}, "names the namespace nosuch"),
        (
            {"hotNodes": {"nodeSelector": {"matchLabels": {"rol": "worker"}}}},
            "hotNodes.nodeSelector selects no node: rol=worker",
        ),
        (
            {"hotNodes": {"pools": [{"name": "gpu", "nodeSelector": {"matchLabels": {"a": "b"}}}]}},
            "hotNodes.pools gpu: nodeSelector selects no node: a=b",
        ),
        ({"evictable": {"podSelector": {"matchLabels": {"app": "wep"}}}}, "podSelector selects no pod"),
        ({"evictable": {"protectStorageClasses": ["fats"]}}, "names the storage class fats"),
    ],
)
def test_a_name_that_matches_nothing_is_said(policy: dict[str, Any], sentence: str) -> None:
    (line,) = warnings(**policy)

    assert sentence in line


def test_an_option_that_matches_nothing_is_said() -> None:
    (line,) = warnings(("Foo",))

    assert line.startswith("--assume-neutral names the plugin Foo")


def test_names_that_match_are_not_mentioned() -> None:
    assert not warnings(
        scheduler={"profiles": ["default-scheduler"]},
        evictable={
            "namespaces": {"include": ["shop"]},
            "podSelector": {"matchLabels": {"app": "web"}},
            "protectStorageClasses": ["fast"],
        },
    )
