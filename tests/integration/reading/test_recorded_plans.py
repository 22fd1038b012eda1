"""What is observed of a live cluster and recorded gives the plan of the live cluster, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from rebalancer.cluster.dumps.writer import save
from rebalancer.observe.plan_options import PlanOptions, open_api, policy_of
from rebalancer.observe.read import observe, read_planners
from rebalancer.observe.recorded import documents_of
from rebalancer.planning.assemble import assemble
from rebalancer.planning.plan import Plan, encode
from rebalancer.planning.planner import Planner
from rebalancer.state.run_state import RunState
from rebalancer_demo.hot_cluster import POLICY
from tests.conftest import some_of
from tests.integration.running.hot_clusters import HotCluster, cluster

__all__ = ["cluster"]
NOBODY = "http://load-watcher.nowhere:2020"
BY_METRICS = "load: {sources: [{metricsServer: {}}], minCoverage: 10%}\n"
BY_NOBODY = f'load: {{sources: [{{loadWatcher: {{address: "{NOBODY}"}}}}, {{metricsServer: {{}}}}]}}\n'
BY_REQUESTS = "load: {sources: [{requests: {}}]}\nhotNodes: {forRuns: 2}\n"
HEAD = "apiVersion: rebalancer/v1alpha1\nkind: RebalancePolicy\n"


@pytest.fixture
def options(cluster: HotCluster) -> PlanOptions:
    kubeconfig = cluster.sandbox.write_kubeconfig(cluster.folder / "kubeconfig")
    return PlanOptions(policy_path=cluster.folder / "policy.yaml", kubeconfig=kubeconfig)


@pytest.mark.many_cases
@pytest.mark.parametrize("policy", some_of([POLICY, HEAD + BY_METRICS, HEAD + BY_NOBODY, HEAD + BY_REQUESTS]))
def test_a_live_plan_is_made_again_from_its_recording(
    cluster: HotCluster, options: PlanOptions, tmp_path: Path, policy: str
) -> None:
    made_twice(cluster, options, tmp_path, policy)


def made_twice(cluster: HotCluster, options: PlanOptions, tmp_path: Path, policy: str) -> Plan:
    """The plan of the live cluster, which that of its recording is compared with."""
    (cluster.folder / "policy.yaml").write_text(policy)
    loaded, state = policy_of(options), RunState(hot_streaks={"node-1": 1})
    environment = {"POD_NAMESPACE": "ops", "POD_NAME": "rebalancer-1"}
    observation = observe(options, (loaded,), open_api(options), environment=environment)
    live = Planner(assemble(observation, loaded, state)).plan()

    documents = documents_of(observation, state)
    recording = replace(observation.snapshot.recording, documents=documents)
    save(recording, tmp_path / "recorded", observation.now)
    offline = replace(options, source=tmp_path / "recorded", kubeconfig=None)
    (planner,) = read_planners(offline, (loaded,), None, None)
    again = planner.plan()

    assert again.inputs == live.inputs
    assert encode(replace(again, source=live.source)) == encode(live)
    return live


def test_one_reading_serves_several_policies(
    cluster: HotCluster, options: PlanOptions, tmp_path: Path
) -> None:
    policies = []
    for number, text in enumerate((HEAD + BY_METRICS, HEAD + BY_NOBODY)):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        policies.append(policy_of(replace(options, policy_path=path)))
    api = open_api(options)

    together = [planner.inputs for planner in read_planners(options, policies, api, None)]

    assert together[0].snapshot is together[1].snapshot
    assert together[0].now == together[1].now
    asked = [any(NOBODY in item.sentence for item in inputs.warnings) for inputs in together]
    assert asked == [False, True]
