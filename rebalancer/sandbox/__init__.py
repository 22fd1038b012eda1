"""The embedded cluster: an API server over real HTTP, controllers, simulated kubelets and a scheduler.

All of it are threads of one process. ``Sandbox`` is the whole; the rest is what it can be told.
"""

from rebalancer.sandbox.api.authorization import User, allow
from rebalancer.sandbox.faults.faults import Fault
from rebalancer.sandbox.faults.misbehaviour import Misbehaviour
from rebalancer.sandbox.sandbox import Sandbox
from rebalancer.sandbox.scheduler.deciding import ClusterView, Decider, UnschedulableError

__all__ = [
    "ClusterView",
    "Decider",
    "Fault",
    "Misbehaviour",
    "Sandbox",
    "UnschedulableError",
    "User",
    "allow",
]
