from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from rebalancer.cli.program import main
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.deadlines import StopRequest
from rebalancer.execution.events import RunFinished, Subscriber, WaveStarted
from rebalancer.execution.outcomes import Outcomes
from rebalancer.observe.plan_options import PlanOptions, RunOptions
from rebalancer.planning.plan import Plan
from tests.builders import a_node, a_snapshot
from tests.unit.reporting.builders import a_plan, an_outcome, some_outcomes

ROOT = Path(__file__).parents[3]
POLICY = f"--policy={ROOT / 'policies' / 'conservative.yaml'}"
ACTS = ("run", POLICY, "--yes")  # a run by a policy, of which somebody has said that it may evict
Program = Callable[..., Result]


@pytest.fixture
def rebalancer_program() -> Program:
    """Runs the program in this process, as a shell would."""

    def run(*arguments: str, typed: str | None = None) -> Result:
        return CliRunner().invoke(main, list(arguments), input=typed)

    return run


@dataclass
class FakePipeline:
    """Stands in for the stages: notes what it was asked, answers what the test wants."""

    plan: Plan = field(default_factory=a_plan)
    outcomes: Outcomes = field(default_factory=lambda: some_outcomes(an_outcome()))
    failure: BaseException | None = None
    asked: list[PlanOptions] = field(default_factory=list)  # without who follows the progress
    run_asked: list[RunOptions] = field(default_factory=list)
    carried_out: int = 0  # plans that were shown and then carried out

    def make_plan(self, options: PlanOptions) -> Plan:
        self.asked.append(replace(options, progress=PlanOptions().progress))
        options.progress("reading pods")
        if self.failure:
            raise self.failure
        return self.plan

    def make_plan_and_snapshot(
        self, options: PlanOptions, *, of_nodes: bool = False
    ) -> tuple[Plan, Snapshot]:
        plan = self.make_plan(options)
        return plan, a_snapshot(nodes=[a_node(node.name) for node in plan.nodes], pods=[])

    def run(
        self,
        options: PlanOptions,
        run_options: RunOptions,
        observers: Sequence[Subscriber],
        _stop: StopRequest,
        show_plan: Callable[[Plan], None],
    ) -> tuple[Plan, Outcomes]:
        self.asked.append(replace(options, progress=PlanOptions().progress))
        self.run_asked.append(run_options)
        show_plan(self.plan)
        self.carried_out += 1
        for observer in observers:
            observer(WaveStarted(1, [outcome.move for outcome in self.outcomes.outcomes]))
        if self.failure:
            raise self.failure
        for observer in observers:
            observer(RunFinished(self.outcomes))
        return self.plan, self.outcomes


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> FakePipeline:
    fake = FakePipeline()
    monkeypatch.setattr("rebalancer.run.plan.make_plan", fake.make_plan)
    monkeypatch.setattr("rebalancer.run.plan.make_plan_and_snapshot", fake.make_plan_and_snapshot)
    monkeypatch.setattr("rebalancer.run.run.run", fake.run)
    return fake
