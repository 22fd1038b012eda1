"""The array types of columns, the types of the integers that index their tables, and sums of arrays."""

from __future__ import annotations

from typing import NewType

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

# What is decided about a cluster names its pods and nodes by these. The model of the scheduler counts with
# plain integers: a ClusterState numbers replacements beyond the rows of the pod table.
PodRow = NewType("PodRow", int)  # a row of the pod table
NodeRow = NewType("NodeRow", int)  # a row of the node table
PodClassIndex = NewType("PodClassIndex", int)  # an index of the pod classes


def weighted_sum(weights: FloatArray, values: FloatArray | BoolArray) -> FloatArray:
    """(…,) the sum of (n, …) values, each times its (n,) weight: the same on every processor.

    ``@`` would leave it to BLAS, which adds in an order that depends on the processor. The last digit would
    too, and so would which of two landings as good as equal comes first.
    """
    shaped = weights.reshape(-1, *(1,) * (values.ndim - 1))
    return np.asarray(np.add.reduce(shaped * values, axis=0), np.float64)
