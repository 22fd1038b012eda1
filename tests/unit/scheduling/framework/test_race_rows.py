"""What a race adds and multiplies row by row is what NumPy makes of all rows at once, to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.cluster.arrays import FloatArray, IntArray
from rebalancer.scheduling.framework import race


def a_table(seed: int, rows: int, columns: int) -> tuple[FloatArray, IntArray]:
    """Chances as those of nodes by draws, and where groups of its rows begin."""
    random = np.random.default_rng(seed)
    begins = np.flatnonzero(random.random(rows) < random.choice([0.05, 0.3, 0.9]))
    table: FloatArray = np.asarray(random.uniform(0.003, 0.997, (rows, columns)), "f4")
    return table, np.unique(np.concatenate([[0], begins]))


tables = st.builds(a_table, st.integers(0, 10_000), st.integers(1, 60), st.sampled_from([1, 7, 64, 560]))


@given(tables)
def test_rows_are_multiplied_and_added_as_by_numpy(table: tuple[FloatArray, IntArray]) -> None:
    values, begins = table
    before = values.copy()
    for found, expected in (
        (race._each_multiplied(values, begins), np.multiply.reduceat(values, begins, axis=0)),
        (race._each_added(values, begins), np.add.reduceat(values, begins, axis=0)),
        (race._cumulated_products(values), np.cumprod(values, axis=0)),
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(values, before)


@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(*[st.integers(-3, 9)] * n), min_size=1)))
def test_the_most_frequent_extremes_are_those_that_a_counter_finds(seen: list[tuple[int, ...]]) -> None:
    kinds, kind_index = race._most_frequent([np.array(values) for values in zip(*seen, strict=True)])
    assert kinds == [kind for kind, _ in Counter(seen).most_common(race._MAX_EXTREMES)]
    number = {kind: index for index, kind in enumerate(kinds)}
    assert kind_index.tolist() == [number.get(kind, 0) for kind in seen]


@given(st.integers(0, 10_000), st.sampled_from([3, 199, 400, 850, 5000]), st.sampled_from([1, 9, 300, 10**9]))
def test_the_best_rows_are_those_of_all_values_in_order(seed: int, many: int, levels: int) -> None:
    random = np.random.default_rng(seed)
    values, count = random.integers(-levels, levels, many), int(random.integers(1, many))
    if seed % 3 == 0:
        values = np.sort(values)
    least = int(np.sort(values)[-count])
    rows, found = race._not_below(values, count)
    assert found == least
    np.testing.assert_array_equal(rows, np.flatnonzero(values >= least))


_CHANCES = """
import hashlib
import numpy as np
from rebalancer.scheduling.framework.sampling import Search
from rebalancer.scheduling.framework.scores import RawScores
from rebalancer.scheduling.framework.draws import Workers
from tests.unit.scheduling.framework.plain_plugins import Plain

search = Search(np.arange(1000), np.arange(1000), 420, Workers(16))
totals = np.random.default_rng(7).integers(0, 300, 1000)
print(hashlib.sha256(search.chances([RawScores(Plain(), 1, totals)]).tobytes()).hexdigest())
"""


def test_chances_are_the_same_to_the_last_bit_with_the_matrix_kernels_of_another_processor() -> None:
    def digest(**environment: str) -> str:
        command = [sys.executable, "-c", _CHANCES]
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            cwd=Path(__file__).parents[4],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert digest() == digest(OPENBLAS_CORETYPE="Prescott")
