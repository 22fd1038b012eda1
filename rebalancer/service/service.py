"""The loop: stand by until this replica leads, make a run at every interval, and hand over in order.

All replicas are the same program. The one that holds the lease of the runs makes them; the others watch the
lease and take it when it is given up or has run out. Who leads keeps the lease between its runs, so that no
other run, that of a CronJob or a user included, comes in between:

    replica A   takes the lease   run   wait   run   SIGTERM: finishes the eviction in flight, gives it up
    replica B   stands by                                     takes it   waits until the next run is due   run

A standby keeps the cluster at hand meanwhile.

A run that fails is logged and counted, and the next one is made when it is due. In plan mode there is nothing
to lead: every replica plans, and none of them writes anything.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from rebalancer.agreement.decisions import Result
from rebalancer.agreement.following import Following, keep_agreement
from rebalancer.agreement.kept_decisions import keep_decisions
from rebalancer.cluster.changes import ChangeLog
from rebalancer.cluster.dumps.listing import free_cycles
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.counting import counted
from rebalancer.deadlines import CLOSING_SECONDS, Deadline, StopRequest
from rebalancer.errors import ExitCode, InputError, RebalancerError, StopRequestedError
from rebalancer.execution.journal import rotate
from rebalancer.execution.lease import DURATION_SECONDS, HeldLease, LeaseWatch, RunLease, holder_identity
from rebalancer.execution.outcomes import Outcomes
from rebalancer.observe.plan_options import PlanOptions, RunOptions, open_api
from rebalancer.observe.read import known_state, open_cluster, read_planners, read_snapshot, state_store
from rebalancer.planning.plan import Plan
from rebalancer.reporting.metrics import LEADER, POLICY_CURRENT, RunMetrics
from rebalancer.reporting.run_observers import LogObserver, intent_words
from rebalancer.reporting.words import words
from rebalancer.run.memory import finding
from rebalancer.run.run import Run, RunEnvironment
from rebalancer.service.endpoints import STARTING, Endpoints, Health, answering
from rebalancer.service.policy_in_force import PolicyInForce
from rebalancer.service.waiting import FINISHING_SECONDS, WarmCluster
from rebalancer.signals import stop_on_signal
from rebalancer.state.run_state import RunState
from rebalancer.telemetry import span

LOGGER = logging.getLogger(__name__)
LOOK_SECONDS = 2.0  # between two looks at the lease, the policy and the clock
MIN_INTERVAL_SECONDS = 1.0
MAX_MOVES_SHOWN = 50
COMPARING_SECONDS = 60.0  # that comparing decisions of schedulers may take between two runs
_LONGEST_SECONDS = 300.0  # of a run, where neither the option nor the policy says
_BESIDE_WAVES_SECONDS = 120.0  # what a run may take besides its waves
# After these runs are not made as they should be; after the others they are, though a pod may have stayed.
_UNABLE = frozenset(
    {
        *(ExitCode.INTERNAL, ExitCode.BAD_INPUT, ExitCode.RIGHTS_MISSING),
        *(ExitCode.UNREACHABLE, ExitCode.REJECTED),
    }
)


class ServiceOptions(RunOptions, frozen=True, kw_only=True):
    """How the service acts, as each of its runs does, and where it is seen."""

    act: bool = False  # False: every replica plans, and nothing is changed
    host: str = "127.0.0.1"
    port: int = 8080  # 0: any that is free, which the log names
    decisions: Path | None = None  # where each decision that is compared is kept
    lease_seconds: float = DURATION_SECONDS  # how long it is held without being renewed


class Runs(msgspec.Struct, eq=False, dict=True):
    """What every run of a service is made from; a run remembers what the one before left."""

    _options: PlanOptions
    _settings: ServiceOptions
    _api: RawApi
    _cluster: LiveCluster
    _stop: StopRequest
    _policy: PolicyInForce
    _metrics: RunMetrics
    _seen: RunState | None = None  # in plan mode: what earlier plans found

    @functools.cached_property
    def _following(self) -> Following:
        return Following(self._options, self._cluster)

    @property
    def longest_seconds(self) -> float:
        """After which no wave of a run begins: by the option, else by the policy in force."""
        given = self._settings.max_duration_seconds, self._policy.loaded.policy.execution.max_duration
        return next((each for each in given if each is not None), _LONGEST_SECONDS)

    def last_run_at(self, seconds: float) -> float | None:
        """When the last run of any process found what it kept, Unix seconds; None where nothing says.

        To find out takes so many seconds at most.
        """
        store = state_store(self._options, self._api.within(seconds), acts=True)
        state = store.load() if store is not None else None
        return (state.updated_at or None) if state is not None else None

    def read_cluster(self, deadline: Deadline) -> None:
        """Read the cluster, so that the next run reads only what changed since. Raises what a run does."""
        read_snapshot(self._options, self._api.until(deadline), time.time, self._cluster)

    def compare(self) -> None:
        """Compare what schedulers have bound with what is computed, where it is time to.

        Raises what reading a cluster does, and takes at most ``COMPARING_SECONDS``.
        """
        following = self._following
        end = time.monotonic() + COMPARING_SECONDS
        api = self._api.until(Deadline(end, stop=self._stop))
        following.look(api)
        if not following.is_due():
            return
        step = following.step(self._policy.loaded, api)
        by_result = Counter[tuple[str, str]]() if step is None else step.by_result
        tally = following.tally
        assert tally is not None
        self._metrics.compared(by_result)
        if step is not None and self._settings.decisions is not None:
            try:
                keep_decisions(self._settings.decisions, step.decisions)
            except InputError as error:  # which ends no service
                LOGGER.warning("%s", error)
        missed = sum(count for (_, result), count in by_result.items() if result == Result.MISSED)
        if missed:
            LOGGER.warning(
                "%s of the scheduler landed elsewhere than computed; of %d so far %d did as computed%s",
                *(counted(missed, "decision"), tally.decisions, tally.landed, tally.why()),
            )

    def act(self, held: HeldLease) -> Outcomes:
        """Plan, evict in waves and verify every landing, under a held lease. Raises what a run does."""
        environment = RunEnvironment(
            api=self._api,
            cluster=self._cluster,
            loaded=self._policy.loaded,
            stop=self._stop,
            policy_now=self._policy.now,
            held=held,
        )
        if self._following.tally is not None:
            store = state_store(self._options, self._api, acts=True)
            keep_agreement(store, self._following.tally)
        if self._settings.journal is not None:
            rotate(self._settings.journal)
        log = LogObserver(LOGGER, journaled=self._settings.journal is None)
        _, outcomes = Run(
            environment,
            self._options,
            replace(self._settings, max_duration_seconds=self.longest_seconds),
            (log, self._metrics.follow),
            self._planned,
        ).finish()
        self._metrics.ended(outcomes.exit_code, time.time())
        return outcomes

    def look(self) -> None:
        """Plan, show what would be evicted, and change nothing. Raises what a plan does.

        The load of too few nodes is a warning in the plan, where a run would refuse to act.
        """
        end = time.monotonic() + self.longest_seconds
        api = self._api.until(Deadline(end, stop=self._stop))
        given = replace(self._options, ignore_coverage=True), (self._policy.loaded,), api
        with span("run", acts=False):
            (planner,) = read_planners(*given, self._state(api), cluster=self._cluster)
            with span("plan") as making:
                plan = planner.plan()
                making.add(hot_nodes=plan.hot_count, moves=len(plan.moves))
        self._seen = finding(planner.inputs, plan)(self._seen or RunState())
        self._planned(plan)
        for move in plan.moves[:MAX_MOVES_SHOWN]:
            LOGGER.info(
                "would evict %s: %s",
                move.pod.full_name,
                words(move.because),
                extra={"fields": {"pod": move.pod.full_name, "wave": move.wave}},
            )
        self._metrics.ended(0, time.time())

    def _state(self, api: RawApi) -> RunState:
        """What runs left, if an option names it or they are ours, else what this process has seen so far."""
        options = self._options
        if not self._settings.act and options.state_path is None and options.state_config_map is None:
            return self._seen or RunState()
        return known_state(options, api) or RunState()

    def _planned(self, plan: Plan) -> None:
        self._metrics.planned(plan)
        LOGGER.info(
            "%s of %d, %s planned, %s that cannot be cooled",
            counted(plan.hot_count, "hot node"),
            plan.node_count,
            counted(len(plan.moves), "move"),
            counted(len(plan.unsolved), "node"),
            extra={"fields": {"hotNodes": plan.hot_count, "moves": len(plan.moves)}},
        )
        if self._settings.act and (plan.moves or plan.cleanups):
            LOGGER.info("evicts %s", intent_words(plan, plan.source))


class Service(msgspec.Struct, eq=False, dict=True):
    """One replica."""

    _options: PlanOptions
    _settings: ServiceOptions
    _began: float = -float("inf")  # the last run of this replica, by our clock
    _compared: str = ""  # why decisions could not be compared last

    def __post_init__(self) -> None:
        """Read the policy. Raises InputError when it cannot be used."""
        self._policy = PolicyInForce(self._options.policy_path)
        self._health = Health()
        self.metrics = RunMetrics(self._settings.cluster)

    def serve(self) -> int:
        """Serve until a signal asks to stop; returns the exit code.

        Raises InputError where there are no credentials or the address cannot be had.
        """
        app = Endpoints(self._health, self.metrics.registry)
        stop = StopRequest()
        api = open_api(self._options)
        assert api is not None  # the command refuses a recorded cluster
        api = api.until(Deadline(stop=stop))
        with (
            stop_on_signal(stop, self._policy.ask),
            answering(self._settings.host, self._settings.port, app) as url,
            contextlib.suppress(StopRequestedError),
        ):
            LOGGER.info("metrics and probes are at %s", url)
            self._show_policy()
            with open_cluster(api, ChangeLog()) as cluster:
                given = (self._options, self._settings, api, cluster, stop, self._policy, self.metrics)
                runs = Runs(*given)
                if self._settings.act:
                    self._compete(api, stop, runs)
                else:
                    self._loop(stop, runs, None)
        LOGGER.info("asked to stop: ended")
        return int(ExitCode.DONE)

    def _compete(self, api: RawApi, stop: StopRequest, runs: Runs) -> None:
        """Lead whenever this replica has the lease, else stand by."""
        namespace, name = self._settings.lease.split("/")
        identity = holder_identity(uuid.uuid4().hex)
        seconds = self._settings.lease_seconds
        lease = RunLease(api, namespace, name, identity, time.time, duration_seconds=seconds)
        while not stop.is_set():
            warm = WarmCluster(runs.read_cluster, stop, runs.longest_seconds)
            try:
                held = self._stood_by(lease, stop, warm)
                if held is not None:
                    with self._leading(held):
                        LOGGER.info("leads: took %s", lease.where)
                        if not self._health.not_ready:
                            self._health.ready("leads")
                        with self._health.busy_for(2 * FINISHING_SECONDS):
                            warm.finish()
                        self._loop(stop, runs, held)
            finally:
                with self._health.busy_for(FINISHING_SECONDS):
                    warm.end()

    def _stood_by(self, lease: RunLease, stop: StopRequest, warm: WarmCluster) -> HeldLease | None:
        """The lease, once it could be taken; None when asked to stop."""
        watch = LeaseWatch(lease)
        last = ""
        self.metrics.stands_by()
        while not stop.is_set():
            self._tend()
            try:
                with self._health.busy_for(self._settings.lease_seconds):
                    held = watch.look()
            except StopRequestedError:
                return None
            except RebalancerError as error:
                last = self._say(f"{lease.where} cannot be taken: {error}", last, logging.WARNING)
                self._health.failing(str(error))
            else:
                if held is not None:
                    return held
                last = self._say(f"stands by: {lease.where} {watch.why_not}", last)
                warm.begin()
                if warm.trouble:
                    self._health.failing(warm.trouble)
                elif warm.is_read:
                    self._health.ready("stands by")
            stop.wait(min(LOOK_SECONDS, self._settings.lease_seconds / 10))
        return None

    @contextlib.contextmanager
    def _leading(self, held: HeldLease) -> Iterator[None]:
        try:
            with held.renewed_meanwhile():
                yield
        finally:
            self.metrics.stands_by()  # before anybody can read that it does
            if not held.held:
                LOGGER.warning("the lease was lost: stands by")
            with self._health.busy_for(self._settings.lease_seconds + CLOSING_SECONDS):
                held.release()

    def _loop(self, stop: StopRequest, runs: Runs, held: HeldLease | None) -> None:
        """Make a run at every interval; under a lease for as long as it is held, without one only plans."""
        self.metrics.set(LEADER, 1)
        began = self._last_began(runs) if held is not None else -float("inf")
        while self._waited(began, stop, held, runs):
            self._tend()  # the newest policy is the one of the run
            began = self._began = time.monotonic()
            wave = self._policy.loaded.policy.execution.wave_timeout
            longest = runs.longest_seconds + wave + _BESIDE_WAVES_SECONDS
            with self._health.busy_for(longest):
                failed = self._failed(runs, held)
                free_cycles()
            self._compare(runs)
            if failed:
                self._health.failing(failed)
            else:
                self._health.ready("plans only" if held is None else "leads")

    def _failed(self, runs: Runs, held: HeldLease | None) -> str:
        """Make a run; returns why it failed, else nothing."""
        try:
            if held is None:
                runs.look()
                return ""
            outcomes = runs.act(held)
        except StopRequestedError:
            raise
        except RebalancerError as error:
            LOGGER.error("%s", error, extra={"fields": {"exitCode": int(error.exit_code)}})
            self.metrics.ended(int(error.exit_code), time.time())
            return str(error)
        return outcomes.stopped if outcomes.exit_code in _UNABLE else ""

    def _last_began(self, runs: Runs) -> float:
        """When the last run of any replica was made, by our clock; long ago where none is known.

        Ours is known whatever the state says: a lease that comes and goes makes no run more often.
        """
        seconds = self._settings.lease_seconds
        try:
            with self._health.busy_for(seconds):
                last = runs.last_run_at(seconds)
        except RebalancerError as error:
            LOGGER.warning("when the last run was made cannot be read: %s", error)
            last = None
        age = time.time() - last if last is not None else -1.0
        return max(self._began, time.monotonic() - age if age >= 0 else -float("inf"))

    def _waited(self, began: float, stop: StopRequest, held: HeldLease | None, runs: Runs) -> bool:
        """Wait until the run after the one that began then is due; False to stop or stand by."""
        while not stop.is_set() and (held is None or held.held):
            settings = self._policy.loaded.policy.hot_nodes
            due = began + max(settings.run_interval, MIN_INTERVAL_SECONDS)
            left = due - time.monotonic()
            if left <= 0:
                return True
            self._tend()
            self._compare(runs)
            stop.wait(min(left, LOOK_SECONDS))
        return False

    def _compare(self, runs: Runs) -> None:
        """Compare the decisions of schedulers; that it fails stops no run."""
        try:
            with self._health.busy_for(2 * COMPARING_SECONDS):
                runs.compare()
        except StopRequestedError:
            raise
        except RebalancerError as error:
            message = f"the decisions of schedulers cannot be compared: {error}"
            self._compared = self._say(message, self._compared, logging.WARNING)
        else:
            if self._health.not_ready == STARTING:  # it has the cluster; its next run is not yet due
                self._health.ready("leads")

    def _tend(self) -> None:
        """What is due between two runs: show that the loop lives, and take over a changed policy."""
        self._health.waits()
        self._policy.refresh()
        self._show_policy()

    def _show_policy(self) -> None:
        self.metrics.set(POLICY_CURRENT, 0 if self._policy.refused else 1)

    def _say(self, message: str, last: str, level: int = logging.INFO) -> str:
        """Log what is not what was logged last."""
        if message != last:
            LOGGER.log(level, "%s", message)
        return message
