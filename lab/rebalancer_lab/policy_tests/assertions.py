"""What a policy must do on a recorded cluster, written down so that a CI can hold every change to it.

    mustMove: [deployment/shop/api]     at least one pod of it is moved
    mustStay: [shop/db-*]               no pod with such a name is moved
    maxEvictions: 10
    relievedNodes: [node-2]               hot now, and no longer hot after the plan

A pattern that matches nothing fails: the recording or the name is another one than was meant, and an
assertion about nothing would hold for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from rebalancer.cluster.arrays import PodRow
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.documents import parse
from rebalancer.documents.models import validate
from rebalancer.errors import InputError
from rebalancer.planning.explanation import verdict_of
from rebalancer.planning.plan import API_VERSION, UNKNOWN_NODE, NodeReport, Plan, Value
from rebalancer.planning.subjects import parse_subject
from rebalancer.planning.workloads.lookup import Workloads
from rebalancer.policy.model import PolicyModel, Unique

_MAX_PATTERN_LENGTH = 512
_SHOWN = 3


def _names_pods(pattern: str) -> str:
    """The pattern, where it is NAMESPACE/NAME or KIND/NAMESPACE/NAME; ValueError for any other."""
    if pattern.count("/") == 2:
        try:
            kind = parse_subject(pattern).kind
        except InputError as error:
            raise ValueError(error.message) from error
        if kind == "node":
            raise ValueError("a node has no namespace")
    elif pattern.count("/") != 1:
        raise ValueError("should be NAMESPACE/NAME or KIND/NAMESPACE/NAME")
    return pattern


Pattern = Annotated[str, StringConstraints(min_length=1, max_length=_MAX_PATTERN_LENGTH)]
PodPatterns = Annotated[tuple[Annotated[Pattern, AfterValidator(_names_pods)], ...], Unique]
NodePatterns = Annotated[tuple[Pattern, ...], Unique]


class PolicyTest(PolicyModel):
    """Assertions about the plan that a policy makes of a cluster."""

    api_version: Literal["rebalancer/v1alpha1"]
    kind: Literal["PolicyTest"]
    clusters: NodePatterns = Field(
        default=(), description="Names of the clusters that this is about; by default all that are read."
    )
    must_move: PodPatterns = Field(
        default=(), description="Pods or workloads of which at least one pod is moved."
    )
    must_stay: PodPatterns = Field(default=(), description="Pods or workloads of which no pod is moved.")
    max_evictions: int | None = Field(default=None, ge=0, description="The plan has at most so many moves.")
    min_evictions: int | None = Field(default=None, ge=0, description="The plan has at least so many moves.")
    hot_nodes: NodePatterns = Field(default=(), description="Nodes that are hot before the plan.")
    cool_nodes: NodePatterns = Field(default=(), description="Nodes that are not hot before the plan.")
    relieved_nodes: NodePatterns = Field(
        default=(), description="Nodes that are hot before the plan, and no longer after it."
    )

    @model_validator(mode="after")
    def _asserts_something(self) -> Self:
        asserting = self.model_fields_set - {"api_version", "kind", "clusters"}
        if not any(getattr(self, name) not in ((), None) for name in asserting):
            raise ValueError("asserts nothing")
        return self

    def is_about(self, cluster: str) -> bool:
        """Whether these assertions are meant for the cluster of this name."""
        return not self.clusters or any(fnmatchcase(cluster, pattern) for pattern in self.clusters)


class Assertion(Value, frozen=True):
    """One assertion, whether it holds, and why not."""

    assertion: str  # e.g. mustMove: shop/api-*
    holds: bool
    because: str = ""  # what the plan does instead


class PolicyTestReport(Value, frozen=True):
    """The assertions of one file about the plan of one cluster."""

    file: str
    source: str
    policy: str
    inputs: str
    assertions: tuple[Assertion, ...] = ()
    cluster: str = ""  # its name, where several are read
    error: str = ""  # why it could not be read, and nothing was asked
    api_version: str = API_VERSION
    kind: str = "PolicyTestReport"

    @property
    def failed(self) -> int:
        """How many assertions do not hold."""
        return sum(1 for assertion in self.assertions if not assertion.holds)


def parse_policy_test(text: str, source: str) -> PolicyTest:
    """The assertions in a text; InputError with file:line:column for anything else."""
    document = parse(text, source)
    if not isinstance(document.value, dict):
        raise document.error((), "is not a PolicyTest", hint="write kind: PolicyTest")
    if document.value.get("kind") == "RebalancePolicy":
        raise document.error(
            ("kind",), "is RebalancePolicy, not PolicyTest", hint="a policy is named with --policy"
        )
    return validate(PolicyTest, document)


def check_plan(test: PolicyTest, file: str, plan: Plan, snapshot: Snapshot) -> PolicyTestReport:
    """Hold a plan to assertions."""
    return PolicyTestReport(
        file=file,
        source=plan.source,
        policy=plan.policy,
        inputs=plan.inputs,
        assertions=tuple(_Checks(plan, snapshot).all(test)),
    )


class _Checks:
    def __init__(self, plan: Plan, snapshot: Snapshot) -> None:
        self._plan = plan
        self._snapshot = snapshot
        self._workloads = Workloads(snapshot)
        self._moved = {move.pod.uid for move in plan.moves}

    def all(self, test: PolicyTest) -> Iterator[Assertion]:
        yield from self._of_pods("mustMove", test.must_move, stay=False)
        yield from self._of_pods("mustStay", test.must_stay, stay=True)
        moves = len(self._plan.moves)
        max_evictions = test.max_evictions
        min_evictions = test.min_evictions
        if max_evictions is not None:
            yield _assertion(
                f"maxEvictions: {max_evictions}", moves <= max_evictions, f"the plan has {moves}"
            )
        if min_evictions is not None:
            yield _assertion(
                f"minEvictions: {min_evictions}", moves >= min_evictions, f"the plan has {moves}"
            )
        yield from self._nodes("hotNodes", test.hot_nodes, _why_not_hot)
        yield from self._nodes("coolNodes", test.cool_nodes, _why_not_cool)
        yield from self._nodes("relievedNodes", test.relieved_nodes, _why_not_relieved)

    def _of_pods(self, field: str, patterns: Iterable[str], *, stay: bool) -> Iterator[Assertion]:
        for pattern in patterns:
            pods = self._pods(pattern)
            moved = [pod for pod in pods if self._snapshot.pods.uids[pod] in self._moved]
            if stay:
                wrong = moved
            else:
                wrong = [] if moved else pods
            because = "matches no pod of the cluster"
            if pods:
                because = _some(map(self._fate, wrong), len(wrong))
            yield _assertion(f"{field}: {pattern}", bool(pods) and not wrong, because)

    def _fate(self, pod: PodRow) -> str:
        pods = self._snapshot.pods
        node = int(self._snapshot.pods.node[pod])
        name = self._snapshot.nodes.names[node] if node >= 0 else ""
        code, because = verdict_of(self._plan, pods.uids[pod], name)
        return f"{pods.full_name(pod)}: {code}, {because}"

    def _pods(self, pattern: str) -> list[PodRow]:
        """The pods that ``NAMESPACE/NAME`` or ``KIND/NAMESPACE/NAME`` names; * and ? stand for anything."""
        pods = self._snapshot.pods
        kind = "pod"
        name = pattern
        if pattern.count("/") == 2:
            kind = parse_subject(pattern).kind
            name = pattern.partition("/")[2]
        name_pattern = name if kind == "pod" else f"/{kind}/".join(name.split("/"))

        def names(row: PodRow) -> tuple[str, ...]:
            """Its own, or those of its controller and of the workload that this one belongs to."""
            owner = pods.class_of(row).owner
            of_owner = f"{pods.namespaces[row]}/{owner.kind}/{owner.name}"
            return (pods.full_name(row),) if kind == "pod" else (self._workloads.of(row).key, of_owner)

        def is_named(row: PodRow) -> bool:
            return any(fnmatchcase(name, name_pattern) for name in names(row))

        return [row for row in map(PodRow, range(len(pods))) if is_named(row)]

    def _nodes(
        self, field: str, patterns: Iterable[str], why_not: Callable[[NodeReport], str]
    ) -> Iterator[Assertion]:
        for pattern in patterns:
            nodes = [node for node in self._plan.nodes if fnmatchcase(node.name, pattern)]
            wrong = [f"{node.name} {why}" for node in nodes if (why := why_not(node))]
            because = _some(wrong, len(wrong)) if nodes else "matches no node of the cluster"
            yield _assertion(f"{field}: {pattern}", bool(nodes) and not wrong, because)


def _some(items: Iterable[str], count: int) -> str:
    """The first of several, and how many more there are."""
    more = f"; and {count - _SHOWN} more" if count > _SHOWN else ""
    return "; ".join(islice(items, _SHOWN)) + more


def _why_not_hot(node: NodeReport) -> str:
    return "" if node.hot else _why_not_cool(node) or "is not hot"


def _why_not_cool(node: NodeReport) -> str:
    if node.hot:
        return f"is hot: {'; '.join(node.because)}"
    unknown = next((reason for reason in node.because if reason.endswith(UNKNOWN_NODE)), "")
    return f"is not known: {unknown}" if unknown else ""


def _why_not_relieved(node: NodeReport) -> str:
    if not node.hot:
        return _why_not_cool(node) or "is not hot before the plan"
    return "stays hot" if node.after is None or node.after.hot else ""


def _assertion(title: str, holds: bool, because: str) -> Assertion:
    return Assertion(assertion=title, holds=holds, because="" if holds else because)
