"""Reads everything that plans are made from: the only place of a plan that does I/O.

``observe`` returns one value, and ``planning.assemble`` judges it by a policy. It is given all policies that
will judge the observation, so that the cluster is read once, and each load source is asked once, for all of
them. What reads a live cluster is imported where it is needed: a recorded one is read without a network. The
model is imported after the cluster is read: importing it takes longer than most API servers take to answer.

Where the state of earlier runs is kept is the same choice for every command, so that a plan is the run. An
option names a file or a ConfigMap. A run outside of a cluster keeps its state without one too, in a file
of the user that is named after the API server; the commands that only read use that file once it is there.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rebalancer import files
from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.snapshot import Snapshot, build_snapshot
from rebalancer.counting import counted
from rebalancer.errors import InputError
from rebalancer.load.services import runs_in_a_cluster
from rebalancer.observe.configuration import InstalledPlugins, configuration_of_aks, configuration_texts
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.progress import PlanProgress
from rebalancer.policy.load_sources import PrometheusSource
from rebalancer.policy.policy_file import LoadedPolicy, place_of
from rebalancer.profiles.types import ConfigurationText
from rebalancer.redaction import without_secrets
from rebalancer.state.run_state import RunState
from rebalancer.telemetry import span

if TYPE_CHECKING:
    from rebalancer.cluster.changes import ChangeLog
    from rebalancer.cluster.live import RawApi
    from rebalancer.cluster.live.watching import LiveCluster
    from rebalancer.load.prometheus.responses import RecordedResponses
    from rebalancer.planning.inputs import Observation, SchedulerFacts
    from rebalancer.planning.planner import Planner
    from rebalancer.state.stores import StateStore


# A policy, and its schedulers as far as their configurations tell of them.
_Configured = tuple[LoadedPolicy, "tuple[SchedulerFacts, ...]"]


def open_cluster(api: RawApi, log: ChangeLog | None = None) -> LiveCluster:
    """A live cluster that is read again and again, whose changes alone are read, and written to a log."""
    from rebalancer.cluster.live.watching import LiveCluster  # noqa: PLC0415 - imports kubernetes

    return LiveCluster(api, log=log)


def read_snapshot(
    options: PlanOptions,
    api: RawApi | None,
    clock: Callable[[], float],
    cluster: LiveCluster | None = None,
) -> Snapshot:
    """Every kind of the cluster, as columns; InputError when it has no node."""
    recording = _read(options, api, clock, cluster)
    options.progress("putting together what was read")
    snapshot = build_snapshot(recording)
    if not len(snapshot.nodes):
        broken = [str(malformed) for malformed in snapshot.malformed if malformed.kind == "Node"]
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
        from rebalancer.observe.recorded import unread_of  # noqa: PLC0415 - not for a live cluster
        from rebalancer.observe.timeline import read_recording  # noqa: PLC0415

        recording = read_recording(options.source, options.at, options.max_dump_bytes, options.progress)
        return replace(recording, unread=unread_of(recording))
    from rebalancer.cluster.live.reader import LiveReader  # noqa: PLC0415 - imports kubernetes

    return LiveReader(api, clock).read(progress=options.progress)


def read_planners(
    options: PlanOptions,
    policies: Sequence[LoadedPolicy],
    api: RawApi | None,
    state: RunState | None,
    *,
    cluster: LiveCluster | None = None,
) -> tuple[Planner, ...]:
    """What plans by each of these policies; the cluster is observed once for all of them.

    ``state`` is what earlier runs left; without it the one recorded with the cluster counts. Raises the
    errors of ``observe`` and ``assemble``.
    """
    with span("gather") as reading:
        configured: list[_Configured] = []
        observation = observe(options, policies, api, cluster=cluster, on_configured=configured.extend)
        from rebalancer.observe.recorded import recorded_state  # noqa: PLC0415 - not before the reading
        from rebalancer.planning.assemble import assemble  # noqa: PLC0415
        from rebalancer.planning.inputs import PlannerOptions  # noqa: PLC0415
        from rebalancer.planning.planner import Planner  # noqa: PLC0415
        from rebalancer.scheduling.versions.verified import differing_rules, is_verified  # noqa: PLC0415

        state = state if state is not None else recorded_state(observation.snapshot.recording)
        options.observed(observation, state)
        snapshot = observation.snapshot
        size = f"{counted(len(snapshot.nodes), 'node')} and {counted(len(snapshot.pods), 'pod')}"
        options.progress(f"putting together the load of {size}")
        ensure_wanted: Callable[[], object] = _nothing
        if api is not None:
            ensure_wanted = functools.partial(api.retries.run.check, "plan")
        planners = []
        for loaded, schedulers in configured:
            inputs = assemble(observation, loaded, state, schedulers)
            watched = PlanProgress(options.progress, inputs.policy.limits.per_run, ensure_wanted)
            planner_options = PlannerOptions(
                ignore_coverage=options.ignore_coverage,
                remembers_runs=api is None or not runs_in_a_cluster(),
                ensure_wanted=watched.on_placement,
                on_move=watched.on_move,
            )
            planners.append(Planner(inputs, options=planner_options))
        versions = [scheduler.version for scheduler in planners[0].inputs.schedulers]
        reading.add(nodes=len(snapshot.nodes), pods=len(snapshot.pods), scheduler_version=" ".join(versions))
        differing = {rule.name for version in versions for rule in differing_rules(version)}
        reading.add(verified=all(map(is_verified, versions)), unverified_rules=len(differing))
    return tuple(planners)


def _nothing() -> None:
    """A recorded cluster waits for its plan as long as it takes."""


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
    on_configured: Callable[[list[_Configured]], None] = lambda _configured: None,
) -> Observation:
    """Read what these policies need of a live cluster, or of a recorded one where ``api`` is None.

    Whoever reads a live cluster again and again keeps a ``cluster``, whose changes alone are read.
    ``snapshot`` is the cluster where it was read already, ``watcher`` what a load-watcher would answer. A
    configuration of the scheduler that cannot be used raises InputError, or is given to ``unusable``. A load
    source that does not answer raises nothing: that is what was observed of it. ``on_configured`` gets the
    policies, each with its schedulers as the configurations say that were read.
    """
    namespace = environment.get("POD_NAMESPACE", "")
    name = environment.get("POD_NAME", "")
    plugins = InstalledPlugins()
    own_pod = f"{namespace}/{name}" if namespace and name else ""
    texts: dict[str, ConfigurationText | None] = {}
    for loaded in policies:
        texts |= configuration_texts(loaded, options.scheduler_config, api)

    def configured() -> list[_Configured]:
        """Each policy with its schedulers as the texts configure them, once all texts are known."""
        return [(it, _configured(options, it, texts, plugins, unusable)) for it in policies]

    # Before rebalancer reads the cluster, so that a mistake ends the command at once.
    schedulers_by_policy: list[_Configured] = []
    if api is None:
        for loaded in policies:
            _check_given(options, loaded, texts, plugins, unusable)
    else:
        schedulers_by_policy = configured()
    with _asked_beside(schedulers_by_policy, api if snapshot is None else None, clock) as responses:
        snapshot = snapshot or read_snapshot(options, api, clock, cluster)
        asked = next(responses, None)
    if api is None:
        observation = _observe_recorded(options, policies, snapshot, own_pod, texts)
        schedulers_by_policy = configured()
        if observation.starts is None and not _cares_for_start(schedulers_by_policy):
            observation = replace(observation, starts={})  # as a live cluster is observed then
    else:
        of_aks = configuration_of_aks(snapshot, api) if texts.get("") is None else None
        if of_aks is not None:
            texts[""] = of_aks
            schedulers_by_policy = configured()
        observation = _observe_live(
            options, snapshot, own_pod, api, clock, schedulers_by_policy, asked, watcher
        )
    on_configured(schedulers_by_policy)
    return replace(
        observation,
        configurations=texts,
        assumed_neutral=options.assume_neutral,
        installed_plugins=plugins.descriptions,
    )


_Texts = dict[str, ConfigurationText | None]  # of configurations, by ``place_of``


def _observe_recorded(
    options: PlanOptions,
    policies: Sequence[LoadedPolicy],
    snapshot: Snapshot,
    own_pod: str,
    texts: _Texts,
) -> Observation:
    """What was recorded with a cluster, by which the texts are completed."""
    from rebalancer.observe.recorded import observation_of, with_recorded  # noqa: PLC0415 - after the reading

    observation = observation_of(snapshot, own_pod)
    for loaded in policies:
        with_recorded(texts, loaded, observation.configurations)
    return observation if options.now is None else replace(observation, now=options.now)


def _observe_live(
    options: PlanOptions,
    snapshot: Snapshot,
    own_pod: str,
    api: RawApi,
    clock: Callable[[], float],
    policies: Sequence[_Configured],
    asked: RecordedResponses | None,
    watcher: bytes | None,
) -> Observation:
    """What is asked of a live cluster beside its objects."""
    from rebalancer.load.prometheus.responses import RecordedResponses  # noqa: PLC0415
    from rebalancer.observe.needs import Needs  # noqa: PLC0415

    now = options.now if options.now is not None else clock()
    if options.now is None:
        _compare_clocks(now, api.client.server_time())
    needs = Needs(snapshot, now, own_pod, asked or RecordedResponses(clock()))
    for loaded, schedulers in policies:
        needs.add(loaded, schedulers)
    return needs.observe(api, watcher)


@contextmanager
def _asked_beside(
    policies: Sequence[_Configured], api: RawApi | None, clock: Callable[[], float]
) -> Iterator[Iterator[RecordedResponses | None]]:
    """What the Prometheus servers of the policies answer while the cluster is read; None for nothing."""
    sources = [source for loaded, _ in policies for source in loaded.policy.load.sources]
    if api is None or not any(isinstance(source, PrometheusSource) for source in sources):
        yield iter(())
        return
    from rebalancer.cluster.live.reader import prefetch  # noqa: PLC0415 - imports kubernetes

    def ask() -> Iterator[RecordedResponses | None]:
        from rebalancer.observe.needs import ask_ahead  # noqa: PLC0415 - the model, beside the reading

        answers = ask_ahead(policies, api, clock())
        yield answers if answers.answers or answers.failures else None

    with prefetch([ask]) as answers:
        yield answers


def _check_given(
    options: PlanOptions,
    loaded: LoadedPolicy,
    texts: Mapping[str, ConfigurationText | None],
    plugins: InstalledPlugins,
    unusable: Callable[[InputError], None] | None,
) -> None:
    """Check the configurations that are known without the cluster; InputError where one cannot be used."""
    from rebalancer.planning import scheduler_facts  # noqa: PLC0415 - imports the model

    for settings in loaded.policy.schedulers:
        written = texts[place_of(settings, loaded.source)]
        try:
            if written is not None:
                scheduler_facts.configured(loaded, settings, written, options.assume_neutral, plugins)
        except InputError as error:
            if unusable is None:
                raise
            unusable(error)


def _configured(
    options: PlanOptions,
    loaded: LoadedPolicy,
    texts: Mapping[str, ConfigurationText | None],
    plugins: InstalledPlugins,
    unusable: Callable[[InputError], None] | None,
) -> tuple[SchedulerFacts, ...]:
    """The schedulers of a policy as these texts configure them; none where a text cannot be used."""
    from rebalancer.planning.scheduler_facts import configured_schedulers  # noqa: PLC0415 - imports the model

    try:
        return configured_schedulers(loaded, texts, options.assume_neutral, plugins)
    except InputError as error:
        if unusable is None:
            raise
        unusable(error)
        return ()


def _cares_for_start(policies: Sequence[_Configured]) -> bool:
    """Whether a plugin of a scheduler scores differently right after its start."""
    from rebalancer.planning.scheduler_facts import counts_recent_pods  # noqa: PLC0415 - imports the model

    return any(counts_recent_pods(scheduler) for _, schedulers in policies for scheduler in schedulers)


def _compare_clocks(now: float, server_time: float | None) -> None:
    """Warn where this machine's clock is not the API server's: loads, ages and cooldowns go by it."""
    ahead = 0.0 if server_time is None else now - server_time
    if abs(ahead) > _CLOCKS_DIFFER_SECONDS:
        by = f"about {abs(ahead) / 60:,.0f} min {'ahead of' if ahead > 0 else 'behind'}"
        what = f"the clock of this machine is {by} the API server's"
        _say(f"{what}: loads, ages and cooldowns are judged by it", logging.WARNING)


LOGGER = logging.getLogger(__name__)
_CLOCKS_DIFFER_SECONDS = 60.0
_HOMELESS = "this user has no home folder, where the state of runs is kept"


def state_store(
    options: PlanOptions, api: RawApi | None, *, acts: bool = False, measures: bool = False
) -> StateStore | None:
    """The store that the options name; without them, outside of a cluster, the user's own file.

    A command that does not act uses that file only if it is there, unless it ``measures`` something that
    runs will look for. Logs which state is used.
    """
    of = "what is measured is kept for runs in" if measures else "the state of earlier runs is in"
    path = options.state_path
    config_map = options.state_config_map
    if path is None and config_map is None and (api is None or runs_in_a_cluster()):
        return None
    from rebalancer.state.stores import ConfigMapStore, FileStore  # noqa: PLC0415 - imports filelock

    if config_map is not None:
        assert api is not None  # refused with the options
        namespace, name = config_map.split("/")
        store: StateStore = ConfigMapStore(api, namespace, name)
        _say(f"{of} {store.where}")
        return store
    if path is None:
        assert api is not None
        path = user_file(api.host)
        if path is None and (acts or measures):
            raise InputError(_HOMELESS, hint="name a file with --state, or set HOME")
        if path is None or (not (acts or measures) and not files.may_exist(path)):
            return None
    new = ""
    if not measures and not files.may_exist(path):
        new = ", which does not exist yet"
        if acts:
            new += ": this is the first run that uses it"
    _say(f"{of} {path}{new}")
    return FileStore(path) if api is None else FileStore(path, lambda: api.retries.run.stopped)


@functools.cache
def _say(what: str, level: int = logging.INFO) -> None:
    """Log it once, however often the nodes are shown."""
    LOGGER.log(level, "%s", what)


def user_file(host: str) -> Path | None:
    """The user's file for the runs on an API server; None for a user without a home."""
    folder = files.state_folder()
    address = without_secrets(host).lower().removeprefix("https://")
    cluster = re.sub(r"[^a-z0-9.-]+", "-", address).strip("-.") or "cluster"
    return None if folder is None else folder / f"{cluster[:200]}.json"


def known_state(options: PlanOptions, api: RawApi | None) -> RunState | None:
    """What earlier runs left; empty where it is yet to be written.

    None when nothing says where it is, and for a recorded cluster without that file: then a recorded state
    counts.
    """
    store = state_store(options, api)
    if store is None:
        return None
    state = store.load()
    return state if state is not None or options.source is not None else RunState()
