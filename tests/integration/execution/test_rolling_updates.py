"""The only pod of a Deployment is moved by a rolling update, and serves until its successor does."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rebalancer.errors import ExitCode
from rebalancer.planning.plan import RESTART, Move
from rebalancer.state.results import Result
from rebalancer_demo import Sandbox
from tests.integration.demo.builders import StillClock, a_node
from tests.integration.demo.test_rollouts import a_deployment
from tests.integration.execution.cluster import NODES, Runner, a_move_of, running


def restarting(sandbox: Sandbox) -> Move:
    move = a_move_of(sandbox, "web-1-0", to=("cool", "other"))
    pod = replace(move.pod, workload="Deployment/web", workload_uid="deploy-web")
    return replace(move, pod=pod, action=RESTART)


def a_cluster(**options: Any) -> Sandbox:
    nodes = [a_node(name, cpu="16") for name in NODES]
    workload = [item for item in a_deployment(1, node="hot") if item["kind"] != "Node"]
    timing = {"clock": StillClock(), "ready_after": 0.02, "terminates_after": 0.02}
    return Sandbox([*nodes, *workload], **{**timing, **options})


def settled(runner: Runner) -> None:
    def is_counted() -> bool:
        item = runner.sandbox.store.get("deployments", "shop", "web")
        return item is not None and (item.get("status") or {}).get("availableReplicas") == 1

    assert runner.sandbox.wait_until(is_counted)


def test_a_rolling_update_moves_the_pod() -> None:
    with running(a_cluster()) as runner:
        settled(runner)
        outcomes = runner.run(restarting(runner.sandbox))
        left = runner.sandbox.pods("shop", node="hot")
    assert [item.result for item in outcomes.outcomes] == [Result.RESTARTED]
    assert outcomes.exit_code == ExitCode.DONE
    assert left == []


def test_an_update_that_does_not_get_on_leaves_the_old_pod_serving() -> None:
    with running(a_cluster(ready_after=None)) as runner:
        settled(runner)
        outcomes = runner.run(restarting(runner.sandbox), timeout=60)
        pods = {pod["metadata"]["name"] for pod in runner.sandbox.pods("shop", node="hot")}
    assert [item.result for item in outcomes.outcomes] == [Result.ROLLOUT_STALLED]
    assert "the old pod still serves on hot" in outcomes.outcomes[0].because
    assert outcomes.exit_code == ExitCode.STOPPED
    assert pods == {"web-1-0"}
