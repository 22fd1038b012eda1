"""A live API server: ``open_api`` connects, ``RawApi`` sends single requests.

``reader`` reads a whole cluster, ``lists`` holds the one LIST loop.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rebalancer.cluster.live.client import RawApi

__all__ = ["RawApi", "open_api"]


def open_api(
    kubeconfig: Path | None = None, context: str | None = None, request_seconds: float | None = None
) -> RawApi:
    """The API server that the kubeconfig, else the pod's service account, names.

    ``request_seconds`` is how long the answer to a single request is waited for, where it has no bound of its
    own.
    Raises InputError when there are no usable credentials. What talks to a network is imported here: recorded
    clusters are planned without it. The official client, slow to import, is asked where a login is not plain.
    """
    from rebalancer.cluster.live.client import KubernetesClient  # noqa: PLC0415
    from rebalancer.cluster.live.login import plain_login  # noqa: PLC0415

    api: Any = plain_login(kubeconfig, context)
    if api is None:
        from rebalancer.cluster.live.login import connect  # noqa: PLC0415

        api = connect(kubeconfig, context)
    return RawApi(KubernetesClient(api, request_seconds))
