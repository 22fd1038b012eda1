"""The emergency brake of a run that is at work: a ConfigMap that pauses runs by merely existing.

It is no part of the manifests. So kustomize gives it no hashed name, which a running pod would never see, and
neither ``kubectl apply`` nor a controller that keeps a cluster as its repository says ends a pause:

    kubectl -n rebalancer create configmap rebalancer-pause --from-literal=reason="incident 42"
    kubectl -n rebalancer delete configmap rebalancer-pause
"""

from __future__ import annotations

from rebalancer.cluster.live import RawApi
from rebalancer.policy.schema import Safety

PAUSE_CONFIG_MAP = "rebalancer-pause"
_REASON = "reason"
_MAX_REASON = 200


class PauseSwitch:
    """The ConfigMap ``rebalancer-pause`` of a namespace, read again each time."""

    def __init__(self, api: RawApi, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    def why_paused(self) -> str:
        """Why runs are paused; empty when they are not.

        Raises RightsError or UnreachableError when that cannot be read: then nothing may be evicted either.
        """
        data = self._api.config_map(self._namespace, PAUSE_CONFIG_MAP)
        if data is None:
            return ""
        given = f" ({data[_REASON][:_MAX_REASON]!a})" if data.get(_REASON) else ""
        return (
            f"runs are paused by the configmap {self._namespace}/{PAUSE_CONFIG_MAP}{given}; "
            f"kubectl -n {self._namespace} delete configmap {PAUSE_CONFIG_MAP} lets them go on"
        )


def paused_by_policy(safety: Safety) -> str:
    """Why the policy pauses runs; empty when it does not."""
    return "the policy is paused (safety.pause)" if safety.pause else ""
