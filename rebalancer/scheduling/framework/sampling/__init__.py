"""Where a pod lands when the scheduler looks at a sample of the nodes: what samples happen, who wins them."""

from rebalancer.scheduling.framework.sampling.interleavings import ONE_WORKER, Workers
from rebalancer.scheduling.framework.sampling.search import Search, Searches, nodes_to_find

__all__ = ["ONE_WORKER", "Search", "Searches", "Workers", "nodes_to_find"]
