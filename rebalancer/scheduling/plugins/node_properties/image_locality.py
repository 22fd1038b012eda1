"""ImageLocality: nodes that hold the pod's images already.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/imagelocality/image_locality.go:54.
"""

from __future__ import annotations

import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import ExtensionPoint
from rebalancer.scheduling.framework.plugin import MAX_SCORE, Evidence, Plugin
from rebalancer.scheduling.state.cluster_state import ClusterState

_MEBIBYTE = 1 << 20
_LOWEST = 23 * _MEBIBYTE
_HIGHEST_A_CONTAINER = 1000 * _MEBIBYTE


def normalized_name(image: str) -> str:
    """An image without a tag has the tag ``latest``."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


class ImageLocality(Plugin):
    """Scores the size of the images present, spread over the nodes that hold them; not normalised."""

    name = "ImageLocality"
    points = frozenset({ExtensionPoint.SCORE})
    evidence = Evidence.DECISIONS
    static = True

    def raw_scores(self, state: ClusterState, class_index: int, feasible: IntArray) -> IntArray:
        """100·(sum clamped to lowest..highest − lowest) ÷ (highest − lowest)."""
        spec = state.classes[class_index].spec
        containers = [*(spec.init_containers or ()), *(spec.containers or ())]
        sums = np.zeros(len(state.nodes), np.int64)
        for container in containers:
            held = state.nodes.images.get(normalized_name(container.image))
            if held is not None:
                rows, sizes = held
                spread = float(len(rows)) / float(len(state.nodes))
                sums[rows] += np.trunc(sizes.astype(np.float64) * spread).astype(np.int64)
        highest = max(len(containers), 1) * _HIGHEST_A_CONTAINER
        clamped = np.clip(sums, _LOWEST, highest)
        scores: IntArray = MAX_SCORE * (clamped - _LOWEST) // (highest - _LOWEST)
        return scores[feasible]
