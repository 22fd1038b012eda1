"""Joins what was read into the inputs of a plan, with a digest that identifies them."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rebalancer.cluster.arrays import FloatArray
from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.dumps.writer import digest as recording_digest
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.load.plugin_sources import PluginSources, read_view
from rebalancer.load.prometheus.reader import PrometheusAccess, live_access, recorded_access
from rebalancer.load.service_addresses import runs_in_a_cluster
from rebalancer.load.sources import LoadInputs, read_load
from rebalancer.load.usage import RESOURCES
from rebalancer.pipeline.gathering.cluster_snapshot import read_snapshot
from rebalancer.pipeline.gathering.insecure_connections import insecure_connections
from rebalancer.pipeline.gathering.load_services import policy_watchers, relied_on_workloads
from rebalancer.pipeline.gathering.recorded import (
    recorded_answers,
    recorded_configuration,
    recorded_moment,
    recorded_state,
)
from rebalancer.pipeline.gathering.unmatched_names import unmatched_names
from rebalancer.pipeline.gathering.warnings import input_warnings
from rebalancer.pipeline.run_settings import PipelineOptions
from rebalancer.pipeline.scheduler.configuration import configuration_text, load_with_plugins
from rebalancer.pipeline.scheduler.feature_gates import feature_gates, gate_warnings
from rebalancer.pipeline.scheduler.processor_cores import scheduler_cores
from rebalancer.pipeline.scheduler.recent_start import recent_start
from rebalancer.pipeline.scheduler.score_rules import scored_resources
from rebalancer.pipeline.scheduler.version import scheduler_version
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.policy import LoadedPolicy, default_policy, load_policy
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling import (
    REFERENCE,
    default_configuration,
    differing_rules,
    is_verified,
    plugin_queries,
    pod_requests,
    requested_amounts,
)
from rebalancer.state import RunState
from rebalancer.state.run_state import encode as encode_state
from rebalancer.telemetry import span

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi
    from rebalancer.cluster.live.watching import LiveCluster


@dataclass(frozen=True, slots=True)
class Gathered:
    """The inputs of a plan, and what the next run should know about the load of this one."""

    inputs: PlanningInputs
    current_load: Mapping[str, Mapping[str, float]]  # percent by resource and node, where no history is kept


def policy_of(options: PipelineOptions) -> LoadedPolicy:
    """The policy an option names, else the default one."""
    return load_policy(options.policy_path) if options.policy_path else default_policy()


def gather(
    options: PipelineOptions,
    loaded: LoadedPolicy,
    api: RawApi | None,
    state: RunState | None,
    clock: Callable[[], float] = time.time,
    cluster: LiveCluster | None = None,
    snapshot: Snapshot | None = None,
) -> Gathered:
    """Read everything and join it. Raises the errors of its parts; each is one line.

    ``state`` is what earlier runs left; without it the one recorded with the cluster counts. Whoever reads
    a live cluster again and again keeps a ``cluster``, whose changes alone are read. ``snapshot`` is
    the cluster itself, where it was read for another policy already.
    """
    with span("gather") as gathering:
        gathered = _gathered(options, loaded, api, state, clock, cluster, snapshot)
        version, found = gathered.inputs.scheduler_version, gathered.inputs.snapshot
        gathering.add(nodes=len(found.nodes), pods=len(found.pods), scheduler_version=version)
        gathering.add(verified=is_verified(version), unverified_rules=len(differing_rules(version)))
    return gathered


def _gathered(
    options: PipelineOptions,
    loaded: LoadedPolicy,
    api: RawApi | None,
    state: RunState | None,
    clock: Callable[[], float],
    cluster: LiveCluster | None,
    snapshot: Snapshot | None,
) -> Gathered:
    configuration = _configuration(options, loaded, api)  # first: a mistake in it is found in no time
    snapshot = snapshot or read_snapshot(options, api, clock, cluster)
    recording = snapshot.recording
    policy = loaded.policy
    now = options.now if options.now is not None else (recorded_moment(snapshot) if api is None else clock())
    configuration = configuration or _recorded_configuration(options, loaded, recording)
    state = state or recorded_state(recording)
    prometheus = _prometheus(recording, api, now, clock)
    view = read_view(
        PluginSources(
            snapshot=snapshot,
            configuration=configuration,
            also=policy_watchers(policy),
            queries=plugin_queries(configuration),
            api=api,
            prometheus=prometheus,
            inside=runs_in_a_cluster(),
            now=now,
        )
    )
    reading = read_load(
        LoadInputs(
            snapshot=snapshot,
            policy=policy,
            requests=requests_by_pod(snapshot),
            watchers=view.watchers,
            missing=view.missing,
            prometheus=prometheus,
            samples=state.samples if state else None,
            now=now,
            live=api is not None,
            scored=scored_resources(policy, configuration),
        )
    )
    version = scheduler_version(loaded, snapshot, configuration, api)
    inputs = PlanningInputs(
        snapshot=snapshot,
        load=reading.report,
        view=view,
        configuration=configuration,
        policy=policy,
        state=state,
        now=now,
        digest=_digest(
            recording_digest(recording).encode(),
            loaded.digest.encode(),
            configuration.text.encode(),
            repr(sorted(view.watchers.items())).encode(),
            prometheus.book.encode_answers(),
            encode_state(state) if state else b"",
            # Every version other than the one of reference may follow different rules.
            ("" if version == REFERENCE else version).encode(),
            repr(now).encode(),
        ),
        own_pod=_own_pod(),
        scheduler_version=version,
        scheduler_cores=scheduler_cores(policy.scheduler, snapshot),
        scheduler_start=recent_start(policy.scheduler, configuration, snapshot, api, now),
        feature_gates=feature_gates(loaded, snapshot, configuration),
        system_workloads=relied_on_workloads(snapshot, policy, configuration),
        warnings=(
            *unmatched_names(policy, snapshot, configuration, options.assume_neutral),
            *gate_warnings(loaded, snapshot, configuration),
            *insecure_connections(policy, configuration, api),
            *input_warnings(snapshot, configuration, reading.report, view.missing, version),
        ),
    )
    return Gathered(inputs, reading.present)


def _configuration(
    options: PipelineOptions, loaded: LoadedPolicy, api: RawApi | None
) -> SchedulerConfiguration | None:
    """The one of an option's file, else the policy's own; None where neither names one."""
    written = configuration_text(loaded, options.scheduler_config, api)
    return load_with_plugins(loaded, written, options.assume_neutral) if written else None


def _recorded_configuration(
    options: PipelineOptions, loaded: LoadedPolicy, recording: Recording
) -> SchedulerConfiguration:
    """What was recorded with the cluster, else the defaults."""
    written = recorded_configuration(recording)
    if written is None:
        return default_configuration()
    return load_with_plugins(loaded, written, options.assume_neutral)


def _prometheus(
    recording: Recording, api: RawApi | None, now: float, clock: Callable[[], float]
) -> PrometheusAccess:
    answers = recorded_answers(recording)
    if api is None:
        return recorded_access(answers, recording.source)
    return live_access(api, now, clock(), inside=runs_in_a_cluster())


def requests_by_pod(snapshot: Snapshot) -> FloatArray:
    """(pods, 2) what each pod requests: thousandths of a core, bytes."""
    rows = [requested_amounts(pod_requests(pod).present, RESOURCES) for pod in snapshot.pods.classes]
    table = np.array(rows, np.float64).reshape(len(rows), len(RESOURCES))
    return np.asarray(table[snapshot.pods.pod_class], np.float64)


def _digest(*parts: bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return f"sha256:{total.hexdigest()}"


def _own_pod() -> str:
    """The pod this program runs in, whose names the CronJob passes in the environment."""
    namespace, name = os.environ.get("POD_NAMESPACE", ""), os.environ.get("POD_NAME", "")
    return f"{namespace}/{name}" if namespace and name else ""
