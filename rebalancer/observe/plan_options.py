"""What a plan is made from and how a run is carried out, as values that commands are given; what they name.

To import what plans takes longer than to log in. So where a login is plain the first page of nodes is asked
for before that, and arrives meanwhile:

    the program   | policy, log in | model, numpy | decode nodes, pods, ...
    API server                     | nodes        | pods, ...

Whatever goes wrong with it is said where the nodes are read. What is read later, the state and the
scheduler's configuration, may be wrong: where an option names a file with one of them, or the policy says
what the configuration is or which file has it, nothing is asked for ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi
    from rebalancer.cluster.live.login import Identity, Login
    from rebalancer.planning.inputs import Observation
    from rebalancer.policy.policy_file import LoadedPolicy
    from rebalancer.policy.schema import RebalancePolicy
    from rebalancer.state.run_state import RunState

MAX_CONFIRMATION_SECONDS = 180.0  # the lease is held while the user is asked: other runs wait for the answer


class PlanOptions(msgspec.Struct, frozen=True):
    """Where a plan's inputs come from."""

    policy_path: Path | None = None  # None: every default
    source: Path | None = None  # a recorded cluster; None: a live one
    at: float | None = None  # Unix seconds: which moment of a recorded timeline; None: its newest
    kubeconfig: Path | None = None
    context: str | None = None
    kube_cluster: str | None = None  # of the kubeconfig, instead of the context's
    kube_user: str | None = None  # the same
    acts_as: str | None = None  # whom the user impersonates
    as_groups: tuple[str, ...] = ()
    cluster_name: str = ""  # what users call the cluster, where not by the kubeconfig's context
    request_seconds: float | None = None  # for the answer to one request to the API server; None: the default
    now: float | None = None  # Unix seconds; None: the clock, or the newest metric of a recorded cluster
    state_path: Path | None = None  # the state of earlier runs
    state_config_map: str | None = None  # NAMESPACE/NAME: the same in the cluster
    scheduler_config: Path | None = None  # instead of the configuration the policy names
    assume_neutral: tuple[str, ...] = ()
    max_dump_bytes: int | None = None  # of a recorded cluster, unpacked; None: the default
    ignore_coverage: bool = False  # nothing will be done: too few known nodes are a warning, not a refusal
    progress: Callable[[str], None] = lambda _message: None
    # Given what was read, with the state it is judged by, before it is judged.
    observed: Callable[[Observation, RunState | None], None] = lambda _observation, _state: None


class RunOptions(msgspec.Struct, frozen=True):
    """How a plan is carried out."""

    dry_run: bool = False
    journal: Path | None = None
    max_duration_seconds: float | None = None
    lease: str = "rebalancer/rebalancer"  # NAMESPACE/NAME
    metrics_textfile: Path | None = None
    metrics_push: str | None = None  # URL of a Pushgateway
    cluster: str = ""  # the label of its metrics


def policy_of(options: PlanOptions) -> LoadedPolicy:
    """The policy an option names, else the default one."""
    from rebalancer.policy.policy_file import default_policy, load_policy  # noqa: PLC0415 - imports pydantic

    return load_policy(options.policy_path) if options.policy_path else default_policy()


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
    given = [settings.file or settings.inline for settings in policy.schedulers]
    configured = options.scheduler_config or any(given)
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
    login = log_in(options.kubeconfig, options.context, identity)
    if login is None:
        return None
    login = msgspec.structs.replace(login, name=_name_of_cluster(options, identity))
    return RawApi(KubernetesClient(login, options.request_seconds))


def _name_of_cluster(options: PlanOptions, identity: Identity) -> str:
    """What users call the cluster: by a name of their own, and by the kubeconfig's context."""
    from rebalancer.cluster.live.login import current_context, is_of_own_pod  # noqa: PLC0415 - as above

    names: list[str] = []
    if options.cluster_name:
        names.append(options.cluster_name)
    context = options.context or ""
    if not context and not is_of_own_pod(options.kubeconfig, options.context, identity):
        context = current_context(options.kubeconfig)
    if identity.cluster:
        names.append(f"cluster {identity.cluster}")
    elif context:
        names.append(f"context {context}")
    return ", ".join(names)
