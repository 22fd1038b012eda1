"""What policies need of a live cluster beside its objects: load sources, versions and starts of schedulers.

It is known once the objects are read, and each thing is asked for once, however many policies need it. Load
sources are asked several things at a time: a query over many nodes takes seconds. What is asked of a
Prometheus does not depend on the objects where the policy names its address, so it is asked beside them.

    a policy names Prometheus P    the objects are read | P is asked     for as long as the slower of the two
    P is found by its Service      the objects are read, then P is asked
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from rebalancer.cluster.live.reader import prefetch
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import RebalancerError, StopRequestedError
from rebalancer.load.plugin_sources import plugin_requests, read_view, watcher_addresses
from rebalancer.load.prometheus.queries import Connection, PrometheusQuery
from rebalancer.load.prometheus.reader import connection_of
from rebalancer.load.prometheus.responses import RecordedResponses
from rebalancer.load.raw_figures import ANY_ADDRESS, RawFigures
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.load.sources import prometheus_questions, with_addresses
from rebalancer.planning.assemble import policy_watchers
from rebalancer.planning.inputs import (
    ApiServer,
    Observation,
    SchedulerFacts,
    SchedulerLife,
    SchedulerStart,
)
from rebalancer.planning.insecure_connections import unprotected_server
from rebalancer.planning.scheduler_facts import (
    counts_recent_pods,
    needs_server_version,
    scored_resources,
    with_pods,
)
from rebalancer.planning.scheduler_location import SchedulerLocation, locate
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.profiles.types import SchedulerConfiguration
from rebalancer.scheduling.registry import plugin_queries

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi


_AT_ONCE = 4  # questions that wait for an answer; a Prometheus evaluates 20 at once by default


class Needs(msgspec.Struct):
    """What policies need of a live cluster beside its objects, each thing once."""

    snapshot: Snapshot
    now: float
    own_pod: str
    responses: RecordedResponses
    watchers: dict[str, None] = {}
    requests: dict[tuple[Connection, PrometheusQuery], None] = {}
    starts: dict[str, SchedulerLocation] = {}
    lives: dict[str, SchedulerLocation] = {}
    version: bool = False

    def add(self, loaded: LoadedPolicy, schedulers: Sequence[SchedulerFacts]) -> None:
        """Add what one policy needs, and the plugins of its schedulers."""
        policy = with_addresses(loaded, self.snapshot).policy
        scored = scored_resources(policy, schedulers)
        self.watchers |= dict.fromkeys(policy_watchers(policy))
        for source in policy.load.sources:
            if isinstance(source, PrometheusSource) and source.prometheus.address is not None:
                self.requests |= dict.fromkeys(_requests(source, policy, scored))
        schedulers = with_pods(schedulers, self.snapshot)
        for scheduler in schedulers:
            configuration = scheduler.configuration
            self.watchers |= dict.fromkeys(filter(None, watcher_addresses(configuration)))
            self.requests |= dict.fromkeys(plugin_requests(configuration, plugin_queries(configuration)))
            self.version |= needs_server_version(scheduler)
            location = locate(scheduler, schedulers, self.snapshot)
            if counts_recent_pods(scheduler):
                self.starts.setdefault(location.key, location)
            if scheduler.acts_on:
                self.lives.setdefault(location.key, location)

    def observe(self, api: RawApi, watcher: bytes | None = None) -> Observation:
        """Ask for all of it. Raises StopRequestedError, and RebalancerError where no version can be had."""
        watchers = {ANY_ADDRESS: watcher} if watcher is not None else {}
        missing = {}

        def ask_watcher(address: str) -> Iterator[None]:
            answer = _answer_of_watcher(api, address)
            if isinstance(answer, bytes):
                watchers[address] = answer
            else:
                missing[address] = answer
            yield

        asked: list[Callable[[], Iterator[None]]] = []
        if watcher is None:
            asked += [partial(ask_watcher, address) for address in self.watchers]
        asked += _asking(self.requests, self.responses, api, self.now)
        with prefetch(asked, workers=_AT_ONCE) as answers:
            for _ in answers:
                pass
        return Observation(
            snapshot=self.snapshot,
            figures=RawFigures(watchers, missing, self.responses if self.requests else RecordedResponses()),
            now=self.now,
            own_pod=self.own_pod,
            server=ApiServer(
                version=api.server_version() if self.version else None,
                unprotected=unprotected_server(
                    api.host, verifies_certificates=api.client.verifies_certificates
                ),
            ),
            starts={key: _start_of(api, location, self.now) for key, location in self.starts.items()},
            not_alive=self._not_alive(api),
            live=True,
        )

    def _not_alive(self, api: RawApi) -> dict[str, SchedulerLife]:
        """The schedulers that are not known to be alive."""
        from rebalancer.execution.safety import scheduler_health  # noqa: PLC0415 - imports kubernetes

        health_by_key = {
            key: scheduler_health(api, location, self.now) for key, location in self.lives.items()
        }
        return {
            key: SchedulerLife(health.alive, health.message, health.says_what_to_do)
            for key, health in health_by_key.items()
            if not health.alive
        }


def ask_ahead(
    policies: Iterable[tuple[LoadedPolicy, Sequence[SchedulerFacts]]],
    api: RawApi,
    now: float,
) -> RecordedResponses:
    """What each Prometheus that these policies name answers now, before the objects are known.

    Nothing where an address is yet to be found: the clocks of all servers are compared with one moment.
    Raises StopRequestedError.
    """
    responses = RecordedResponses(now)
    requests = dict[tuple[Connection, PrometheusQuery], None]()
    for loaded, schedulers in policies:
        scored = scored_resources(loaded.policy, schedulers)
        for source in loaded.policy.load.sources:
            if isinstance(source, PrometheusSource):
                if source.prometheus.address is None:
                    return responses
                requests |= dict.fromkeys(_requests(source, loaded.policy, scored))
    with prefetch(_asking(requests, responses, api, now), workers=_AT_ONCE) as answers:
        for _ in answers:
            pass
    return responses


def _requests(
    source: PrometheusSource, policy: RebalancePolicy, scored: tuple[str, ...]
) -> Iterator[tuple[Connection, PrometheusQuery]]:
    connection = connection_of(source.prometheus)
    for query in prometheus_questions(source, policy, scored).requests():
        yield connection, query


def _asking(
    requests: Iterable[tuple[Connection, PrometheusQuery]],
    responses: RecordedResponses,
    api: RawApi,
    now: float,
) -> list[Callable[[], Iterator[None]]]:
    """What each asks one thing of a Prometheus that it was not asked yet, and writes the answer down."""
    left = [request for request in requests if not responses.has(request[0].address, request[1])]
    if not left:
        return []
    from rebalancer.load.prometheus.client import LivePrometheus  # noqa: PLC0415 - imports urllib3

    servers: dict[Connection, LivePrometheus] = {}

    def ask(connection: Connection, query: PrometheusQuery) -> bytes:
        if connection not in servers:  # its failure is kept, as that of an address that cannot be used
            servers.setdefault(connection, LivePrometheus(connection, api, now))
        return servers[connection](query)

    def keep(connection: Connection, query: PrometheusQuery) -> Iterator[None]:
        responses.keep(connection.address, query, partial(ask, connection, query))
        yield

    return [partial(keep, connection, query) for connection, query in left]


def read_figures(
    snapshot: Snapshot, configuration: SchedulerConfiguration, api: RawApi, now: float
) -> SchedulerView:
    """What the sources of a configuration's plugins say now; of the cluster nothing is read again."""
    queries = plugin_queries(configuration)
    needs = Needs(snapshot, now, "", RecordedResponses(now))
    needs.watchers |= dict.fromkeys(filter(None, watcher_addresses(configuration)))
    needs.requests |= dict.fromkeys(plugin_requests(configuration, queries))
    figures = needs.observe(api).figures
    return read_view(snapshot, figures, watcher_addresses(configuration), queries, now)


def _answer_of_watcher(api: RawApi, address: str) -> bytes | str:
    """What a load-watcher answers, or why it does not."""
    from rebalancer.load.services import fetch_watcher  # noqa: PLC0415 - imports urllib3

    try:
        return bytes(msgspec.json.decode(fetch_watcher(api, address), type=msgspec.Raw))
    except StopRequestedError:
        raise
    except RebalancerError as error:
        return str(error)


def _start_of(api: RawApi, location: SchedulerLocation, now: float) -> SchedulerStart:
    from rebalancer.execution.safety import scheduler_start  # noqa: PLC0415 - imports kubernetes

    return scheduler_start(api, location, now)
