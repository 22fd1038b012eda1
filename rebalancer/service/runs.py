"""The runs of a service: each is what ``rebalancer run`` or ``rebalancer plan`` does, once."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import msgspec

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.deadlines import Deadline
from rebalancer.execution.lease import DURATION_SECONDS, HeldLease
from rebalancer.execution.outcomes import Outcomes
from rebalancer.observe.plan_options import PlanOptions, RunOptions
from rebalancer.observe.read import read_inputs, read_snapshot
from rebalancer.observe.state_location import known_state, state_store
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import make_plan
from rebalancer.planning.prepared import Sight, sight_of
from rebalancer.planning.strategies import STRATEGIES
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.reporting.metrics import RunMetrics
from rebalancer.reporting.run_observers import LogObserver
from rebalancer.reporting.words import counted, words
from rebalancer.run.memory import Finding, finding
from rebalancer.run.run import Run, RunEnvironment
from rebalancer.service.policy_in_force import PolicyInForce
from rebalancer.signals import StopSignals
from rebalancer.state.run_state import RunState
from rebalancer.telemetry import span


def look(
    options: PlanOptions, loaded: LoadedPolicy, api: RawApi, cluster: LiveCluster, state: RunState | None
) -> tuple[Plan, Finding]:
    """A plan, and what the state of later ones takes from it.

    The load of too few nodes is a warning in the plan, where a run would refuse to act.
    """
    (inputs,) = read_inputs(options, (loaded,), api, state, cluster=cluster, ignore_coverage=True)
    with span("plan") as making:
        plan = make_plan(inputs)
        making.add(hot_nodes=plan.hot_count, moves=len(plan.moves))
    return plan, finding(inputs, plan)


class ServiceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the service acts, and where it is seen; where its plans come from are ``PlanOptions``."""

    act: bool = False  # False: every replica plans, and nothing is changed
    host: str = "127.0.0.1"
    port: int = 8080  # 0: any that is free, which the log names
    lease: str = "rebalancer/rebalancer"  # NAMESPACE/NAME
    lease_seconds: float = DURATION_SECONDS  # how long it is held without being renewed
    journal: Path | None = None  # None: stderr
    max_duration_seconds: float = 300.0  # no wave of a run begins later


LOGGER = logging.getLogger(__name__)
MAX_MOVES_SHOWN = 50


class Runs:
    """What every run of a service is made from; a run remembers what the one before left."""

    def __init__(
        self,
        options: PlanOptions,
        settings: ServiceOptions,
        api: RawApi,
        cluster: LiveCluster,
        signals: StopSignals,
        policy: PolicyInForce,
        metrics: RunMetrics,
    ) -> None:
        self._options = options
        self._api = api
        self._cluster = cluster
        self._signals = signals
        self._policy = policy
        self._metrics = metrics
        self._acts = settings.act
        self._seen: RunState | None = None  # in plan mode: what earlier plans found
        self.hot_nodes: frozenset[str] | None = None  # of the last run of any replica; None: not known
        self._run_options = RunOptions(
            journal=settings.journal, max_duration_seconds=settings.max_duration_seconds, lease=settings.lease
        )

    def last_run_at(self, seconds: float) -> float | None:
        """When the last run of any process found what it kept, Unix seconds; None where nothing says.

        To find out takes so many seconds at most.
        """
        options = self._options
        api = self._api.within(seconds)
        store = state_store(options.state_path, options.state_config_map, api, acts=True)
        kept = store.load() if store is not None else None
        if kept is None or not kept.updated_at:
            return None
        self.hot_nodes = frozenset(kept.hot_streaks)
        return kept.updated_at

    def read_cluster(self, deadline: Deadline) -> None:
        """Read the cluster, so that the next run reads only what changed since. Raises what a run does."""
        read_snapshot(self._options, self._api.until(deadline), time.time, self._cluster)

    def sight(self, seconds: float) -> Sight:
        """What a run now would find. Raises what a plan does, and takes at most so long."""
        api = self._api.until(Deadline(time.monotonic() + seconds, stop=self._signals.stop))
        loaded = self._policy.loaded

        minding = [strategy for strategy in STRATEGIES if strategy.minds_nodes]
        usable = any(strategy.settings_in(loaded.policy) is not None for strategy in minding)

        def found() -> Sight:
            known = self._known(api)
            (inputs,) = read_inputs(self._options, (loaded,), api, known, cluster=self._cluster)
            return sight_of(inputs, usable=usable)

        return self._signals.interruptibly(found)

    def act(self, held: HeldLease) -> Outcomes:
        """Plan, evict in waves and verify every landing, under a held lease. Raises what a run does."""
        environment = RunEnvironment(
            api=self._api,
            cluster=self._cluster,
            loaded=self._policy.loaded,
            signals=self._signals,
            safety=self._policy.safety,
            held=held,
        )
        log = LogObserver(LOGGER, journaled=self._run_options.journal is None)
        _, outcomes = Run(
            environment,
            self._options,
            self._run_options,
            (log, self._metrics.follow),
            self._planned,
        ).finish()
        self._metrics.ended(outcomes.exit_code, time.time())
        return outcomes

    def look(self) -> None:
        """Plan, show what would be evicted, and change nothing. Raises what a plan does."""
        loaded = self._policy.loaded
        end = time.monotonic() + (self._run_options.max_duration_seconds or float("inf"))
        api = self._api.until(Deadline(end, stop=self._signals.stop))
        with span("run", acts=False):
            plan, found = self._signals.interruptibly(
                lambda: look(self._options, loaded, api, self._cluster, self._known(api))
            )
        self._seen = found(self._seen or RunState())
        self._planned(plan)
        self._metrics.only_planned()
        for move in plan.moves[:MAX_MOVES_SHOWN]:
            LOGGER.info(
                "would evict %s: %s",
                move.pod.full_name,
                words(move.because),
                extra={"fields": {"pod": move.pod.full_name, "wave": move.wave}},
            )
        self._metrics.ended(0, time.time())

    def _known(self, api: RawApi) -> RunState:
        """What runs left, if an option names it or they are ours, else what this process has seen so far."""
        options = self._options
        if not self._acts and options.state_path is None and options.state_config_map is None:
            return self._seen or RunState()
        return known_state(options.state_path, options.state_config_map, api) or RunState()

    def _planned(self, plan: Plan) -> None:
        self._metrics.planned(plan)
        self.hot_nodes = frozenset(node.name for node in plan.nodes if node.hot)
        LOGGER.info(
            "%s of %d, %s planned, %s that cannot be cooled",
            counted(plan.hot_count, "hot node"),
            plan.node_count,
            counted(len(plan.moves), "move"),
            counted(len(plan.unsolved), "node"),
            extra={"fields": {"hotNodes": plan.hot_count, "moves": len(plan.moves)}},
        )
