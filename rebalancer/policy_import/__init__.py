"""Turns the policy of another descheduler into one of ours, and says line by line what it could not keep."""

from rebalancer.policy_import.files import import_policy
from rebalancer.policy_import.mapping import Imported

__all__ = ["Imported", "import_policy"]
