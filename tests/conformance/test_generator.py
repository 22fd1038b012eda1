"""Random cases are reproducible, can all be decided, and contain what the model has rules for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from rebalancer.errors import InputError
from rebalancer.scheduling.registry import load_configuration
from tests.conformance.decide import decide
from tests.conformance.generator.cases import FAMILIES, make_case
from tests.conftest import some_of

CASES = 25

# Words that must occur in the cases of a family, or the family does not compare what it is named for.
EXPECTED = {
    "resources": ("overhead", "restartPolicy", "ephemeral-storage", "nvidia.com/gpu", "1500u"),
    "resize": ("allocatedResources", "Infeasible", "initContainerStatuses"),
    "taints": ("PreferNoSchedule", "NoExecute", "unschedulable", "Exists"),
    "nodeaffinity": ("addedAffinity", "matchFields", "Gt", "nodeSelector"),
    "ports": ("hostIP", "SCTP"),
    "interpod": ("namespaceSelector", "podAntiAffinity", "hardPodAffinityWeight"),
    "spread": ("minDomains", "nodeTaintsPolicy", "matchLabelKeys", "defaultConstraints"),
    "images": ("sizeBytes", "sha256", "reference"),
    "config": ("RequestedToCapacityRatio", "MostAllocated", "disabled", "multiPoint"),
    "nominated": ("nominatedNodeName",),
    "volumes": (
        "ReadWriteOncePod",
        "gcePersistentDisk",
        "azureDisk",
        "migrated-plugins",
        "volumeAttachments",
        "ephemeral",
        "allowedTopologies",
        "missing",
    ),
    "claims": ("selected-node", "csiStorageCapacities", "Lost", "deletionTimestamp", "selector", "Block"),
    "profiles": ('"schedulerName": "batch"', "addedAffinity"),
    "large": ("node-99",),
    "bystanders": ("resourceClaims", "schedulingGroup", "workloadRef", "RestartAllContainers"),
    "trimaran": ("TargetLoadPacking", "LowRiskOverCommitment", "STD"),
    "peaks": ("NodePowerModel", "k2", "Latest"),
    "mixed": ("topologySpreadConstraints", "podAffinity", "taints"),
}

# What some configurations of the family of profiles are refused for, by the scheduler as well.
REFUSED = ("addedAffinity", "queueSort")


def _refusal(case: Mapping[str, Any]) -> str:
    """Why a case's configuration is refused; empty when it is not."""
    try:
        load_configuration(case["config"], case["id"])
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.many_cases
@pytest.mark.parametrize("family", FAMILIES)
def test_cases_of_a_family_are_decided_and_contain_its_features(family: str) -> None:
    text, refused, decided = "", set[str](), some_of(range(CASES))
    for number in range(CASES):
        case = make_case(7, family, number)
        written = json.dumps(case)
        text += written
        if number in decided:
            assert written == json.dumps(make_case(7, family, number))
        if refusal := _refusal(case):
            refused |= {word for word in REFUSED if f"{word}: " in refusal} or {refusal}
            continue
        if number in decided:
            assert len(decide(case)["pods"]) == len(case["pending"])
    assert refused == ({*REFUSED} if family == "profiles" else set())
    assert [word for word in EXPECTED[family] if word not in text] == []


def test_cases_are_neither_all_feasible_nor_all_rejected() -> None:
    chosen = Counter(
        "chosen" in pod
        for family in sorted(FAMILIES.keys() - {"profiles"})
        for number in range(3)
        for pod in decide(make_case(11, family, number))["pods"]
    )
    assert chosen[True] > chosen[False] > 0


def test_another_seed_makes_another_case() -> None:
    assert make_case(1, "mixed", 0) != make_case(2, "mixed", 0)
