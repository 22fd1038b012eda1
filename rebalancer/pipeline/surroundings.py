"""What a run is given by the program around it, which may make one run or one after another.

A run by itself connects, reads its policy, hears signals and takes the lease. A service does all that once,
and hands it to each of its runs:

    rebalancer run      connect, policy, signals, lease   run
    rebalancer serve    connect, policy, signals, lease   run, run (another policy), run …
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rebalancer.cluster.live import RawApi
from rebalancer.execution import HeldLease
from rebalancer.pipeline.gathering import open_api, policy_of
from rebalancer.pipeline.run_settings import PipelineOptions
from rebalancer.pipeline.signals import StopSignals
from rebalancer.policy import LoadedPolicy, load_policy
from rebalancer.policy.schema import Safety


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The connection, the policy, the signals, and the lease if somebody else takes and renews it."""

    api: RawApi
    loaded: LoadedPolicy
    signals: StopSignals
    safety: Callable[[], Safety]  # the brakes as they are now: a mounted policy may change meanwhile
    held: HeldLease | None = None  # None: the run takes the lease itself


def surroundings_of(options: PipelineOptions, signals: StopSignals) -> Surroundings:
    """Those of a run by itself. Raises InputError where there is no usable policy or no credentials."""
    api = signals.interruptibly(lambda: open_api(options))
    assert api is not None  # the commands that act refuse a recorded cluster
    loaded, path = policy_of(options), options.policy_path
    return Surroundings(
        api=api,
        loaded=loaded,
        signals=signals,
        safety=(lambda: load_policy(path).policy.safety) if path else (lambda: loaded.policy.safety),
    )
