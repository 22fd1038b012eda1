"""The connection to a live cluster, and the first request over it.

To import what plans takes longer than to log in. So where a login is plain the first page of nodes is asked
for before that, and arrives meanwhile:

    the program   | policy, log in | model, numpy | decode nodes, pods, ...
    API server                     | nodes        | pods, ...

Whatever goes wrong with it is said where the nodes are read. What is read later, the state and the
scheduler's configuration, may be wrong: where an option names a file with one of them, or the policy says
what the configuration is or which file has it, nothing is asked for ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalancer.observe.plan_options import PlanOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rebalancer.cluster.live import RawApi
    from rebalancer.cluster.live.login import Identity, Login
    from rebalancer.policy.schema import RebalancePolicy


def open_api(options: PlanOptions) -> RawApi | None:
    """The connection to a live cluster; None when a recorded one is read."""
    if options.source is not None:
        return None
    from rebalancer.cluster.live.login import login  # noqa: PLC0415 - not for a recorded cluster

    return _connected(options, login)


def ask_ahead(options: PlanOptions, policy: RebalancePolicy) -> RawApi | None:
    """The connection to a live cluster whose first nodes are on their way; None where ``open_api`` has to.

    That is for a recorded cluster, where files or a part of the policy are still to be read, and where the
    login is not plain or cannot be used.
    """
    configured = options.scheduler_config or policy.scheduler.file or policy.scheduler.inline
    if options.source or configured or options.state_path:
        return None
    from rebalancer.cluster.kinds import NODES  # noqa: PLC0415 - not for a recorded cluster
    from rebalancer.cluster.live.login import plain_login  # noqa: PLC0415

    api = _connected(options, plain_login)
    if api is not None:
        api.ask_ahead(NODES)
    return api


def _connected(
    options: PlanOptions, log_in: Callable[[Path | None, str | None, Identity], Login | None]
) -> RawApi | None:
    from rebalancer.cluster.live.client import KubernetesClient, RawApi  # noqa: PLC0415 - as above
    from rebalancer.cluster.live.login import Identity  # noqa: PLC0415

    identity = Identity(options.kube_cluster, options.kube_user, options.acts_as, options.as_groups)
    found = log_in(options.kubeconfig, options.context, identity)
    return None if found is None else RawApi(KubernetesClient(found, options.request_seconds))
