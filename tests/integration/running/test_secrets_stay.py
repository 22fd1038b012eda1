"""Secrets are seeded wherever a cluster and a policy can hold one, and looked for in all that is written."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner

from rebalancer.cli.program import main
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.dumps.writer import digest
from rebalancer_demo import Sandbox
from rebalancer_demo.hot_cluster import (
    CONFIGURATION,
    POLICY,
    WATCHER_ADDRESS,
    WATCHER_NAMESPACE,
    WATCHER_PORT,
    WATCHER_SERVICE,
    hot_cluster,
)
from tests.waiting import present

CANARY = "canary-7f3a"

SECRETS_IN_THE_CONFIGURATION = CONFIGURATION.replace(
    f"      watcherAddress: {WATCHER_ADDRESS}\n",
    f"      watcherAddress: {WATCHER_ADDRESS}\n"
    f"      metricProvider: {{type: Prometheus, address: 'http://127.0.0.1:9', token: {CANARY}-token}}\n",
) + (f"clientConnection: {{kubeconfig: /etc/{CANARY}-kubeconfig}}\n# password: {CANARY}-comment\n")
WITH_AN_EXTENDER = SECRETS_IN_THE_CONFIGURATION + (
    "extenders:\n"
    f"- urlPrefix: https://user:{CANARY}-password@extender.example\n"
    "  filterVerb: filter\n"
    f"  tlsConfig: {{keyData: {CANARY}-key}}\n"
)
PROMETHEUS = {
    "address": "http://127.0.0.1:9",
    "basicAuth": {"username": "reader", "passwordFile": "password"},
}


def seeded(value: Any, key: str = "") -> Any:
    """A pod's template with a secret in each place that Kubernetes has for one."""
    if isinstance(value, dict):
        found = {name: seeded(item, name) for name, item in value.items()}
        if key == "metadata":
            annotation = f'{{"env":[{{"name":"PASSWORD","value":"{CANARY}-applied"}}]}}'
            found["annotations"] = {
                **found.get("annotations", {}),
                "kubectl.kubernetes.io/last-applied-configuration": annotation,
                "example.com/token": f"{CANARY}-annotation",
            }
        return found
    if isinstance(value, list):
        items = [seeded(item, key) for item in value]
        if key == "containers":
            for item in items:
                item["env"] = [{"name": "DATABASE_PASSWORD", "value": f"{CANARY}-env"}]
                item["args"] = [f"--token={CANARY}-argument"]
                item["command"] = ["serve", f"https://bob:{CANARY}-url@db"]
        return items
    return value


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Sandbox]:
    objects = [seeded(item) for item in hot_cluster(present())]
    for item in objects:
        if item["kind"] == "ConfigMap":
            item["data"] = {"scheduler-config.yaml": SECRETS_IN_THE_CONFIGURATION}
    (tmp_path / "password").write_text(f"{CANARY}-basic")
    (tmp_path / "policy.yaml").write_text(POLICY)
    with Sandbox(objects, ready_after=0.0, terminates_after=0.0) as sandbox:
        watcher = sandbox.watcher(lag_seconds=60.0)
        sandbox.serve(WATCHER_NAMESPACE, WATCHER_SERVICE, WATCHER_PORT, "watcher", watcher)
        sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        yield sandbox


def words_written(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file that commands wrote, unpacked."""
    given = {"policy.yaml", "inline.yaml", "kubeconfig", "password"}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in given:
            content = path.read_bytes()
            if path.suffix == ".zst":
                content = zstandard.ZstdDecompressor().stream_reader(content).read()
            yield path.name, content


def test_no_secret_of_a_cluster_or_a_policy_is_ever_written(
    cluster: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inline = tmp_path / "inline.yaml"
    written = {"apiVersion": "rebalancer/v1alpha1", "kind": "RebalancePolicy"}
    load = {"sources": [{"metricsServer": {}}, {"prometheus": PROMETHEUS}]}
    inline.write_text(json.dumps({**written, "scheduler": {"inline": WITH_AN_EXTENDER}, "load": load}))
    live = ("--policy", "policy.yaml", "--kubeconfig", "kubeconfig")
    commands: list[tuple[str, ...]] = [
        ("snapshot", "save", "recording", *live),
        ("snapshot", "save", "again", "--from", "recording"),
        ("snapshot", "info", "recording", "-o", "json"),
        *(("plan", *live, "-o", output, "--all") for output in ("table", "json", "yaml")),
        *(("nodes", *live, "-o", output, "--all") for output in ("table", "json")),
        ("plan", "--policy", "inline.yaml", "--kubeconfig", "kubeconfig", "-o", "json"),
        ("explain", "node/node-1", *live),
        ("policy", "show", "inline.yaml"),
        ("policy", "show", "inline.yaml", "-o", "json"),
        ("policy", "validate", "inline.yaml"),
        ("-v", "run", *live, "--dry-run", "--journal", "dry.jsonl"),
        ("-v", "--log-format", "json", "run", *live, "--journal", "journal.jsonl", "--state", "state.json",
         "--yes", "--metrics-textfile", "metrics.prom", "-o", "json"),
    ]  # fmt: skip
    found: list[tuple[str, bytes]] = []
    for command in commands:
        result = CliRunner().invoke(main, command)
        assert result.exit_code in (0, 2, 3, 4, 6), (command, result.output)
        found.append((" ".join(command), result.output.encode()))
    found += words_written(tmp_path)
    found.append(("events", json.dumps(cluster.store.all("events")).encode()))

    assert {"recording.json", "scheduler-config.yaml", "journal.jsonl"} <= {name for name, _ in found}
    leaks = [
        (name, content[content.find(b"canary") - 60 :][:120])
        for name, content in found
        if b"canary" in content
    ]
    assert not leaks
    assert "token: REDACTED" in (tmp_path / "recording" / "scheduler-config.yaml").read_text()


def test_a_recording_is_readable_by_its_owner_only(cluster: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "recording"
    result = CliRunner().invoke(
        main, ["snapshot", "save", str(folder), "--kubeconfig", str(tmp_path / "kubeconfig")]
    )

    assert result.exit_code == 0, result.output
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_recording_has_the_digest_of_the_cluster_that_was_recorded(
    cluster: Sandbox, tmp_path: Path
) -> None:
    policy, kubeconfig = str(tmp_path / "policy.yaml"), str(tmp_path / "kubeconfig")
    live, recorded = ["--kubeconfig", kubeconfig, "--policy", policy], ["--from", str(tmp_path / "a")]
    for name, source in (("a", live), ("b", recorded)):
        assert CliRunner().invoke(main, ["snapshot", "save", str(tmp_path / name), *source]).exit_code == 0

    assert digest(DumpReader(tmp_path / "a").read()) == digest(DumpReader(tmp_path / "b").read())
