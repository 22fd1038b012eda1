"""The controllers of the sandbox, one small class each, and the thread that drives them."""

from rebalancer.sandbox.controllers.deployment import DeploymentController
from rebalancer.sandbox.controllers.disruption import DisruptionController
from rebalancer.sandbox.controllers.driver import Controller, Driver
from rebalancer.sandbox.controllers.event_expiry import remove_old_events
from rebalancer.sandbox.controllers.garbage_collector import GarbageCollector
from rebalancer.sandbox.controllers.job import JobController
from rebalancer.sandbox.controllers.replicaset import ReplicaSetController
from rebalancer.sandbox.controllers.statefulset import StatefulSetController

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
