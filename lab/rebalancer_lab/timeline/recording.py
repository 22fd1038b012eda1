"""Records a live cluster moment by moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rebalancer.cluster import times
from rebalancer.cluster.dumps.listing import free_cycles
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import InputError, RebalancerError, StopRequestedError
from rebalancer.observe.plan_options import PlanOptions, open_api, policy_of
from rebalancer.observe.read import known_state, observe, open_cluster
from rebalancer.observe.timeline import TimelineWriter
from rebalancer.planning.inputs import Observation
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.state.run_state import RunState


def record_timeline(
    options: PlanOptions,
    folder: Path,
    max_bytes: int,
    every_seconds: float,
    ends: float,
    stop: StopRequest,
    wrote: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Record a live cluster moment by moment, until the Unix time ``ends`` or a signal asks to stop.

    ``wrote`` hears of each moment that was recorded, ``warn`` of each that could not be read; the next one is
    tried all the same. Raises InputError when the folder cannot be written, and the last failure where no
    moment was recorded at all.
    """
    loaded = policy_of(options)
    api = open_api(options)
    assert api is not None  # a timeline is recorded of a live cluster
    api = api.until(Deadline(stop=stop))
    writer = TimelineWriter(folder, max_bytes)
    failure = None
    is_recorded = False
    with open_cluster(api) as cluster:
        while not stop.is_set():
            began = time.monotonic()
            try:
                observation, state = _moment(options, loaded, api, cluster)
            except StopRequestedError:
                break
            except InputError:
                raise
            except RebalancerError as error:
                failure = error
                warn(f"this moment is not recorded: {error}")
            else:
                size = writer.write(observation, state)
                moment = times.render(observation.now)
                if size:
                    is_recorded = True
                    wrote(f"{moment}: {size} bytes")
                else:
                    warn(f"{moment} is not recorded: {writer.why_nothing}")
            if time.time() + every_seconds > ends:
                break
            free_cycles()
            stop.wait(max(every_seconds - (time.monotonic() - began), 0.0))
    if failure is not None and not is_recorded:
        raise failure


def _moment(
    options: PlanOptions, loaded: LoadedPolicy, api: RawApi, cluster: LiveCluster
) -> tuple[Observation, RunState | None]:
    state = known_state(options, api)
    return observe(options, (loaded,), api, cluster=cluster, unusable=lambda _: None), state
