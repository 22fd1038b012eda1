"""The array types of columns, and what a number in one of them stands for.

Every package takes these from here, so that a row of one table is not mistaken for a row of another.
"""

from __future__ import annotations

from typing import NewType

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

PodRow = NewType("PodRow", int)
"""A pod's row in ``PodTable``: its place in order of namespace and name."""
NodeRow = NewType("NodeRow", int)
"""A node's row in ``NodeTable``: its place in order of name."""
PodClassIndex = NewType("PodClassIndex", int)
"""A pod class's place in ``PodTable.classes``."""
