"""A generated cluster in an API server, and reading it against curl."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from click.testing import CliRunner

from bench import cluster, reading
from bench.loading import Etcd, Loader, Server
from rebalancer_demo import Sandbox


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[tuple[Sandbox, Path]]:
    with Sandbox(controllers=False) as sandbox:
        kubeconfig = sandbox.write_kubeconfig(tmp_path / "kubeconfig")
        kinds = cluster.generate(5, 40)
        counts = Loader(Server(kubeconfig, 4), 4).load(kinds)
        assert counts["nodes"] == 5
        assert 30 <= counts["pods"] <= 40
        yield sandbox, kubeconfig


def test_what_is_loaded_runs_where_it_was_generated_and_belongs_to_its_controller(
    loaded: tuple[Sandbox, Path],
) -> None:
    sandbox, _ = loaded
    generated = {pod["metadata"]["name"]: pod for pod in cluster.generate(5, 40)["pods"]}
    pods = sandbox.pods()
    assert {pod["metadata"]["name"] for pod in pods} == set(generated)
    owners = {
        item["metadata"]["uid"]
        for plural in ("replicasets", "statefulsets", "daemonsets")
        for item in sandbox.store.all(plural)
    }
    for pod in pods:
        expected = generated[pod["metadata"]["name"]]
        assert pod["spec"]["nodeName"] == expected["spec"]["nodeName"]
        assert pod["status"]["conditions"] == expected["status"]["conditions"]
        assert pod["metadata"]["uid"] != expected["metadata"]["uid"]
        assert pod["metadata"]["ownerReferences"][0]["uid"] in owners


def test_loading_twice_is_loading_once(loaded: tuple[Sandbox, Path]) -> None:
    sandbox, kubeconfig = loaded
    before = len(sandbox.pods())
    Loader(Server(kubeconfig, 2), 2).load(cluster.generate(5, 40))
    assert len(sandbox.pods()) == before


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_makes_the_requests_that_the_reader_makes(loaded: tuple[Sandbox, Path]) -> None:
    _, kubeconfig = loaded
    result = CliRunner().invoke(reading.main, ["--kubeconfig", str(kubeconfig), "--repeat", "1"])

    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.output.splitlines()[-3:]] == ["curl", "reader", "ratio"]


def test_a_cluster_goes_to_one_place() -> None:
    result = CliRunner().invoke(cluster.main, ["--out", "a", "--serve", "b"])
    assert result.exit_code == 2
    assert "give one of" in result.stderr


@pytest.mark.parametrize("pods", [1, 2, 101, 250])
def test_the_last_pod_that_etcd_is_given_has_a_revision_of_its_own(
    pods: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions: list[list[object]] = []

    def stored(_pool: urllib3.PoolManager, _method: str, _url: str, body: bytes) -> urllib3.HTTPResponse:
        transactions.append(json.loads(body)["success"])
        return urllib3.HTTPResponse(status=200)

    monkeypatch.setattr(urllib3.PoolManager, "request", stored)
    etcd = Etcd("http://etcd")
    for number in range(pods):
        etcd.put({"metadata": {"namespace": "shop", "name": f"web-{number}"}})
    etcd.flush()
    assert sum(map(len, transactions)) == pods
    assert max(map(len, transactions)) <= 100
    assert len(transactions[-1]) == 1
