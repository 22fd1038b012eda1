"""A plan that is made on a laptop is the one that the cluster's own nodes make."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from bench.loaded_clusters import loaded_inputs
from bench.random_clusters import random_inputs
from rebalancer.planning.plan import encode
from rebalancer.planning.planner import Planner
from tests.waiting import HANG_SECONDS

# OpenBLAS takes the instructions of so old a processor, on any that has them.
OLD_PROCESSOR = {"OPENBLAS_CORETYPE": "Prescott"}


def plans() -> bytes:
    """Plans of a cluster whose scheduler looks at samples, and of one where it draws among equal nodes."""
    clusters = (random_inputs(2, 0.6, 130), loaded_inputs(0))
    return b"\n".join(encode(Planner(inputs).plan()) for inputs in clusters)


def made_with(environment: Mapping[str, str]) -> bytes:
    """The plans, made by a process of its own."""
    made = subprocess.run(
        [sys.executable, "-m", __name__],
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
        timeout=HANG_SECONDS,
    )
    return made.stdout


def test_plans_are_the_same_byte_for_byte_whatever_the_processor_can_do() -> None:
    made = made_with({})
    assert made.count(b'"moves"') >= 2
    assert made_with(OLD_PROCESSOR) == made


if __name__ == "__main__":
    sys.stdout.buffer.write(plans())
