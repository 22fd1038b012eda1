"""What a run is given by the program around it, which may make one run or one after another.

A run by itself connects, reads its policy, hears signals and takes the lease. A service does all that once,
and hands it to each of its runs:

    rebalancer run      connect, policy, signals, lease   run
    rebalancer serve    connect, policy, signals, lease   run, run (another policy), run …
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rebalancer import files
from rebalancer.cluster.live import RawApi
from rebalancer.deadlines import Deadline
from rebalancer.documents import read_text_again
from rebalancer.execution import HeldLease
from rebalancer.pipeline.gathering import open_api, open_cluster, policy_of
from rebalancer.pipeline.run_settings import PipelineOptions
from rebalancer.pipeline.signals import StopSignals
from rebalancer.policy.policy_file import LoadedPolicy, parse_policy
from rebalancer.policy.schema import Safety

if TYPE_CHECKING:
    from rebalancer.cluster.live.watching import LiveCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The connection, the policy, the signals, and the lease if somebody else takes and renews it."""

    api: RawApi
    cluster: LiveCluster  # read again and again, by one run or by many
    loaded: LoadedPolicy
    signals: StopSignals
    safety: Callable[[], Safety]  # the brakes as they are now: a mounted policy may change meanwhile
    held: HeldLease | None = None  # None: the run takes the lease itself


def surroundings_of(options: PipelineOptions, signals: StopSignals) -> Surroundings:
    """Those of a run by itself. Raises InputError where there is no usable policy or no credentials."""
    api = signals.interruptibly(lambda: open_api(options))
    assert api is not None  # the commands that act refuse a recorded cluster
    api = api.until(Deadline(stop=signals.stop))
    loaded = policy_of(options)
    return Surroundings(
        api=api,
        cluster=open_cluster(api),
        loaded=loaded,
        signals=signals,
        safety=safety_of(options, loaded),
    )


def safety_of(options: PipelineOptions, loaded: LoadedPolicy) -> Callable[[], Safety]:
    """The brakes as the policy has them now: a mounted policy may change while a run goes on.

    What came through a pipe cannot be read again, and stays as it was.
    """
    path = options.policy_path
    if path is None or not files.is_file(path):
        return lambda: loaded.policy.safety
    return lambda: parse_policy(read_text_again(path), str(path)).policy.safety
