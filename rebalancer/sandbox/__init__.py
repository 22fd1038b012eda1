"""The embedded cluster: an API server over real HTTP, controllers, simulated kubelets and a scheduler.

All of it are threads of one process. ``Sandbox`` is the whole; the rest is what it can be told.
"""

from rebalancer.sandbox.api.authorization import Rule, User, allow
from rebalancer.sandbox.embedded_cluster import Sandbox
from rebalancer.sandbox.faults.misbehaviour import Misbehaviour
from rebalancer.sandbox.faults.request_faults import Fault, Faults
from rebalancer.sandbox.scheduler.deciders import ClusterView, Decider, UnschedulableError

__all__ = [
    "ClusterView",
    "Decider",
    "Fault",
    "Faults",
    "Misbehaviour",
    "Rule",
    "Sandbox",
    "UnschedulableError",
    "User",
    "allow",
]
