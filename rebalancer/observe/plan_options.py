"""What a plan is made from and how a run is carried out, as values that commands are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

MAX_CONFIRMATION_SECONDS = 180.0  # the lease is held while the user is asked: other runs wait for the answer


if TYPE_CHECKING:
    from rebalancer.planning.inputs import Observation
    from rebalancer.policy.policy_file import LoadedPolicy
    from rebalancer.state.run_state import RunState


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
    request_seconds: float | None = None  # for the answer to one request to the API server; None: the default
    now: float | None = None  # Unix seconds; None: the clock, or the newest metric of a recorded cluster
    state_path: Path | None = None  # the state of earlier runs
    state_config_map: str | None = None  # NAMESPACE/NAME: the same in the cluster
    scheduler_config: Path | None = None  # instead of the configuration the policy names
    assume_neutral: tuple[str, ...] = ()
    max_dump_bytes: int | None = None  # of a recorded cluster, unpacked; None: the default
    ignore_coverage: bool = False  # nothing will be done: too few known nodes are a warning, not a refusal
    advise: bool = False  # also say what the plan would be if it steered, or did not
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
