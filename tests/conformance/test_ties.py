"""Equal pods on equal nodes land, one after the other, as one start index of the model's says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.ties import MINORS, Sequences, recorded, tied_cluster
from tests.conftest import SUMMARY

# One of so many recorded clusters is replayed; all of them: python -m tests.conformance.ties --replay
ONE_OF = 4
# The most of the recorded sequences that a race may have turned; each has about seven pods.
MOST_RACED = 0.15


@pytest.fixture(scope="module")
def found() -> dict[str, Sequences]:
    sequences = {minor: Sequences() for minor in MINORS}
    for case, minor, seen in recorded(ONE_OF):
        sequences[minor].add(case, minor, seen)
    return sequences


@pytest.mark.parametrize("minor", MINORS)
def test_every_recorded_sequence_is_one_that_the_model_expects(
    minor: str, found: dict[str, Sequences], record_property: Callable[[str, object], None]
) -> None:
    sequences = found[minor]
    assert sequences.total == 64
    assert sequences.outside == []
    record_property(SUMMARY, f"conformance ties {sequences.line(minor)}")


@pytest.mark.parametrize("minor", MINORS[1:])
def test_from_a_start_that_is_known_a_sequence_is_certain_but_for_races(
    minor: str, found: dict[str, Sequences]
) -> None:
    sequences = found[minor]
    assert sequences.from_start + sequences.raced == sequences.total
    assert sequences.raced <= MOST_RACED * sequences.total


def test_a_sequence_that_no_scheduler_would_make_is_outside() -> None:
    """From 1.35 on as before: a pod on a node that is not among the best is not explained away."""

    def closed(case: dict[str, Any]) -> list[str]:
        nodes = case["objects"]["nodes"]
        return [str(item["metadata"]["name"]) for item in nodes if item["spec"]["taints"]]

    case, minor, seen = next(item for item in recorded(1) if item[1] == "1.35" and closed(item[0]))
    strange = closed(case)[0]
    sequences = Sequences()
    sequences.add(case, minor, [[strange, *sequence[1:]] for sequence in seen])
    assert len(sequences.outside) == len(seen)


def test_clusters_are_the_same_for_a_seed() -> None:
    assert tied_cluster(7) == tied_cluster(7) != tied_cluster(8)
