"""The controllers of the sandbox, one small class each, and the thread that drives them."""

from rebalancer_demo.controllers.deployment import DeploymentController
from rebalancer_demo.controllers.disruption import DisruptionController
from rebalancer_demo.controllers.driver import Controller, Driver, GarbageCollector, remove_old_events
from rebalancer_demo.controllers.workloads import JobController, ReplicaSetController, StatefulSetController

__all__ = [
    "Controller",
    "DeploymentController",
    "DisruptionController",
    "Driver",
    "GarbageCollector",
    "JobController",
    "ReplicaSetController",
    "StatefulSetController",
    "remove_old_events",
]
