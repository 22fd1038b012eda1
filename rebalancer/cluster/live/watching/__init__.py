"""A cluster kept up to date by watches: ``LiveCluster``.

    with LiveCluster(api) as cluster:
        recording = cluster.current()         # reads everything, and begins to watch
        recording = cluster.current(deadline) # what changed since; never older than this call

What it returns is what ``LiveReader.read`` would return at that moment, equal by digest.
"""

from rebalancer.cluster.live.watching.latest_objects import SeenPod
from rebalancer.cluster.live.watching.live_cluster import LiveCluster

__all__ = [
    "LiveCluster",
    "SeenPod",
]
