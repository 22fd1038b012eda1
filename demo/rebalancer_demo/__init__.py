"""The embedded cluster: an API server over real HTTP, controllers, simulated kubelets and a scheduler.

All of them are threads of one process. ``Sandbox`` is the whole cluster; the other names set up its users,
its scheduler and its faults. It comes with the wheel; the image leaves it out.
"""

from rebalancer_demo.api.requests import Rule, User, allow
from rebalancer_demo.faults import Fault, Faults, Misbehaviour
from rebalancer_demo.resources import Surface
from rebalancer_demo.sandbox import Sandbox
from rebalancer_demo.scheduler import ClusterView, UnschedulableError

__all__ = [
    "ClusterView",
    "Fault",
    "Faults",
    "Misbehaviour",
    "Rule",
    "Sandbox",
    "Surface",
    "UnschedulableError",
    "User",
    "allow",
]
