"""Follows a cluster by watches and compares each decision of its schedulers with the model's.

A step reads what changed since the one before, and decides again what was bound meanwhile. How often steps
are made follows from what they cost: at most a twentieth of a processor is spent on them.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from rebalancer.agreement.binding_moment import binding_moment
from rebalancer.agreement.decisions import DECISION_KIND, Agreement, Decision, Result, Tally, WhyThere
from rebalancer.agreement.kept_decisions import kept_decisions
from rebalancer.agreement.replay import SeenView, decide_again, decide_now
from rebalancer.cluster import times
from rebalancer.cluster.changes import ChangeLog, PodThen
from rebalancer.cluster.dumps.listing import free_cycles
from rebalancer.cluster.kinds import CLAIMS, NODES, PODS
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.cluster.pods import version_number
from rebalancer.deadlines import Deadline, StopRequest
from rebalancer.documents import read_text
from rebalancer.errors import InputError, RebalancerError, StopRequestedError
from rebalancer.load.plugin_sources import watcher_addresses
from rebalancer.load.scheduler_view import SchedulerView, WatcherMetrics
from rebalancer.observe.needs import read_figures
from rebalancer.observe.plan_options import PlanOptions, open_api, policy_of
from rebalancer.observe.read import observe, open_cluster, read_planners, state_store
from rebalancer.observe.timeline import Timeline, is_timeline
from rebalancer.planning.assemble import assemble
from rebalancer.planning.inputs import Observation, PlanningInputs, SchedulerFacts
from rebalancer.planning.plan import API_VERSION
from rebalancer.planning.subjects import find_subject, parse_subject
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.policy.schema import LoadSettings
from rebalancer.scheduling.registry import plugin_queries, with_each_plugin
from rebalancer.scheduling.versions.verified import VERIFIED
from rebalancer.signals import stop_on_signal
from rebalancer.state.run_state import MeasuredAgreement, the_one_to_keep
from rebalancer.state.stores import StateStore

LOGGER = logging.getLogger(__name__)
LOOK_SECONDS = 10.0  # between two times that the figures of load-aware plugins are read
MAX_SEEN = 64
_KEPT_SECONDS = 240.0  # that figures and times of binding count: windows, a scheduler's lag and a long step
STEP_SECONDS = 10.0  # between two steps, at least
MAX_SHARE = 0.05  # of one processor, on average
MAX_DECISIONS = 500  # of a step; of more bindings, so many are chosen by chance
MAX_KEPT = 50_000  # changes that wait without a binding, before a step is made all the same
MAX_REPORT_BYTES = 64 << 20  # of what ``rebalancer agreement -o json`` wrote
_MISSES = 3  # since the last try, for which the rules of other minors are tried
MAX_WEIGHED = 60  # decisions of such a step for which other weights are tried, where nodes are sampled
TRIES = 4  # steps in which they are, one after the other; then one now and then
TRY_AGAIN_SECONDS = 3600.0
_LOOK_SECONDS = 0.2
_ARRIVING_SECONDS = 3.0  # for a watch to bring what a LIST has shown
_BOOKMARK_SECONDS = 8.0  # for one that was begun anew to say how far it has come


class Step(msgspec.Struct, frozen=True, eq=False):
    """What was bound since the step before, decided again."""

    observation: Observation
    inputs: PlanningInputs
    decisions: Sequence[Decision]
    by_result: Counter[tuple[str, str]]  # how many, by profile and result
    decided_by: Callable[[PlanningInputs], list[Decision]]
    """The same pods on the same cluster by other inputs, such as those of another scheduler configuration."""


class Following:
    """The steps of one process, and what they have found."""

    def __init__(self, options: PlanOptions, cluster: LiveCluster) -> None:
        """``cluster`` keeps a log of changes, and may be used between steps."""
        self._tried = 0  # times that what may explain misses was
        self._try_next = -float("inf")  # by the monotonic clock
        self._untried = 0  # misses since
        self._options = options
        self._cluster = cluster
        self._random = np.random.default_rng(0)
        self._claims: Collection[tuple[str, str]] = ()
        self._inputs: PlanningInputs | None = None  # of the step before
        self._seen: list[SeenView] = []  # what load-aware plugins could read lately, in order
        self._looked_at = self._look_next = -float("inf")
        self._bound_at: dict[str, float] = {}  # by uid, of pods that were bound lately
        self._next = -float("inf")  # by the monotonic clock
        self.tally: Tally | None = None

    @property
    def _log(self) -> ChangeLog:
        assert self._cluster.log is not None
        return self._cluster.log

    def report(self) -> Agreement:
        """What was found so far; one step at least must have been made."""
        assert self.tally is not None
        return self.tally.report(time.time())

    def is_due(self) -> bool:
        """Whether there is something to compare, and processor time for it."""
        if time.monotonic() < self._next:
            return False
        return self.tally is None or self._log.binds > 0 or len(self._log) > MAX_KEPT

    def look(self, api: RawApi) -> None:
        """Read the figures of load-aware plugins again where that is due: the scheduler keeps older ones."""
        if self._inputs is None or time.monotonic() < self._look_next:
            return
        began = time.thread_time()
        started = time.monotonic()
        now = time.time()
        configurations = [scheduler.configuration for scheduler in self._inputs.schedulers]
        views = [
            read_figures(self._inputs.snapshot, configuration, api, now)
            for configuration in configurations
            if watcher_addresses(configuration) or plugin_queries(configuration)
        ]
        if views:
            self._see(_one_view(views), now)
        took = time.monotonic() - started  # long where a source does not answer
        self._look_next = time.monotonic() + max(LOOK_SECONDS, took / MAX_SHARE)
        assert self.tally is not None
        self.tally.processor_seconds += time.thread_time() - began

    def _see(self, view: SchedulerView, now: float) -> None:
        """Remember what the sources say now, and until when they said other things, for as long as it counts.

        Of a source that does not answer a scheduler keeps what it said before.
        """
        if self._seen:
            before = self._seen[-1].view
            watchers = {**before.watchers, **view.watchers}
            queries = {**before.queries, **view.queries}
            view = SchedulerView(watchers, view.missing, queries)
        if not self._seen or view != self._seen[-1].view:
            if self._seen:
                self._seen[-1] = replace(self._seen[-1], until=now)
            self._seen.append(SeenView(view, self._looked_at if self._seen else now))
        self._looked_at = now
        recent = [seen_view for seen_view in self._seen if seen_view.until > now - _KEPT_SECONDS]
        self._seen = recent[-MAX_SEEN:]

    def step(self, loaded: LoadedPolicy, api: RawApi, max_decisions: int | None = None) -> Step | None:
        """Compare what was bound since the step before; None where nothing could have been seen yet.

        The tally ends with ``max_decisions``, and later ones of this step do not count.
        Raises what reading a cluster does.
        """
        began = time.thread_time()
        self._next = time.monotonic() + STEP_SECONDS  # also where this one fails
        options = replace(self._options, observed=lambda _observation, _state: None)  # no run's
        loaded = by_requests(loaded)
        observation = observe(options, (loaded,), api, cluster=self._cluster)
        inputs = assemble(observation, loaded, None)
        if self.tally is None:  # the watches have just begun
            self.tally = Tally(inputs.snapshot.source, time.time())
            self._see(_one_view(scheduler.view for scheduler in inputs.schedulers), inputs.now)
            self._remember(inputs, began)
            return None
        tally = self.tally
        upto = version_number(inputs.snapshot.recording.listings[PODS.plural].resource_version)
        if not self._arrived(upto, api):
            tally.waiting = self._log.binds
            self._remember(inputs, began, claims=False)
            return None  # a later step sees it
        changes = self._log.since_taken()
        self._see(_one_view(scheduler.view for scheduler in inputs.schedulers), inputs.now)
        self._bound_at = {uid: at for uid, at in self._bound_at.items() if at > inputs.now - _KEPT_SECONDS}
        self._bound_at |= {
            change.after.fields.uid: math.floor(change.at)  # as Trimaran's handler rounds it
            for change in changes
            if change.binds and isinstance(change.after, PodThen)
        }
        bindings = sum(change.binds and change.version <= upto for change in changes)
        chosen = self._chosen(bindings)
        claims = self._claims  # those of the step before, also once this one has ended
        seen = self._seen
        bound_at = self._bound_at

        def decided(inputs: PlanningInputs, weighed: int = 0) -> list[Decision]:
            numbers = lambda _count: chosen  # noqa: E731 - the same for each
            decisions = decide_again(
                inputs,
                changes,
                upto=upto,
                bound_claims=claims,
                seen=seen,
                bound_at=bound_at,
                chosen=numbers,
                weighed=weighed,
            )
            return list(decisions)

        decisions = decided(inputs)
        counted = (
            len(decisions)
            if max_decisions is None
            else until_compared(decisions, max_decisions - tally.decisions)
        )
        decisions = decisions[:counted]
        missed = sum(decision.result is Result.MISSED for decision in decisions)
        self._untried += missed
        if missed and self._untried >= _MISSES and time.monotonic() >= self._try_next:
            self._begin_try()
            if any(decision.sampled for decision in decisions):
                decisions = decided(inputs, MAX_WEIGHED)[:counted]
            versions = {scheduler.version for scheduler in inputs.schedulers}
            by_minor = {
                minor: decided(_of_version(inputs, minor))[:counted]
                for minor in VERIFIED
                if versions != {minor}
            }
            tally.minors.add(decisions, by_minor)
            by_plugin = {
                name: decided(replace(inputs, schedulers=schedulers))[:counted]
                for name, schedulers in _with_each_plugin(inputs.schedulers).items()
            }
            tally.plugins.add(decisions, by_plugin)
        by_result = tally.add(decisions)
        tally.left_out += bindings - len(chosen)
        self._log.take(upto)
        tally.waiting = self._log.binds
        tally.gaps = self._log.gaps
        self._remember(inputs, began)
        return Step(
            observation=observation,
            inputs=inputs,
            decisions=decisions,
            by_result=by_result,
            decided_by=lambda other: decided(other)[:counted],
        )

    def _begin_try(self) -> None:
        """Note that the alternatives are tried now, and from when on they may be tried again."""
        self._tried = self._tried + 1
        self._untried = 0
        self._try_next = time.monotonic()
        if self._tried >= TRIES:
            self._try_next += TRY_AGAIN_SECONDS

    def _remember(self, inputs: PlanningInputs, began: float, *, claims: bool = True) -> None:
        """Keep what the next step has to know of this one, which began at that thread time."""
        assert self.tally is not None
        self._inputs = inputs
        if claims:
            self._claims = {
                (claim.metadata.namespace, claim.metadata.name)
                for claim in inputs.snapshot.recording.records(CLAIMS)
                if claim.spec.volume_name
            }
        free_cycles()
        spent = time.thread_time() - began
        self.tally.processor_seconds += spent
        self._next = time.monotonic() + max(STEP_SECONDS, spent / MAX_SHARE)

    def _arrived(self, version: int, api: RawApi) -> bool:
        """Wait until the watch has brought what the reading shows; whether it did."""
        if not self._log.reached(PODS) or not self._log.reached(NODES):
            raise InputError(
                "the API server does not let pods and nodes be watched",
                where=api.host,
                hint="decisions are compared by watches; is a proxy in between?",
            )
        if self._has_arrived_within(_ARRIVING_SECONDS, version, api):
            return True
        # Where no pod changes, no event says that nothing has happened: a bookmark does.
        self._cluster.hurry((PODS, NODES))
        return self._has_arrived_within(_BOOKMARK_SECONDS, version, api)

    def _has_arrived_within(self, seconds: float, version: int, api: RawApi) -> bool:
        limit = api.retries.run.within(seconds)
        while self._log.reached(PODS) < version and limit.seconds_left > 0:
            time.sleep(_LOOK_SECONDS / 10)
        return self._log.reached(PODS) >= version

    def _chosen(self, bindings: int) -> Collection[int]:
        if bindings <= MAX_DECISIONS:
            return range(bindings)
        return frozenset(self._random.choice(bindings, MAX_DECISIONS, replace=False).tolist())


def _one_view(views: Iterable[SchedulerView]) -> SchedulerView:
    """What the plugins of several schedulers see, by the addresses that they read."""
    watchers: dict[str, WatcherMetrics] = {}
    missing: dict[str, str] = {}
    queries: dict[tuple[str, str], Mapping[str, float]] = {}
    for view in views:
        watchers = {**view.watchers, **watchers}
        missing = {**view.missing, **missing}
        queries = {**view.queries, **queries}
    return SchedulerView(watchers, missing, queries)


def _of_version(inputs: PlanningInputs, minor: str) -> PlanningInputs:
    """The same as if every scheduler were of this minor."""
    schedulers = tuple(replace(scheduler, version=minor) for scheduler in inputs.schedulers)
    return replace(inputs, schedulers=schedulers)


def _with_each_plugin(
    schedulers: Sequence[SchedulerFacts],
) -> dict[str, tuple[SchedulerFacts, ...]]:
    """By each plugin that a profile has off somewhere: the schedulers with it on."""
    changed = [with_each_plugin(scheduler.configuration) for scheduler in schedulers]

    def with_plugin(name: str) -> tuple[SchedulerFacts, ...]:
        return tuple(
            replace(scheduler, configuration=configurations.get(name, scheduler.configuration))
            for scheduler, configurations in zip(schedulers, changed, strict=True)
        )

    names = dict.fromkeys(name for configurations in changed for name in configurations)
    return {name: with_plugin(name) for name in names}


def until_compared(decisions: Sequence[Decision], count: int) -> int:
    """How many of these there are up to the last of so many that could be compared."""
    compared = np.cumsum([decision.result is not Result.UNPREDICTABLE for decision in decisions])
    if count > compared[-1:].sum():
        return len(decisions)
    return int(compared.searchsorted(count)) + 1


def by_requests(loaded: LoadedPolicy) -> LoadedPolicy:
    """The policy without its sources of load: where pods land depends on what schedulers see, not on them."""
    settings = LoadSettings.model_validate({"sources": [{"requests": {}}]})
    return replace(loaded, policy=loaded.policy.model_copy(update={"load": settings}))


def keep_agreement(store: StateStore | None, tally: Tally) -> None:
    """Keep what was measured, where runs will look for it; that it cannot be kept is said and no more."""
    if store is None or not tally.decisions:
        return
    measured = MeasuredAgreement(decisions=tally.decisions, landed=tally.landed, until=time.time())
    try:
        store.update(lambda state: replace(state, agreement=the_one_to_keep(state.agreement, measured)))
    except StopRequestedError:
        raise
    except RebalancerError as error:
        LOGGER.warning("what was measured could not be kept for runs: %s", error)


def _store(options: PlanOptions, api: RawApi) -> StateStore | None:
    """Where runs will look; without a place that the options name, nobody has to have one."""
    try:
        return state_store(options, api, measures=True)
    except InputError as error:
        if options.state_path is not None or options.state_config_map is not None:
            raise
        LOGGER.warning("what is measured will not be kept for runs: %s", error)
        return None


def watch_agreement(
    options: PlanOptions,
    seconds: float,
    decisions: int | None,
    stepped: Callable[[Tally, Step | None], None],
    begun: Callable[[], object] = lambda: None,
    stop: StopRequest | None = None,
) -> Agreement:
    """Compare decisions for so long, or so many, or until a signal; ``stepped`` gets what each step found.

    ``begun`` is called once the cluster is followed, ``stop`` ends it where not by a signal.

    What was measured is kept in the state of runs. Raises what reading a cluster does, and StopRequestedError
    for a signal before there is anything to tell.
    """
    loaded = policy_of(options)
    api = open_api(options)
    assert api is not None  # the command has no option for a recorded cluster
    store = _store(options, api)
    end = time.monotonic() + seconds
    stop = stop or StopRequest()
    with stop_on_signal(stop):
        api = api.until(Deadline(stop=stop))
        with open_cluster(api, ChangeLog()) as cluster:
            following = Following(options, cluster)
            following.step(loaded, api)
            assert following.tally is not None
            begun()
            over = False
            with contextlib.suppress(StopRequestedError):
                while not over:
                    over = stop.wait(_LOOK_SECONDS) or time.monotonic() >= end
                    following.look(api)
                    if following.is_due() or (over and not stop.is_set()):
                        step = following.step(loaded, api, decisions)
                        stepped(following.tally, step)
                    over = over or (decisions is not None and following.tally.decisions >= decisions)
        keep_agreement(store, following.tally)
        return following.report()


def why_there(options: PlanOptions, subject: str, namespace: str, recorded: Path | None) -> WhyThere:
    """Why a pod is where it is: as recorded when it was bound, or computed on the cluster of now without it.

    ``recorded`` is what ``rebalancer agreement -o json`` or ``rebalancer serve --decisions`` wrote. Of a
    timeline the moment of the binding is found. Raises InputError where it has not the pod.
    """
    pod_subject = parse_subject(subject, namespace)
    if pod_subject.kind != "pod":
        raise InputError(f"{subject[:100]!a} is not a pod", hint="write pod/NAMESPACE/NAME")
    if recorded is not None:
        decisions = [
            decision
            for decision in _recorded(recorded)
            if pod_subject.name in (decision.pod, decision.pod.split("/")[-1])
        ]
        decisions.sort(key=lambda decision: decision.version)
        if not decisions:
            hint = (
                "a report has the last thousand decisions and the last hundred misses; "
                "without --decisions the answer "
            )
            raise InputError(
                f"has no decision on pod {pod_subject.name[:200]}",
                where=str(recorded),
                hint=f"{hint}is computed on the cluster as it is now",
            )
        names = sorted({decision.pod for decision in decisions})
        if len(names) > 1:
            raise InputError(
                f"pod {pod_subject.name[:200]} is in {len(names)} namespaces",
                where=str(recorded),
                hint=f"write for example pod/{names[0][:200]}",
            )
        at = times.render(decisions[-1].at)
        computed = f"when it was bound, at {at}, says {recorded}"
        return WhyThere(computed=computed, recorded=True, decision=decisions[-1])
    loaded = policy_of(options)
    moment = None
    if options.source is not None and is_timeline(options.source):
        timeline = Timeline.open(options.source, options.max_dump_bytes)
        moment = binding_moment(timeline, pod_subject.name, options.at, options.progress)
        options = replace(options, at=moment)
    (planner,) = read_planners(options, (by_requests(loaded),), open_api(options), None)
    inputs = planner.inputs
    row = find_subject(inputs.snapshot, pod_subject).row
    pods = inputs.snapshot.pods
    if row >= len(pods) or pods.node[row] < 0:
        raise InputError(
            f"pod {pod_subject.name[:200]} is on no node that was read, or has finished",
            hint=f"rebalancer explain {subject[:200]}",
        )
    computed = f"on the cluster as it was at {times.render(inputs.now)}, without the pod"
    if moment is None:
        computed += "; it may have been another when the pod was bound"
    else:
        computed += ": the first recorded moment at which it was on its node"
    return WhyThere(
        computed=computed,
        recorded=False,
        decision=decide_now(inputs, row),
    )


def _recorded(path: Path) -> Sequence[Decision]:
    """The decisions in a report of ``rebalancer agreement``, or those that ``rebalancer serve`` kept."""
    text = read_text(path, largest=MAX_REPORT_BYTES)
    if text.partition("\n")[0].count(f'"kind":"{DECISION_KIND}"') == 1:
        return kept_decisions(path)
    try:
        report = msgspec.json.decode(text, type=Agreement)
        if (report.api_version, report.kind) != (API_VERSION, Agreement.__name__):
            raise msgspec.ValidationError(f"it is {report.kind} of {report.api_version}")
        return (*report.misses, *report.latest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(
            "is not what rebalancer agreement -o json or rebalancer serve --decisions wrote: "
            f"{str(error)[:200]}",
            where=str(path),
        ) from error
