"""The rights in k8s/ suffice: what the CronJobs start, against a cluster that grants those and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rebalancer.cli.program import main
from rebalancer_demo import Rule, Sandbox, User
from rebalancer_demo.hot_cluster import POLICY, WATCHER_NAMESPACE, WATCHER_PORT, WATCHER_SERVICE, hot_cluster
from tests.unit.manifests.documents import ACTIVE, BASE, Document, grants, of_kind, pod_template, read, rules
from tests.waiting import present

TOKEN = "cronjob"


def user(*, active: bool) -> User:
    """The service account with the roles bound to it, as far as the sandbox tells rights apart."""
    found = [(rules(BASE), "*")]
    if active:
        found += [(rules(ACTIVE), "*"), (rules(ACTIVE, "Role"), "rebalancer")]
    # Inside a cluster the CronJob asks load-watcher itself; the sandbox has no network but the service proxy.
    network = Rule(frozenset({"get"}), frozenset({"services/proxy"}), frozenset({WATCHER_NAMESPACE}))
    return User(
        "system:serviceaccount:rebalancer:rebalancer",
        (
            network,
            *(
                Rule(frozenset({verb}), frozenset({resource}), frozenset({namespace}))
                for granted, namespace in found
                for _, resource, verb, _ in grants(granted)
            ),
        ),
    )


@contextmanager
def a_cluster(*, active: bool) -> Iterator[Sandbox]:
    with Sandbox(
        hot_cluster(present()), users={TOKEN: user(active=active)}, ready_after=0.0, terminates_after=0.0
    ) as sandbox:
        sandbox.serve(WATCHER_NAMESPACE, WATCHER_SERVICE, WATCHER_PORT, "watcher", sandbox.watcher())
        yield sandbox


def start(cron_job: Document, sandbox: Sandbox, folder: Path) -> Result:
    """What the CronJob's pod would do."""
    policy = folder / "policy.yaml"
    policy.write_text(POLICY)
    kubeconfig = sandbox.write_kubeconfig(folder / "kubeconfig", token=TOKEN)
    (container,) = pod_template(cron_job)["containers"]
    arguments = [
        f"--policy={policy}" if argument.startswith("--policy=") else argument
        for argument in container["args"]
    ]
    # With the account of its own pod a run needs no --yes.
    instead = ["--kubeconfig", str(kubeconfig), *(["--yes"] if "run" in arguments else [])]
    return CliRunner().invoke(main, [*arguments, *instead])


def refusals(result: Result) -> list[str]:
    return [line for line in result.stderr.splitlines() if "forbidden" in line.lower()]


@pytest.fixture
def base_job() -> Document:
    return of_kind(BASE, "CronJob")


def test_the_rights_of_the_base_suffice_to_plan(base_job: Document, tmp_path: Path) -> None:
    with a_cluster(active=False) as sandbox:
        result = start(base_job, sandbox, tmp_path)
    plan = json.loads(result.stdout)

    assert (result.exit_code, refusals(result)) == (0, [])
    assert plan["moves"]
    assert not [warning for warning in plan["warnings"] if "not read" in warning]


@pytest.mark.parametrize("active", [False, True], ids=["base", "active"])
def test_whatever_a_cron_job_writes_is_a_line_of_json(
    base_job: Document, active: bool, tmp_path: Path
) -> None:
    with a_cluster(active=active) as sandbox:
        result = start(read(ACTIVE / "cronjob-run.yaml") if active else base_job, sandbox, tmp_path)
    lines = [*result.stdout.splitlines(), *result.stderr.splitlines()]

    assert json.loads(result.stdout)["kind"] == ("Outcomes" if active else "Plan")
    assert [line for line in lines if not isinstance(json.loads(line), dict)] == []


def test_the_rights_of_the_overlay_suffice_to_act(tmp_path: Path) -> None:
    with a_cluster(active=True) as sandbox:
        result = start(read(ACTIVE / "cronjob-run.yaml"), sandbox, tmp_path)
        events = [item for item in sandbox.store.all("events") if item["reason"] == "Rebalanced"]
        kept = sandbox.store.get("configmaps", "rebalancer", "rebalancer-state")
        lease = sandbox.store.get("leases", "rebalancer", "rebalancer")
    outcomes = json.loads(result.stdout)["outcomes"]

    assert refusals(result) == []
    assert [outcome for outcome in outcomes if outcome["evictedAt"]]
    assert events
    assert kept is not None
    assert lease is not None


def test_without_the_overlay_nothing_can_be_evicted(tmp_path: Path) -> None:
    with a_cluster(active=False) as sandbox:
        before = {pod["metadata"]["uid"] for pod in sandbox.pods()}
        result = start(read(ACTIVE / "cronjob-run.yaml"), sandbox, tmp_path)
        after = {pod["metadata"]["uid"] for pod in sandbox.pods()}

    assert result.exit_code == 5
    assert after == before
