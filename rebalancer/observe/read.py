"""Reads everything that plans are made from: the only place of a plan that does I/O.

``observe`` returns one value, and ``planning.assemble`` judges it by a policy. It is given all policies that
will judge the observation, so that the cluster is read once, and each load source is asked once, for all of
them. What reads a live cluster is imported where it is needed: a recorded one is read without a network.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.errors import InputError, InternalError, RebalancerError, StopRequestedError
from rebalancer.load.plugin_sources import plugin_requests, watcher_addresses
from rebalancer.load.prometheus.queries import Connection, PrometheusQuery
from rebalancer.load.prometheus.reader import connection_of
from rebalancer.load.prometheus.responses import RecordedResponses
from rebalancer.load.raw_figures import ANY_ADDRESS, RawFigures
from rebalancer.load.services import runs_in_a_cluster
from rebalancer.load.sources import prometheus_reader
from rebalancer.observe.configuration import InstalledPlugins, configuration_text
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.recorded import observation_of, recorded_state, unread_of
from rebalancer.planning.assemble import assemble, policy_watchers
from rebalancer.planning.inputs import ApiServer, Observation, PlanningInputs, SchedulerStart
from rebalancer.planning.scheduler_facts import (
    SchedulerLocation,
    configured,
    needs_server_version,
    place_of,
    scored_resources,
    starting_scheduler,
)
from rebalancer.planning.warnings import unprotected_server
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy, default_policy, load_policy
from rebalancer.profiles.types import ConfigurationText, SchedulerConfiguration
from rebalancer.scheduling.registry import default_configuration, plugin_queries
from rebalancer.scheduling.versions.verified import differing_rules, is_verified
from rebalancer.state.run_state import RunState
from rebalancer.telemetry import span

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi
    from rebalancer.cluster.live.watching import LiveCluster


def policy_of(options: PlanOptions) -> LoadedPolicy:
    """The policy an option names, else the default one."""
    return load_policy(options.policy_path) if options.policy_path else default_policy()


def open_api(options: PlanOptions) -> RawApi | None:
    """The connection to a live cluster; None when a recorded one is read."""
    if options.source is not None:
        return None
    from rebalancer.cluster.live import open_api as connect  # noqa: PLC0415 - not for a recorded cluster

    return connect(options.kubeconfig, options.context, options.request_seconds)


def open_cluster(api: RawApi) -> LiveCluster:
    """A live cluster that is read again and again, whose changes alone are read."""
    from rebalancer.cluster.live.watching import LiveCluster  # noqa: PLC0415 - imports kubernetes

    return LiveCluster.open(api)


def read_snapshot(
    options: PlanOptions,
    api: RawApi | None,
    clock: Callable[[], float],
    cluster: LiveCluster | None = None,
) -> Snapshot:
    """Every kind of the cluster, as columns; InputError when it has no node."""
    snapshot = build_snapshot(_read(options, api, clock, cluster))
    if not len(snapshot.nodes):
        broken = [str(item) for item in snapshot.malformed if item.kind == "Node"]
        raise InputError(
            f"no node could be read: {broken[0]}" if broken else "holds no nodes",
            where=snapshot.source,
            hint="is this the cluster you meant?",
        )
    return snapshot


def _read(
    options: PlanOptions,
    api: RawApi | None,
    clock: Callable[[], float],
    cluster: LiveCluster | None,
) -> Recording:
    if cluster is not None:
        assert api is not None
        return cluster.current(api.retries.run, options.progress)
    if api is None:
        assert options.source is not None
        recording = DumpReader(options.source, options.max_dump_bytes).read(progress=options.progress)
        return dataclasses.replace(recording, unread=unread_of(recording))
    from rebalancer.cluster.live.reader import LiveReader  # noqa: PLC0415 - imports kubernetes

    return LiveReader(api, clock).read(progress=options.progress)


def read_inputs(
    options: PlanOptions,
    policies: Sequence[LoadedPolicy],
    api: RawApi | None,
    state: RunState | None,
    *,
    cluster: LiveCluster | None = None,
    ignore_coverage: bool = False,
) -> tuple[PlanningInputs, ...]:
    """What a plan by each of these policies is made from; the cluster is observed once for all of them.

    ``state`` is what earlier runs left; without it the one recorded with the cluster counts. Raises the
    errors of ``observe`` and ``assemble``.
    """
    with span("gather") as reading:
        observation = observe(options, policies, api, cluster=cluster)
        state = state if state is not None else recorded_state(observation.snapshot.recording)
        found = tuple(
            assemble(observation, loaded, state, ignore_coverage=ignore_coverage) for loaded in policies
        )
        snapshot, version = observation.snapshot, found[0].scheduler.version
        reading.add(nodes=len(snapshot.nodes), pods=len(snapshot.pods), scheduler_version=version)
        reading.add(verified=is_verified(version), unverified_rules=len(differing_rules(version)))
    return found


def observe(
    options: PlanOptions,
    policies: Sequence[LoadedPolicy],
    api: RawApi | None,
    *,
    clock: Callable[[], float] = time.time,
    environment: Mapping[str, str] = os.environ,
    cluster: LiveCluster | None = None,
    snapshot: Snapshot | None = None,
    watcher: bytes | None = None,
    unusable: Callable[[InputError], None] | None = None,
) -> Observation:
    """Read what these policies need of a live cluster, or of a recorded one where ``api`` is None.

    Whoever reads a live cluster again and again keeps a ``cluster``, whose changes alone are read.
    ``snapshot`` is the cluster where it was read already, ``watcher`` what a load-watcher would answer. A
    configuration of the scheduler that cannot be used raises InputError, or is given to ``unusable``. A load
    source that does not answer raises nothing: that is what was observed of it.
    """
    plugins = InstalledPlugins()
    texts = {
        place_of(loaded): configuration_text(loaded, options.scheduler_config, api) for loaded in policies
    }
    for loaded in policies:  # before the cluster is read: a mistake is found in no time
        if (written := texts[place_of(loaded)]) is not None:
            _configured(options, loaded, written, plugins, unusable)
    snapshot = snapshot or read_snapshot(options, api, clock, cluster)
    if api is None:
        observation = observation_of(snapshot, _own_pod(environment))
        recorded = next(iter(observation.configurations.values()), None)
        texts = {place: written or recorded for place, written in texts.items()}
        if options.now is not None:
            observation = dataclasses.replace(observation, now=options.now)
        for loaded in policies if recorded is not None else ():
            _configured(options, loaded, recorded, plugins, unusable)
    else:
        needs = _Needs(
            snapshot, options.now if options.now is not None else clock(), RecordedResponses(clock())
        )
        for loaded in policies:
            needs.add(loaded, _configured(options, loaded, texts[place_of(loaded)], plugins, unusable))
        observation = needs.observe(api, environment, watcher)
    return dataclasses.replace(
        observation,
        configurations=texts,
        assumed_neutral=options.assume_neutral,
        installed_plugins=plugins.found,
    )


def _configured(
    options: PlanOptions,
    loaded: LoadedPolicy,
    written: ConfigurationText | None,
    plugins: InstalledPlugins,
    unusable: Callable[[InputError], None] | None,
) -> SchedulerConfiguration | None:
    """The configuration that a text holds; None where it cannot be used, and may be so."""
    if written is None:
        return default_configuration()
    try:
        return configured(loaded, written, options.assume_neutral, plugins)
    except InputError as error:
        if unusable is None:
            raise
        unusable(error)
        return None


@dataclass(slots=True)
class _Needs:
    """What policies need of a live cluster beside its objects, each thing once."""

    snapshot: Snapshot
    now: float
    responses: RecordedResponses
    watchers: dict[str, None] = field(default_factory=dict)
    requests: dict[tuple[Connection, PrometheusQuery], None] = field(default_factory=dict)
    starts: dict[str, SchedulerLocation] = field(default_factory=dict)
    version: bool = False

    def add(self, loaded: LoadedPolicy, configuration: SchedulerConfiguration | None) -> None:
        """Add what one policy needs, and the plugins of its scheduler."""
        policy = loaded.policy
        scored = scored_resources(policy, configuration) if configuration is not None else ()
        self.watchers |= dict.fromkeys(policy_watchers(policy))
        for source in policy.load.sources:
            if isinstance(source, PrometheusSource):
                connection = connection_of(source.prometheus)
                reader = prometheus_reader(source, self.snapshot, self.responses, policy, scored, self.now)
                self.requests |= dict.fromkeys((connection, query) for query in reader.requests())
        if configuration is None:
            return
        self.watchers |= dict.fromkeys(filter(None, watcher_addresses(configuration)))
        self.requests |= dict.fromkeys(plugin_requests(configuration, plugin_queries(configuration)))
        self.version |= needs_server_version(policy.scheduler, self.snapshot, configuration)
        location = starting_scheduler(policy.scheduler, configuration, self.snapshot)
        if location is not None:
            self.starts.setdefault(location.key, location)

    def observe(self, api: RawApi, environment: Mapping[str, str], watcher: bytes | None) -> Observation:
        """Ask for all of it. Raises StopRequestedError, and RebalancerError where no version can be had."""
        inside = runs_in_a_cluster(environment)
        watchers, missing = {ANY_ADDRESS: watcher} if watcher is not None else {}, {}
        for address in self.watchers if watcher is None else ():
            answer = _answer_of_watcher(api, address, inside=inside)
            if isinstance(answer, bytes):
                watchers[address] = answer
            else:
                missing[address] = answer
        self._ask_prometheus(api, inside=inside)
        return Observation(
            snapshot=self.snapshot,
            figures=RawFigures(watchers, missing, self.responses if self.requests else RecordedResponses()),
            now=self.now,
            own_pod=_own_pod(environment),
            server=ApiServer(
                version=api.server_version() if self.version else None,
                unprotected=unprotected_server(
                    api.host, verifies_certificates=api.client.verifies_certificates
                ),
            ),
            starts={key: _start_of(api, location, self.now) for key, location in self.starts.items()},
            live=True,
        )

    def _ask_prometheus(self, api: RawApi, *, inside: bool) -> None:
        if not self.requests:
            return
        from rebalancer.load.prometheus.client import LivePrometheus  # noqa: PLC0415 - imports urllib3

        servers: dict[Connection, LivePrometheus] = {}
        for connection, query in self.requests:

            def ask(connection: Connection = connection, query: PrometheusQuery = query) -> bytes:
                if connection not in servers:
                    servers[connection] = LivePrometheus(connection, api, self.now, inside=inside)
                return servers[connection](query)

            self.responses.keep(connection.address, query, ask)


def _answer_of_watcher(api: RawApi, address: str, *, inside: bool) -> bytes | str:
    """What a load-watcher answers, or why it does not."""
    from rebalancer.load.services import fetch_watcher  # noqa: PLC0415 - imports urllib3

    try:
        return bytes(msgspec.json.decode(fetch_watcher(api, address, inside=inside), type=msgspec.Raw))
    except (StopRequestedError, InternalError):
        raise
    except RebalancerError as error:
        return str(error)


def _start_of(api: RawApi, location: SchedulerLocation, now: float) -> SchedulerStart:
    from rebalancer.execution.scheduler_health import scheduler_start  # noqa: PLC0415 - imports kubernetes

    return scheduler_start(api, location, now)


def _own_pod(environment: Mapping[str, str]) -> str:
    """The pod this program runs in, whose names the CronJob passes in the environment."""
    namespace, name = environment.get("POD_NAMESPACE", ""), environment.get("POD_NAME", "")
    return f"{namespace}/{name}" if namespace and name else ""
