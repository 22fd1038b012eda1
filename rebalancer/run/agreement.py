"""Follows a cluster by watches and compares each decision of its schedulers with the model's.

A step reads what changed since the one before, and decides again what was bound meanwhile. How often steps
are made follows from what they cost: at most a twentieth of a processor is spent on them.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection

import numpy as np
from msgspec.structs import replace

from rebalancer.agreement.decisions import Agreement, Tally
from rebalancer.agreement.replay import decide_again
from rebalancer.cluster.changes import ChangeLog
from rebalancer.cluster.kinds import CLAIMS, NODES, PODS
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.cluster.pods import version_number
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.deadlines import Deadline
from rebalancer.errors import InputError, RebalancerError, StopRequestedError
from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.read import open_api, open_cluster, policy_of, read_inputs
from rebalancer.observe.state_location import state_store
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.policy.schema import LoadSettings
from rebalancer.signals import stop_on_signal
from rebalancer.state.agreement import MeasuredAgreement, the_one_to_keep
from rebalancer.state.stores import StateStore

LOGGER = logging.getLogger(__name__)
STEP_SECONDS = 10.0  # between two steps, at least
MAX_SHARE = 0.05  # of one processor, on average
MAX_DECISIONS = 500  # of a step; of more bindings, so many are chosen by chance
MAX_KEPT = 50_000  # changes that wait without a binding, before a step is made all the same
_LOOK_SECONDS = 0.2
_ARRIVING_SECONDS = 3.0  # for a watch to bring what a LIST has shown


class Following:
    """The steps of one process, and what they have found."""

    def __init__(self, options: PlanOptions, cluster: LiveCluster, seed: int = 0) -> None:
        """``cluster`` keeps a log of changes, and may be used between steps."""
        self._options = options
        self._cluster = cluster
        self._random = np.random.default_rng(seed)
        self._claims: Collection[tuple[str, str]] = ()
        self._views: tuple[SchedulerView, ...] = ()
        self._next = -float("inf")  # by the monotonic clock
        self.tally: Tally | None = None

    @property
    def _log(self) -> ChangeLog:
        assert self._cluster.log is not None
        return self._cluster.log

    def is_due(self) -> bool:
        """Whether there is something to compare, and processor time for it."""
        if self.tally is None:
            return True
        return time.monotonic() >= self._next and (self._log.binds > 0 or len(self._log) > MAX_KEPT)

    def step(self, loaded: LoadedPolicy, api: RawApi) -> Counter[tuple[str, str]]:
        """Compare what was bound since the step before; how many by profile and result.

        Raises what reading a cluster does.
        """
        began = time.thread_time()
        options = replace(self._options, observed=lambda _observation, _state: None)  # no run's
        policies = (_by_requests(loaded),)
        inputs = read_inputs(options, policies, api, None, cluster=self._cluster, ignore_coverage=True)[0]
        if self.tally is None:  # the watches have just begun
            self.tally = Tally(inputs.snapshot.source, time.time())
            self._known(inputs, began)
            return Counter()
        tally, upto = self.tally, _version(inputs.snapshot)
        if not self._arrived(upto, api):
            return Counter()  # the next step sees it
        changes = self._log.since_taken()
        earlier = (*inputs.scheduler.earlier_views, *self._views)
        scheduler = replace(inputs.scheduler, earlier_views=(inputs.view, *earlier) if earlier else ())
        added = tally.add(
            decide_again(
                replace(inputs, scheduler=scheduler),
                changes,
                upto=upto,
                bound_claims=self._claims,
                chosen=self._chosen,
            )
        )
        self._log.take(upto)
        tally.gaps = self._log.gaps
        self._known(inputs, began)
        return added

    def _known(self, inputs: PlanningInputs, began: float) -> None:
        """Keep what the next step has to know of this one, which began at that thread time."""
        assert self.tally is not None
        self._claims, self._views = _bound_claims(inputs.snapshot), (inputs.view,)
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
        limit = api.retries.run.within(_ARRIVING_SECONDS)
        while self._log.reached(PODS) < version and limit.seconds_left > 0:
            time.sleep(_LOOK_SECONDS / 10)
        return self._log.reached(PODS) >= version

    def _chosen(self, bindings: int) -> Collection[int]:
        if bindings <= MAX_DECISIONS:
            return range(bindings)
        assert self.tally is not None
        self.tally.left_out += bindings - MAX_DECISIONS
        return frozenset(self._random.choice(bindings, MAX_DECISIONS, replace=False).tolist())


def _by_requests(loaded: LoadedPolicy) -> LoadedPolicy:
    """The policy without its sources of load: where pods land depends on what schedulers see, not on them."""
    settings = LoadSettings.model_validate({"sources": [{"requests": {}}]})
    return replace(loaded, policy=loaded.policy.model_copy(update={"load": settings}))


def _version(snapshot: Snapshot) -> int:
    return version_number(snapshot.recording.listings[PODS.plural].resource_version)


def _bound_claims(snapshot: Snapshot) -> frozenset[tuple[str, str]]:
    """The PersistentVolumeClaims that have their volume, by namespace and name."""
    claims = snapshot.recording.records(CLAIMS)
    return frozenset((it.metadata.namespace, it.metadata.name) for it in claims if it.spec.volume_name)


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


def watch_agreement(
    options: PlanOptions, seconds: float | None, decisions: int | None, said: Callable[[Tally], None]
) -> Agreement:
    """Compare decisions for so long, or so many, or until a signal; ``said`` is told of each step.

    What was measured is kept in the state of runs. Raises what reading a cluster does, and StopRequestedError
    for a signal before there is anything to tell.
    """
    loaded = policy_of(options)
    api = open_api(options)
    assert api is not None  # the command has no option for a recorded cluster
    store = state_store(options.state_path, options.state_config_map, api, acts=True)
    end = time.monotonic() + seconds if seconds is not None else float("inf")
    with stop_on_signal() as signals:
        api = api.until(Deadline(stop=signals.stop))
        with open_cluster(api, ChangeLog()) as cluster:
            following = Following(options, cluster)
            following.step(loaded, api)
            assert following.tally is not None
            over = False
            with contextlib.suppress(StopRequestedError):
                while not over:
                    over = signals.stop.wait(_LOOK_SECONDS) or time.monotonic() >= end
                    if following.is_due() or (over and not signals.stop.is_set()):
                        following.step(loaded, api)
                        said(following.tally)
                    over = over or (decisions is not None and following.tally.decisions >= decisions)
        keep_agreement(store, following.tally)
        return following.tally.report(time.time())
