"""What a run is given, from the few things that a test wants to be otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rebalancer.cluster.live import RawApi
from rebalancer.execution.clock import RunClock
from rebalancer.execution.journal import Journal
from rebalancer.execution.observed_pods import ObservedPod
from rebalancer.execution.outcomes import Outcome
from rebalancer.execution.safety import SafetyChecks
from rebalancer.execution.waves import RunContext, WorkloadPods
from rebalancer.planning.plan import Move, Plan, Progress
from rebalancer.policy.policy_file import LoadedPolicy
from rebalancer.policy.schema import Execution, RebalancePolicy, Safety
from tests.unit.execution.builders import a_plan


def a_policy(safety: Safety) -> LoadedPolicy:
    """A policy that says nothing else; its digest is of all that it says."""
    policy = RebalancePolicy().model_copy(update={"safety": safety})
    return LoadedPolicy(policy, "policy.yaml", repr(safety))


PlanAgain = Callable[[Sequence[Move], int], Plan]
Validate = Callable[[Sequence[Move]], Mapping[str, str | Move]]
CheckLanding = Callable[[Move, str], str | None]
NextInWave = Callable[[Sequence[Outcome], Move], str | Move]


@dataclass(frozen=True)
class FixedReplanner:
    """Judges moves as a test says."""

    validation: Validate
    landing_check: CheckLanding
    seen: Callable[[ObservedPod], bool]
    after_landings: NextInWave
    again: PlanAgain
    progressed: Callable[[Progress], object]

    def validate(
        self, moves: Sequence[Move], progress: Progress, landed: Sequence[Outcome] = ()
    ) -> Mapping[str, str | Move]:
        self.progressed(progress)
        return self.validation(moves)

    def plan_again(self, made: Sequence[Move], waves: int) -> Plan:
        return self.again(made, waves)

    def next_in_wave(self, landed: Sequence[Outcome], move: Move, progress: Progress) -> str | Move:
        self.progressed(progress)
        return self.after_landings(landed, move)

    def has_seen(self, pod: ObservedPod) -> bool:
        return self.seen(pod)

    def check_landing(self, move: Move, node: str) -> str | None:
        return self.landing_check(move, node)


def only_hot(_move: Move, node: str) -> str | None:
    return "it is hot" if node == "hot" else None


def a_context(
    api: RawApi,
    journal: Journal,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
    *,
    safety: Callable[[], Safety] = Safety,
    pause: Callable[[], str] = lambda: "",
    schedulers: Any = (),
    validate: Validate = lambda _moves: {},
    check_landing: CheckLanding = only_hot,
    seen: Callable[[ObservedPod], bool] = lambda _: True,
    again: PlanAgain | None = None,
    execution: Execution | None = None,
    next_in_wave: NextInWave = lambda _landed, move: move,
    max_duration_seconds: float | None = None,
    stop_requested: Callable[[], bool] = lambda: False,
    pods_seen: Any = lambda _: None,
    progressed: Callable[[Progress], object] = lambda _: None,
    **more: Any,
) -> RunContext:
    """A context for one run, whose moves all hold, and whose landings are acceptable but on ``hot``.

    It plans once, unless ``again`` makes further plans.
    """
    return RunContext(
        api=api,
        journal=journal,
        clock=RunClock(
            now=clock,
            monotonic=api.retries.clock,
            sleep=sleep,
            began=api.retries.clock(),
            max_duration_seconds=max_duration_seconds,
            stop_requested=stop_requested,
        ),
        safety=SafetyChecks(
            policy=a_policy(safety()), policy_now=lambda: a_policy(safety()), why_paused=pause
        ),
        schedulers_of=lambda _: schedulers,
        execution=(execution or Execution()).model_copy(update={"replan": again is not None}),
        replanner=FixedReplanner(
            validate,
            check_landing,
            seen,
            next_in_wave,
            again or (lambda _made, _waves: a_plan()),
            progressed,
        ),
        pods=WorkloadPods(watched=pods_seen),
        **{"run": "run-1", "lease": None, **more},
    )
