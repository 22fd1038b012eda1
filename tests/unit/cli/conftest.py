from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

import rebalancer.pipeline
from rebalancer.cli.main import main
from rebalancer.execution.outcomes import Outcomes
from rebalancer.pipeline.options import PipelineOptions, RunOptions
from rebalancer.planning.plan import NodeReport, Plan
from tests.unit.reporting.builders import a_plan, an_outcome, some_outcomes

Program = Callable[..., Result]


@pytest.fixture
def rebalancer_program() -> Program:
    """Runs the program in this process, as a shell would."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, list(arguments))

    return run


@dataclass
class FakePlanResult:
    plan: Plan
    nodes: tuple[NodeReport, ...]


@dataclass
class FakePipeline:
    """Stands in for the stages: notes what it was asked, answers what the test wants."""

    plan: Plan = field(default_factory=a_plan)
    outcomes: Outcomes = field(default_factory=lambda: some_outcomes(an_outcome()))
    failure: BaseException | None = None
    asked: list[PipelineOptions] = field(default_factory=list)
    run_asked: list[RunOptions] = field(default_factory=list)

    def make_plan(self, options: PipelineOptions) -> FakePlanResult:
        self.asked.append(options)
        options.progress("pods")
        if self.failure:
            raise self.failure
        return FakePlanResult(self.plan, self.plan.nodes)

    def run(
        self,
        options: PipelineOptions,
        run_options: RunOptions,
        observer: Any,
        planned: Callable[[Plan], None],
    ) -> tuple[Plan, Outcomes]:
        self.asked.append(options)
        self.run_asked.append(run_options)
        planned(self.plan)
        observer.wave_started(1, [outcome.move for outcome in self.outcomes.outcomes])
        if self.failure:
            raise self.failure
        observer.finished(self.outcomes)
        return self.plan, self.outcomes


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> FakePipeline:
    fake = FakePipeline()
    module: Any = ModuleType("rebalancer.pipeline.running")
    module.make_plan, module.run = fake.make_plan, fake.run
    monkeypatch.setitem(sys.modules, "rebalancer.pipeline.running", module)
    monkeypatch.setattr(rebalancer.pipeline, "running", module, raising=False)
    return fake
