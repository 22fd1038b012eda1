"""Landing = placement: replacements go where the plan says, on random clusters and a real scheduler."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conftest import SUMMARY
from tests.e2e.landing_clusters import Situation
from tests.e2e.landing_runs import DEFAULT, Rebalanced, Seen, rebalance

AT_ONCE = ("0s", "1s")
SITUATIONS = (
    # Those of TargetLoadPacking are short: what was moved a minute ago counts as measured or not, as the
    # scheduler's figures are up to half a minute old.
    Situation(2, 40, "target-load-packing", AT_ONCE, 30),
    Situation(3, 56, "load-variation", AT_ONCE, 70),
    Situation(1, 60, DEFAULT, AT_ONCE),
    Situation(4, 52, "low-risk", AT_ONCE),
    Situation(5, 60, "peaks", AT_ONCE),
    Situation(6, 20, DEFAULT, (*AT_ONCE, *AT_ONCE, "30s")),
    Situation(7, 36, "target-load-packing", AT_ONCE, 30),
    Situation(8, 58, DEFAULT, AT_ONCE),
    Situation(9, 50, "low-risk", AT_ONCE),
    Situation(10, 48, "load-variation", AT_ONCE, 70),
)
AT_A_TIME = 3
LEAST_EVICTIONS = 500
LEAST_SHARE = 0.995


def described(seen: Seen) -> str:
    """A landing that was not predicted, in a line."""
    predicted = ", ".join(f"{node} {chance:.0%}" for node, chance in seen.predicted.items())
    return (
        f"{seen.cluster}: {seen.pod} of {seen.left}, wave {seen.wave}: predicted {predicted}, "
        f"landed on {seen.node or 'no node'} ({seen.result}: {seen.because}; "
        f"uncertain moves before it in its wave: {seen.uncertain_before}; {seen.known})"
    )


def all_of(situations: Sequence[Situation], folder: Path) -> list[Rebalanced]:
    """Each situation on a control plane of its own, a few at a time."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        folders = [folder / f"{item.scheduler}-{item.seed}" for item in situations]
        return list(pool.map(rebalance, situations, folders))


def test_replacements_land_where_the_plan_says(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    for situation in SITUATIONS:
        record_property("seed", situation.seed)
    clusters = all_of(SITUATIONS, tmp_path)
    nodes = {f"{item.situation.scheduler}-{item.situation.seed}": item.situation.nodes for item in clusters}
    seen = [landing for item in clusters for landing in item.seen]
    counted = [landing for landing in seen if 4 * len(landing.predicted) <= nodes[landing.cluster]]
    as_predicted = sum(landing.as_predicted for landing in counted)
    size = sum(len(landing.predicted) for landing in counted) / max(1, len(counted))
    misses = [described(landing) for landing in counted if not landing.as_predicted]
    skipped = sum(len(item.skipped) for item in clusters)
    record_property(
        SUMMARY,
        f"landings: {as_predicted} of {len(counted)} evictions on {len(clusters)} random clusters landed "
        f"where predicted ({as_predicted / max(1, len(counted)):.2%}), {size:.2f} nodes predicted on "
        f"average; {len(seen) - len(counted)} more than a quarter of the nodes, {skipped} moves skipped",
    )
    for line in misses:
        record_property(SUMMARY, f"landings: missed: {line}")
    assert len(counted) >= LEAST_EVICTIONS
    assert as_predicted >= LEAST_SHARE * len(counted), "\n".join(misses)


# Upper bounds that chi-square exceeds once in ten thousand times, by degrees of freedom.
CHI_SQUARE = {1: 15.14, 2: 18.42, 3: 21.11, 4: 23.51, 5: 25.74, 6: 27.86}
EDGES = (0.0, 0.1, 0.25, 0.4, 0.6, 0.8, 1.0)
# Some nodes are younger than the others, empty, and between them by name.
LARGE = Situation(11, 200, DEFAULT, AT_ONCE, 60, hot_every=10, large=True)
LEAST_SAMPLED = 40


def calibration(landings: Sequence[Seen]) -> list[tuple[float, float, float]]:
    """Bins of predicted probability: what was expected, how often it was so, and the variance of that."""
    bins: list[tuple[float, float, float]] = []
    for low, high in itertools.pairwise(EDGES):
        inside = [
            (chance, seen.node == node)
            for seen in landings
            for node, chance in seen.predicted.items()
            if low < chance <= high and chance < 1.0
        ]
        variance = sum(chance * (1 - chance) for chance, _ in inside)
        if variance >= 1.0:
            bins.append((sum(chance for chance, _ in inside), sum(hit for _, hit in inside), variance))
    return bins


def test_where_the_scheduler_samples_landings_are_as_frequent_as_predicted(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", LARGE.seed)
    seen = rebalance(LARGE, tmp_path / "large", confidence=0.001).seen
    as_predicted = sum(landing.as_predicted for landing in seen)
    uncertain = [landing for landing in seen if len(landing.predicted) > 1]
    bins = calibration(uncertain)
    chi_square = sum((hits - expected) ** 2 / variance for expected, hits, variance in bins)
    record_property(
        SUMMARY,
        f"landings: on {LARGE.nodes} nodes {as_predicted} of {len(seen)} as predicted, {len(uncertain)} of "
        "them uncertain; predicted against observed "
        + ", ".join(f"{expected:.1f}/{hits:.0f}" for expected, hits, _ in bins)
        + f", chi-square {chi_square:.1f} of {len(bins)}",
    )
    assert len(uncertain) >= LEAST_SAMPLED
    misses = [described(landing) for landing in seen if not landing.as_predicted]
    assert as_predicted >= LEAST_SHARE * len(seen), "\n".join(misses)
    assert bins
    assert chi_square <= CHI_SQUARE[len(bins)]
