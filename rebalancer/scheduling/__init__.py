"""The model of kube-scheduler: where it would place a pod, computed over arrays on a copy of the cluster.

A ``Scheduler`` is made from a profile of the scheduler's configuration by the ``registry``. It places pods of
a class on a ``ClusterState``; the ``Placement`` says which nodes are feasible, how they score and where the
pod may land. What a plugin of your own needs is offered here.
"""

from rebalancer.scheduling.framework.plugin import Normalization, Plugin, PluginInputs, normalize_by_maximum
from rebalancer.scheduling.state.cluster_state import ClusterState

__all__ = ["ClusterState", "Normalization", "Plugin", "PluginInputs", "normalize_by_maximum"]
