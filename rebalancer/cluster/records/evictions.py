"""Records of the EvictionRequest API: who asks for the eviction of a pod, and how far it is."""

from __future__ import annotations

from rebalancer.cluster.records.base import Condition, Metadata, Record


class TargetPod(Record, frozen=True):
    """spec.target.pod of an EvictionRequest or Eviction."""

    name: str = ""
    uid: str = ""


class EvictionTarget(Record, frozen=True):
    """spec.target of an EvictionRequest or Eviction."""

    pod: TargetPod | None = None


class EvictionRequestSpec(Record, frozen=True):
    """spec of an EvictionRequest; an Eviction has the target alone."""

    target: EvictionTarget = EvictionTarget()
    requester: str = ""
    intent: str = ""


class EvictionRequestStatus(Record, frozen=True):
    """status of an EvictionRequest or Eviction."""

    conditions: list[Condition] | None = None


class EvictionRequest(Record, frozen=True):
    """lifecycle.k8s.io/v1alpha1 EvictionRequest or Eviction."""

    metadata: Metadata = Metadata()
    spec: EvictionRequestSpec = EvictionRequestSpec()
    status: EvictionRequestStatus = EvictionRequestStatus()
