"""``rebalancer pause`` stops runs that share a Lease, and ``rebalancer resume`` lets them go on."""

from __future__ import annotations

from click.testing import CliRunner, Result

from rebalancer.cli.program import main
from rebalancer.errors import ExitCode
from tests.integration.running.hot_clusters import LANDED, HotCluster, cluster, results

__all__ = ["cluster"]


def told(cluster: HotCluster, *words: str) -> Result:
    kubeconfig = cluster.sandbox.write_kubeconfig(cluster.folder / "kubeconfig")
    return CliRunner().invoke(main, [*words, "--kubeconfig", str(kubeconfig)])


def test_a_pause_before_the_first_run_holds_until_runs_are_let_go_on(cluster: HotCluster) -> None:
    paused = told(cluster, "pause", "incident 42")
    sentence = "runs are paused by the lease rebalancer/rebalancer ('incident 42'); rebalancer resume lets"
    assert (paused.exit_code, paused.stdout.startswith(sentence)) == (0, True), paused.stderr
    for _ in range(2):  # a run leaves the pause as it is
        result, outcomes = cluster.run()
        assert (result.exit_code, cluster.evicted()) == (ExitCode.STOPPED, 0)
        assert outcomes["stopped"].startswith(sentence)
    assert set(results(outcomes)) == {"Skipped"}

    resumed = told(cluster, "resume")
    assert resumed.stdout == (
        f"runs with the lease rebalancer/rebalancer may evict at {cluster.sandbox.url}\n"
    )
    assert told(cluster, "resume").stdout.startswith("they were not paused: ")
    result, outcomes = cluster.run()
    assert result.exit_code == ExitCode.DONE, result.stderr
    assert set(results(outcomes)) <= LANDED


def test_a_pause_is_of_the_lease_that_is_named(cluster: HotCluster) -> None:
    paused = told(cluster, "pause", "why", "--lease=kube-system/blue")
    assert "rebalancer resume --lease kube-system/blue" in paused.stdout
    result, _ = cluster.run("--lease=kube-system/blue")
    assert result.exit_code == ExitCode.STOPPED
    result, _ = cluster.run()
    assert result.exit_code == ExitCode.DONE, result.stderr


def test_a_lease_in_a_namespace_that_does_not_exist_is_refused(cluster: HotCluster) -> None:
    paused = told(cluster, "pause", "why", "--lease=nowhere/blue")
    assert paused.exit_code == ExitCode.BAD_INPUT
    assert "namespace 'nowhere' does not exist" in paused.stderr
