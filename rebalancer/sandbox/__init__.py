"""The embedded cluster: an API server over real HTTP, controllers, simulated kubelets and a scheduler.

All of it are threads of one process. ``Sandbox`` is the whole; the rest is what it can be told.
"""

from rebalancer.sandbox.authorization import User, allow
from rebalancer.sandbox.deciding import ClusterView, Decider, UnschedulableError
from rebalancer.sandbox.faults import Fault
from rebalancer.sandbox.misbehaviour import Misbehaviour
from rebalancer.sandbox.sandbox import Sandbox

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
