"""The extender's process: reads its file, the cluster and the figures again and again, and answers meanwhile.

Whatever takes time happens on the main thread; requests are answered on threads of their own by what is at
hand. So a slow Prometheus delays no pod, and a file that cannot be used changes nothing:

    every second    the file of scores and the certificates, if they have changed
    every refresh   the figures of all scores; one that cannot be read keeps its value until staleAfter
    every minute    the columns of nodes and pods, from watches; at once when an unknown node is asked about

A request may hold 8 MiB, and its answer takes some milliseconds of one core at 1,500 nodes.
"""

from __future__ import annotations

import contextlib
import logging
import re
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.errors import ExitCode, InputError, RebalancerError, StopRequestedError
from rebalancer.load.plugin_sources import watcher_addresses
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.observe.configuration import InstalledPlugins
from rebalancer.observe.needs import read_figures
from rebalancer.observe.plan_options import PlanOptions, open_api
from rebalancer.planning.extender_scores import read_scores
from rebalancer.policy.schedulers import ExtenderScores
from rebalancer.profiles.types import (
    Extender,
    ExtensionPoint,
    Input,
    PluginDescription,
    SchedulerConfiguration,
)
from rebalancer.scheduling.extenders import FILTER, PRIORITIZE, ExtenderScore, Score, with_extenders
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import default_configuration, queries_of
from rebalancer.service.endpoints import Endpoints, Environment, Health, Start, answering, text_answer
from rebalancer.service.policy_in_force import FileInForce
from rebalancer.signals import stop_on_signal
from rebalancer_extender.answers import Answers, InForce, LiveScore, RequestError
from rebalancer_extender.watched_state import WatchedState

LOGGER = logging.getLogger(__name__)
MAX_BODY_BYTES = 8 << 20
COLUMNS_SECONDS = 60.0  # between two times that nodes and pods are made columns
_LOOK_SECONDS = 1.0
_BUSY_SECONDS = 600.0  # that reading may take; each source is bounded by its own timeouts
_URL = "self"
_JSON = ("Content-Type", "application/json")
_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class ExtenderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where an extender's scores, cluster and certificate are, and where it answers."""

    config: Path
    host: str = "127.0.0.1"
    port: int = 8890
    probes: tuple[str, int] | None = None  # where probes and metrics are answered besides, and no scheduler
    certificate: Path | None = None
    key: Path | None = None
    connection: PlanOptions = PlanOptions()  # whose cluster is read


class _File(msgspec.Struct, frozen=True):
    """A file of scores, and a configuration that has them as plugins."""

    settings: ExtenderScores
    scores: tuple[Score, ...]
    configuration: SchedulerConfiguration


def read_file(
    text: str, source: str, installed_plugins: Callable[[], Iterable[PluginDescription]] = tuple
) -> _File:
    """The scores of a file. Raises InputError with its line."""
    settings, scores = read_scores(text, source, installed_plugins)
    asked = Extender(
        url_prefix=_URL, filter_verb=FILTER, prioritize_verb=PRIORITIZE, weight=1, node_cache_capable=True
    )
    configuration = replace(default_configuration(), extenders=(asked,))
    return _File(settings, scores, with_extenders(configuration, {_URL: scores}))


class Metrics:
    """What an extender counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        name = "rebalancer_extender"
        self.answers = Histogram(
            *(f"{name}_answer_seconds", "Processor time of an answer.", ("verb",)),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.awaited = Histogram(
            *(f"{name}_awaited_seconds", "How long answers wait to see the last pod bound."),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.refused = Counter(f"{name}_refused", "Requests that were none.", registry=self.registry)
        self.neutral = Counter(
            f"{name}_neutral", "Answers without a score, by score.", ("score",), registry=self.registry
        )
        self.file_current = Gauge(
            f"{name}_scores_current", "Whether the file as it is now is in force.", registry=self.registry
        )
        self.figures_read = Gauge(
            f"{name}_figures_timestamp_seconds", "When the oldest figures were read.", registry=self.registry
        )


class Application:
    """Answers a scheduler's POST, and the GET of probes and Prometheus."""

    def __init__(self, answers: Answers, health: Health, metrics: Metrics) -> None:
        self._verbs = {FILTER: answers.filter, PRIORITIZE: answers.prioritize}
        self._health = health
        self._metrics = metrics
        self._endpoints = Endpoints(health, metrics.registry)

    def __call__(self, environment: Environment, start: Start) -> Iterable[bytes]:
        """A WSGI application."""
        verb = environment.get("PATH_INFO", "").rpartition("/")[2]
        if environment.get("REQUEST_METHOD") != "POST" or verb not in self._verbs:
            return self._endpoints(environment, start)
        if self._health.role != READY:
            return text_answer(start, "503 Service Unavailable", self._health.not_ready)
        try:
            began = time.thread_time()
            answer = self._verbs[verb](_body(environment))
            self._metrics.answers.labels(verb).observe(time.thread_time() - began)
        except RequestError as error:
            self._metrics.refused.inc()
            return text_answer(start, "400 Bad Request", str(error))
        start("200 OK", [_JSON, ("Content-Length", str(len(answer)))])
        return [answer]


READY = "answers"


def _body(environment: Environment) -> bytes:
    length = environment.get("CONTENT_LENGTH") or ""
    if re.fullmatch("[0-9]{1,9}", length) is None or int(length) > MAX_BODY_BYTES:
        raise RequestError(f"a request says its length, of {MAX_BODY_BYTES >> 20} MiB at most")
    try:
        body: bytes = environment["wsgi.input"].read(int(length))
    except OSError as error:  # silent for too long, or gone
        raise RequestError(f"the request did not come to its end: {error}") from error
    return body


class _Figures(msgspec.Struct, frozen=True):
    """What the sources of all scores said last, and when each did, by the monotonic clock."""

    view: SchedulerView = SchedulerView()
    read_at: Mapping[object, float] = {}


class Refresher(msgspec.Struct, eq=False):
    """Keeps answers up to date."""

    _api: RawApi
    _file: FileInForce[_File]
    _answers: Answers
    _watched: WatchedState
    _figures: _Figures = _Figures()
    _columns_due: float = -float("inf")
    _figures_due: float = -float("inf")

    def tend(self, metrics: Metrics) -> None:
        """Do what is due. Raises what reading a cluster does."""
        now = time.monotonic()
        changed = self._file.refresh()
        metrics.file_current.set(not self._file.refused)
        file = self._file.loaded
        snapshot = None if self._watched.counted is None else self._watched.counted.snapshot
        columns = snapshot is None or now >= self._columns_due or self._watched.is_stale
        if columns:
            snapshot = self._watched.renew()
            self._columns_due = now + COLUMNS_SECONDS
        assert snapshot is not None
        if changed or now >= self._figures_due:
            self._figures = self._read(file.configuration, snapshot)
            self._figures_due = now + file.settings.refresh
        elif not columns:
            return
        inputs = PluginInputs.of(snapshot, self._figures.view)
        names = [name for name, plugin in file.configuration.plugins.items() if plugin.of_extender]
        scores = tuple(
            self._live(file.configuration, inputs, name, extender_score.weight)
            for name, extender_score in zip(names, file.scores, strict=True)
        )
        self._answers.in_force = InForce(scores, file.settings.stale_after, file.settings.await_binding)
        oldest = min((score.read_at for score in scores), default=float("inf"))
        metrics.figures_read.set(time.time() - time.monotonic() + min(oldest, time.monotonic()))

    def _read(self, configuration: SchedulerConfiguration, snapshot: Snapshot) -> _Figures:
        """The figures as they are now; of a source that does not answer those from before."""
        began = time.monotonic()
        before = self._figures
        view = read_figures(snapshot, configuration, self._api, time.time())
        for address in view.missing.keys() - before.view.missing.keys():
            LOGGER.warning("no figures of %s: %s", address or "metrics-server", view.missing[address])
        # A load-watcher that has just started answers without a node: that is no figure of any.
        watchers = {address: metrics for address, metrics in view.watchers.items() if metrics.nodes}
        return _Figures(
            SchedulerView(
                {**before.view.watchers, **watchers},
                view.missing,
                {**before.view.queries, **view.queries},
            ),
            {**before.read_at, **dict.fromkeys((*watchers, *view.queries), began)},
        )

    def _live(
        self, configuration: SchedulerConfiguration, inputs: PluginInputs, name: str, weight: int
    ) -> LiveScore:
        """A score with the figures at hand."""
        profile = configuration.profiles[0]
        description = configuration.plugins[name]
        assert description.make is not None
        try:
            plugin = description.make(profile.argument(name), inputs)
        except Exception as error:
            raise InputError(f"{name} cannot be made: {type(error).__name__}: {error!s:.200}") from error
        assert isinstance(plugin, ExtenderScore)
        sources: list[object] = [
            (query.address, query.query) for query in queries_of(configuration, profile, name)
        ]
        if Input.WATCHER in description.inputs:
            sources.append(getattr(profile.argument(name), "watcher_address", ""))
        read_at = min(
            (self._figures.read_at.get(source, -float("inf")) for source in sources), default=float("inf")
        )
        scores = ExtensionPoint.SCORE in description.points
        return LiveScore(plugin, weight if scores else 0, read_at, Input.PROMETHEUS not in description.inputs)


def serve(options: ExtenderOptions) -> int:
    """Answer until a signal asks to stop; returns the exit code.

    Raises InputError where the file cannot be used, there are no credentials, or the address cannot be had.
    """
    file = FileInForce(options.config, partial(read_file, installed_plugins=InstalledPlugins()))
    health = Health()
    metrics = Metrics()
    tls = TlsFiles(options) if options.certificate is not None else None
    stop = StopRequest()
    connected = open_api(options.connection)
    assert connected is not None  # no recorded cluster can be named
    api = connected.until(Deadline(stop=stop))
    with stop_on_signal(stop, file.ask), contextlib.suppress(StopRequestedError):
        watched = WatchedState(api, node_metrics="" in watcher_addresses(file.loaded.configuration))
        answers = Answers(watched, metrics.neutral, metrics.awaited)
        application = Application(answers, health, metrics)
        refresher = Refresher(api, file, answers, watched)
        with contextlib.ExitStack() as servers:
            url = servers.enter_context(
                answering(options.host, options.port, application, tls.context if tls else None)
            )
            LOGGER.info("answers %s, %s and probes at %s", FILTER, PRIORITIZE, url)
            if options.probes is not None:
                url = servers.enter_context(answering(*options.probes, Endpoints(health, metrics.registry)))
                LOGGER.info("answers probes at %s", url)
            try:
                while not stop.is_set():
                    with health.busy_for(_BUSY_SECONDS):
                        _tend(refresher, metrics, health)
                        if tls is not None:
                            tls.renew()
                    stop.wait(_LOOK_SECONDS)
            finally:
                watched.close()
    LOGGER.info("asked to stop: ended")
    return int(ExitCode.DONE)


def _tend(refresher: Refresher, metrics: Metrics, health: Health) -> None:
    try:
        refresher.tend(metrics)
    except StopRequestedError:
        raise
    except RebalancerError as error:
        if str(error) != health.not_ready:
            LOGGER.error("%s", error)
        health.failing(str(error))
    else:
        health.ready(READY)


class TlsFiles:
    """A certificate and its key, read again when they change."""

    def __init__(self, options: ExtenderOptions) -> None:
        assert options.certificate is not None
        self._certificate = options.certificate
        self._key = options.key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen = self._times()
        try:
            self.context.load_cert_chain(self._certificate, self._key)
        except OSError as error:
            raise InputError(f"no certificate with its key: {error}", where=str(self._certificate)) from error

    def _times(self) -> tuple[float, ...]:
        with contextlib.suppress(OSError):
            return tuple(path.stat().st_mtime for path in (self._certificate, self._key) if path is not None)
        return ()

    def renew(self) -> None:
        """Take a new certificate for connections from now on; one that cannot be used is logged."""
        times = self._times()
        if times and times != self._seen:
            self._seen = times
            try:
                self.context.load_cert_chain(self._certificate, self._key)
            except OSError as error:
                LOGGER.error("the certificate is refused, the one before stays in force: %s", error)
