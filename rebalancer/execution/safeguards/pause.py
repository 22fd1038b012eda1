"""The emergency brake of a run that is at work: a ConfigMap that pauses runs by merely existing.

It stands beside the lease and is named after it, so whoever shares a lease is paused together. It is no part
of the manifests: kustomize gives it no hashed name, which a running pod would never see, and neither
``kubectl apply`` nor a controller that keeps a cluster as its repository says ends a pause:

    kubectl -n rebalancer create configmap rebalancer-pause --from-literal=reason="incident 42"
    kubectl -n rebalancer delete configmap rebalancer-pause
"""

from __future__ import annotations

from rebalancer.cluster.live import RawApi
from rebalancer.policy.schema import Safety

_REASON = "reason"
_MAX_REASON = 200


class PauseSwitch:
    """The ConfigMap that pauses the runs of a lease, read again each time."""

    def __init__(self, api: RawApi, namespace: str, lease: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = f"{lease}-pause"

    def why_paused(self) -> str:
        """Why runs are paused; empty when they are not.

        Raises RightsError or UnreachableError when that cannot be read: then nothing may be evicted either.
        """
        data = self._api.config_map(self._namespace, self._name)
        if data is None:
            return ""
        given = f" ({data[_REASON][:_MAX_REASON]!a})" if data.get(_REASON) else ""
        return (
            f"runs are paused by the configmap {self._namespace}/{self._name}{given}; "
            f"kubectl -n {self._namespace} delete configmap {self._name} lets them go on"
        )


def paused_by_policy(safety: Safety) -> str:
    """Why the policy pauses runs; empty when it does not."""
    return "the policy is paused (safety.pause)" if safety.pause else ""
