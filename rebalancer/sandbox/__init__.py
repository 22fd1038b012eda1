"""The embedded cluster: an API server over real HTTP, controllers, simulated kubelets and a scheduler.

All of them are threads of one process. ``Sandbox`` is the whole cluster; the other names set up its users,
its scheduler and its faults. It is a distribution of its own, which the runtime wheel and image leave out.
"""

from rebalancer.sandbox.api.authorization import Rule, User, allow
from rebalancer.sandbox.embedded_cluster import Sandbox
from rebalancer.sandbox.faults.misbehaviour import Misbehaviour
from rebalancer.sandbox.faults.request_faults import Fault, Faults
from rebalancer.sandbox.scheduler.deciders import ClusterView, UnschedulableError

__all__ = [
    "ClusterView",
    "Fault",
    "Faults",
    "Misbehaviour",
    "Rule",
    "Sandbox",
    "UnschedulableError",
    "User",
    "allow",
]
