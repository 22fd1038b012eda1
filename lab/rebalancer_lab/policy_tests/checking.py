"""Reads assertions and clusters, and holds plans to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from rebalancer.documents import read_text
from rebalancer.errors import InputError, RebalancerError
from rebalancer.files import named
from rebalancer.observe.plan_options import PlanOptions, policy_of
from rebalancer.run.plan import make_plan_and_snapshot
from rebalancer_lab.policy_tests.assertions import (
    PolicyTest,
    PolicyTestReport,
    check_plan,
    parse_policy_test,
)

Tests = Sequence[tuple[str, PolicyTest]]  # by file


def read_tests(files: Sequence[Path], clusters: Sequence[str]) -> Tests:
    """The assertions of each file; InputError where one is about none of the clusters."""
    tests = [(named(file), parse_policy_test(read_text(file), str(file))) for file in files]
    for file, test in tests:
        if not any(test.is_about(cluster) for cluster in clusters):
            names = ", ".join(clusters[:5])
            raise InputError(f"clusters: matches none of {names}"[:200], where=file)
    return tests


def check_policy(options: PlanOptions, tests: Tests, cluster: str) -> tuple[PolicyTestReport, ...]:
    """Hold the plan of the options' policy to the assertions about a cluster."""
    policy_of(options)  # a mistake in it is found before the cluster is read
    plan, snapshot = make_plan_and_snapshot(options)
    about = [(file, test) for file, test in tests if test.is_about(cluster)]
    return tuple(replace(check_plan(test, file, plan, snapshot), cluster=cluster) for file, test in about)


def not_read(name: str, error: RebalancerError) -> tuple[PolicyTestReport, ...]:
    """The report of a cluster that could not be read."""
    return (PolicyTestReport(file="", source="", policy="", inputs="", cluster=name, error=str(error)),)
