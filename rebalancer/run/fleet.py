"""What commands do with a fleet: the same question to each cluster, a few side by side.

Clusters are read by threads, because a live one is mostly waited for; no more than four are held in memory at
once. One that cannot be read is a row with its error, and the others are answered all the same.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from rebalancer import files
from rebalancer.cluster.dumps.listing import build_decoders
from rebalancer.errors import ExitCode, InputError, InternalError, RebalancerError
from rebalancer.observe.plan_options import PlanOptions
from rebalancer.observe.read import policy_of
from rebalancer.planning.eviction import why_protected
from rebalancer.planning.inputs import PlanningInputs
from rebalancer.planning.plan import Plan
from rebalancer.planning.planner import plan_prepared, prepare_to_plan
from rebalancer.planning.prepared import PreparedInputs
from rebalancer.planning.strategies.consolidation.nodes import NodesToEmpty
from rebalancer.planning.strategies.consolidation.report import least_nodes
from rebalancer.reporting.tables.fleet import ClusterRow, Fleet
from rebalancer.run.plan import plan_inputs

MAX_CLUSTERS = 2000
_SIDE_BY_SIDE = 4
_WILDCARDS = frozenset("*?[")

Answer = TypeVar("Answer")
Cluster = tuple[str, PlanOptions]  # its name, and how it is read


def clusters_of(options: PlanOptions, contexts: Sequence[str]) -> tuple[Cluster, ...]:
    """The clusters that several contexts name, or the pattern of a path; none where one cluster is meant.

    A recorded cluster is named by the part of its path that the pattern leaves open: ``fleet/*/dump`` calls
    ``fleet/eu/dump`` ``eu/dump``. InputError where a pattern matches nothing, or too much.
    """
    contexts = list(dict.fromkeys(contexts))
    if len(contexts) > 1:
        policy_of(options)  # a mistake in it is one error, and not one of each cluster
        return tuple((name, replace(options, context=name)) for name in contexts)
    pattern = str(options.source) if options.source is not None else ""
    if not _WILDCARDS.intersection(pattern) or files.is_there(Path(pattern)):
        return ()
    found = sorted(glob.glob(pattern))  # noqa: PTH207 - the pattern may be absolute
    if not 0 < len(found) <= MAX_CLUSTERS:
        wrong = f"matches more than {MAX_CLUSTERS} clusters" if found else "matches nothing"
        raise InputError(wrong, where=pattern[:200], hint="give a pattern such as --from 'recorded/*'")
    policy_of(options)
    fixed = Path(pattern)
    while _WILDCARDS.intersection(str(fixed)):
        fixed = fixed.parent
    return tuple((str(Path(path).relative_to(fixed)), replace(options, source=Path(path))) for path in found)


def ask_each(
    clusters: Sequence[Cluster],
    ask: Callable[[str, PlanOptions], Answer],
    failed: Callable[[str, RebalancerError], Answer],
    advance: Callable[[str], None],
) -> Iterator[Answer]:
    """What ``ask`` finds of each cluster, or what ``failed`` makes of its error, in their order."""

    def asked(cluster: Cluster) -> Answer:
        name, options = cluster
        try:
            return ask(name, options)
        except RebalancerError as error:
            return failed(name, error)
        except Exception as error:  # noqa: BLE001 - a defect that one cluster shows hides no other cluster
            return failed(name, InternalError(f"{type(error).__name__}: {error}", hint="please report"))

    # What is imported and built on the way to the first answer is not safe to be built by several threads.
    build_decoders()
    threads = ThreadPoolExecutor(_SIDE_BY_SIDE, "cluster")
    try:
        for part in (clusters[:1], clusters[1:]):
            for (name, _), answer in zip(part, threads.map(asked, part), strict=True):
                advance(name)
                yield answer
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def joined(rows: Sequence[ClusterRow]) -> Fleet:
    """The fleet, and the one exit code: that of its clusters where they agree, else 4 for partly done."""
    codes = {row.exit_code for row in rows}
    code = codes.pop() if len(codes) == 1 else int(ExitCode.PARTLY_DONE)
    return Fleet(clusters=tuple(rows), failed=sum(bool(row.error) for row in rows), exit_code=code)


def failed_rows(name: str, error: RebalancerError) -> list[ClusterRow]:
    """The row of a cluster that could not be read."""
    return [ClusterRow(cluster=name, error=str(error), exit_code=int(error.exit_code))]


def planned_row(
    name: str, options: PlanOptions, answer: Callable[[PlanningInputs, Plan], Any] | None
) -> ClusterRow:
    """A cluster and its plan in a row; ``answer`` is added for programs."""
    inputs = plan_inputs(options)
    prepared = prepare_to_plan(inputs)
    plan = plan_prepared(prepared)
    held = plan.obstacles[0] if plan.obstacles else None
    return ClusterRow(
        cluster=name,
        policy=plan.policy,
        nodes=plan.node_count,
        pods=plan.pod_count,
        hot=plan.hot_count,
        movable=sum(1 for pod in prepared.bound_pods() if why_protected(prepared.eviction, pod) is None),
        emptiable=_emptiable(prepared),
        moves=len(plan.moves),
        held_by=held.setting if held else "",
        held_share=held.share if held else 0.0,
        minor=inputs.scheduler.version,
        answer=UNSET if answer is None else answer(inputs, plan),
    )


def _emptiable(prepared: PreparedInputs) -> int:
    """Nodes in use, less the fewest that hold all requests: no plan empties more."""
    used = NodesToEmpty(prepared, {}, 0.0, lambda _: "").count > 0
    state = prepared.state
    room = np.maximum(state.classes.allocatable[:, :2], 1).astype(np.float64)
    return max(int(used.sum()) - least_nodes(state.requested[:, :2].sum(axis=0), room[used]), 0)
