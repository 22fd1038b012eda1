"""A live API server: ``open_api`` connects, ``RawApi`` sends single requests.

``reader`` reads a whole cluster, ``lists`` holds the one LIST loop.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rebalancer.cluster.live.client import KubernetesClient, RawApi, object_path

__all__ = ["RawApi", "object_path", "open_api"]


def open_api(
    kubeconfig: Path | None = None,
    context: str | None = None,
    request_seconds: float | None = None,
    **identity: Any,
) -> RawApi:
    """The API server that the kubeconfig, else the pod's service account, names.

    ``identity`` are fields of ``Identity``, where another cluster, user or impersonated user is asked for.
    ``request_seconds`` is how long the answer to a single request is waited for, where it has no bound of its
    own. Raises InputError when there are no usable credentials.
    """
    from rebalancer.cluster.live.login import Identity, login  # noqa: PLC0415 - imports the network client

    return RawApi(KubernetesClient(login(kubeconfig, context, Identity(**identity)), request_seconds))
