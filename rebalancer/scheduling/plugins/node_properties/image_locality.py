"""ImageLocality: nodes that hold the pod's images already.

Source: kubernetes v1.34.4 pkg/scheduler/framework/plugins/imagelocality/image_locality.go:54.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import msgspec
import numpy as np

from rebalancer.cluster.arrays import IntArray
from rebalancer.profiles.types import extension_points
from rebalancer.scheduling.framework.plugin import MAX_SCORE, NO_OTHER_SCORES, Evidence, OtherScores, Plugin
from rebalancer.scheduling.state.cluster_state import ClusterState, once_a_class
from rebalancer.scheduling.versions.rules import IMAGE_VOLUMES, IMAGE_VOLUMES_IN_LIMIT, INIT_IMAGES

_MEBIBYTE = 1 << 20
_LOWEST = 23 * _MEBIBYTE
_HIGHEST_A_CONTAINER = 1000 * _MEBIBYTE
_MAX_BYTES = 1 << 50  # of one image: scores tell no sizes apart that are larger, and sums cannot overflow
# Combinations of sizes of one pod's images that are all tried. Of more, some are drawn for the chances, and
# the smallest and the largest sizes bound which nodes can be chosen.
MAX_SIZE_COMBINATIONS = 1024
_DRAWN_COMBINATIONS = 64
_MAX_VALUES = 1 << 20  # scores of nodes, all combinations together


def normalized_name(image: str) -> str:
    """An image without a tag has the tag ``latest``."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


class ImageLocality(Plugin):
    """Scores the size of the images present, spread over the nodes that hold them; not normalised."""

    name = "ImageLocality"
    points = extension_points("score")
    evidence = Evidence.DECISIONS
    static = True

    def raw_scores(self, state: ClusterState, pod_class: int, feasible: IntArray) -> IntArray:
        """100·(sum clamped to lowest..highest − lowest) ÷ (highest − lowest)."""
        images = _images_of(state, pod_class)
        sizes = {name: state.nodes.images[name].sizes[0] for name in images.names}
        return _scores(state, images, sizes)[feasible]

    @once_a_class
    def other_raw_scores(self, state: ClusterState, pod_class: int) -> OtherScores:
        """The scores by the other sizes of the pod's images, each of which may be the scheduler's."""
        return _scores_by_other_sizes(state, pod_class)


class _Images(msgspec.Struct, frozen=True):
    """The images of a pod that nodes hold."""

    names: Mapping[str, int]  # name -> how often the pod names it
    counted: int  # by how many the limit grows, whether nodes hold them or not


def _images_of(state: ClusterState, pod_class: int) -> _Images:
    spec = state.classes[pod_class].spec
    release = state.classes.release
    containers = [*(spec.containers or ())]
    if release.has(INIT_IMAGES):
        containers += spec.init_containers or ()
    references = [container.image for container in containers]
    if release.has(IMAGE_VOLUMES):
        references += [volume.image.reference for volume in spec.volumes or () if volume.image]
    held = Counter(name for name in map(normalized_name, references) if name in state.nodes.images)
    counted = references if release.has(IMAGE_VOLUMES_IN_LIMIT) else containers
    return _Images(held, len(counted))


def _drawn(random: np.random.Generator, sizes: Iterable[Sequence[int]]) -> list[int]:
    """One of the sizes of each image."""
    return [int(random.choice(of_image)) for of_image in sizes]


def _scores_by_other_sizes(state: ClusterState, pod_class: int) -> OtherScores:
    """Each distinct score by other sizes than the first; where there are too many, some and the bounds."""
    images = _images_of(state, pod_class)
    names = tuple(images.names)
    sizes = [state.nodes.images[name].sizes for name in names]

    def scores(chosen: Iterable[int]) -> IntArray:
        return _scores(state, images, dict(zip(names, chosen, strict=True)))

    combinations = math.prod(map(len, sizes))
    if combinations == 1:
        return NO_OTHER_SCORES
    tried: Iterable[Iterable[int]] = product(*sizes)
    bounds: tuple[IntArray, IntArray] | None = None
    if combinations > MAX_SIZE_COMBINATIONS or combinations * len(state.nodes) > _MAX_VALUES:
        bounds = scores(map(min, sizes)), scores(map(max, sizes))
        random = np.random.default_rng(0)
        tried = [_drawn(random, sizes) for _ in range(_DRAWN_COMBINATIONS)]
    first = scores(of_image[0] for of_image in sizes).tobytes()
    others = {scores(chosen).tobytes() for chosen in tried} - {first}
    return OtherScores(tuple(np.frombuffer(other, np.int64) for other in sorted(others)), bounds)


def _scores(state: ClusterState, images: _Images, sizes: Mapping[str, int]) -> IntArray:
    """(nodes,) the scores by these sizes in bytes, by image name."""
    sums = np.zeros(len(state.nodes), np.int64)
    for name, times in images.names.items():
        rows = state.nodes.images[name].rows
        spread = float(len(rows)) / float(len(state.nodes))
        size = min(max(sizes[name], -_MAX_BYTES), _MAX_BYTES)
        sums[rows] += times * int(float(size) * spread)
    highest = max(images.counted, 1) * _HIGHEST_A_CONTAINER
    clamped = np.clip(sums, _LOWEST, highest)
    return np.asarray(MAX_SCORE * (clamped - _LOWEST) // (highest - _LOWEST), np.int64)
