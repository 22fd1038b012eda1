"""The array types of columns, and the types of the integers that index their tables."""

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
