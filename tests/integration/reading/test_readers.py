"""A plan is a function of the cluster: the same bytes whatever it was read from, in any pages."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from click.testing import CliRunner

from rebalancer.cli.program import main
from rebalancer.cluster import times
from rebalancer.cluster.dumps.writer import digest
from rebalancer.cluster.kinds import KINDS, PODS
from rebalancer.cluster.live import reader
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.cluster.wire.protobuf import MEDIA_TYPE
from rebalancer.errors import RightsError
from rebalancer_demo import Fault, Sandbox
from rebalancer_demo.hot_cluster import hot_cluster
from tests.conftest import some_of
from tests.integration.demo.builders import START
from tests.integration.reading.servers import a_sandbox, answering, in_protobuf, reading

POLICY = """\
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
metadata: {name: readers}
scheduler:
  version: "1.35"
  inline: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles: [{schedulerName: default-scheduler}, {schedulerName: trimaran}]
load: {sources: [{metricsServer: {}}]}
hotNodes: {forRuns: 1, any: [{utilization: {cpu: 80, memory: 85}, coolTo: {cpu: 65, memory: 75}}]}
evictable: {minAge: 0s}
limits: {perRun: 8, perNode: 4, perNamespace: 8, perWorkload: 25%}
"""


def a_finished_pod() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a-job-done", "namespace": "shop"},
        "spec": {"nodeName": "old-1", "containers": [{"name": "main", "image": "job:v1"}]},
        "status": {"phase": "Succeeded"},
    }


@pytest.fixture
def cluster() -> Iterator[Sandbox]:
    with a_sandbox(objects=[*hot_cluster(START), a_finished_pod()]) as sandbox:
        now = times.render_micro(START)
        spec = {"holderIdentity": "node_1", "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now}
        lease = {"metadata": {"namespace": "kube-system", "name": "kube-scheduler"}, "spec": spec}
        sandbox.registry.create("leases", lease)
        yield sandbox


class Planner:
    """Plans as a user does; what a plan says of where it was read is left out."""

    def __init__(self, folder: Path, cluster: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._cluster = cluster
        self._monkeypatch = monkeypatch
        (folder / "policy.yaml").write_text(POLICY)

    def live(self, url: str = "", **options: Any) -> str:
        kubeconfig = self._cluster.write_kubeconfig(self.folder / "kubeconfig")
        url = url or self._cluster.url
        kubeconfig.write_text(kubeconfig.read_text().replace(self._cluster.url, url))
        self._monkeypatch.setattr(reader, "LiveReader", functools.partial(LiveReader, **options))
        return self._plan(f"context sandbox ({url})", "--kubeconfig", str(kubeconfig))

    def recorded(self, folder: Path) -> str:
        return self._plan(str(folder), "--from", str(folder))

    def _plan(self, source: str, *options: str) -> str:
        policy = str(self.folder / "policy.yaml")
        arguments = ["plan", "--policy", policy, "--now", str(START), "-o", "json", *options]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["source"] == source
        return result.stdout.replace(source, "")


@pytest.fixture
def planner(tmp_path: Path, cluster: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Planner:
    return Planner(tmp_path, cluster, monkeypatch)


def as_kubectl_prints(cluster: Sandbox, folder: Path) -> Path:
    """Every kind as a List of indented objects, packed."""
    folder.mkdir()
    with urllib3.PoolManager() as pool:
        for kind in KINDS:
            answer = pool.request("GET", cluster.url + kind.path, retries=False)
            if kind.optional and answer.status == 404:
                continue
            items = [
                {"apiVersion": kind.api_version, "kind": kind.name, **item} for item in answer.json()["items"]
            ]
            printed = {
                "apiVersion": "v1",
                "items": items,
                "kind": "List",
                "metadata": {"resourceVersion": ""},
            }
            content = json.dumps(printed, indent=4).encode()
            (folder / f"{kind.plural}.json.gz").write_bytes(gzip.compress(content))
    return folder


@pytest.mark.many_cases
def test_the_plan_is_the_same_bytes_whatever_the_reader_the_encoding_and_the_page_size(
    cluster: Sandbox, planner: Planner
) -> None:
    expected = planner.live()
    assert json.loads(expected)["moves"], "a plan without moves would show nothing"

    for page_size in some_of((7, 1, 500)):
        assert planner.live(page_size=page_size) == expected
        assert planner.live(page_size=page_size, protobuf=False) == expected
        with in_protobuf(cluster.url) as url:
            assert planner.live(url, page_size=page_size) == expected

    assert planner.recorded(as_kubectl_prints(cluster, planner.folder / "printed")) == expected
    saved = planner.folder / "saved"
    kubeconfig = cluster.write_kubeconfig(planner.folder / "kubeconfig")
    arguments = ["--kubeconfig", str(kubeconfig), "--policy", str(planner.folder / "policy.yaml")]
    result = CliRunner().invoke(main, ["snapshot", "save", str(saved), *arguments])
    assert result.exit_code == 0, result.stderr
    (saved / "recording.json").unlink()
    observation = json.loads((saved / "observation.json").read_text())
    # It was saved by the clock of the machine, for which the Lease of the cluster is years old.
    assert observation.pop("notAlive").keys() == {"lease kube-system/kube-scheduler"}
    (saved / "observation.json").write_text(json.dumps(observation))
    assert planner.recorded(saved) == expected


def test_pods_in_protobuf_are_asked_for_and_taken(cluster: Sandbox) -> None:
    asked: list[str] = []
    with in_protobuf(cluster.url) as url, reading(url) as reader:
        request = reader._api.client.login.pool.request

        def noted(method: str, url: str, **options: Any) -> Any:
            asked.append(f"{url.rpartition('/')[2].partition('?')[0]} {options['headers']['Accept']}")
            return request(method, url, **options)

        reader._api.client.login.pool.request = noted
        found = reader.read()
    with reading(cluster.url, protobuf=False) as reader:
        expected = reader.read()

    assert "pods application/vnd.kubernetes.protobuf, application/json" in asked
    assert "nodes application/json" in {entry.partition(";")[0] for entry in asked}
    assert digest(found) == digest(expected)


@pytest.mark.parametrize("protobuf", [True, False])
def test_finished_pods_are_read_and_count_apart(cluster: Sandbox, protobuf: bool) -> None:
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(in_protobuf(cluster.url)) if protobuf else cluster.url
        reader = stack.enter_context(reading(url))
        listing = reader.read().listings["pods"]

    pods = listing.pods
    assert pods is not None
    assert pods.names[-1] == "a-job-done"
    assert (len(listing), len(pods)) == (len(cluster.pods()) - 1, len(cluster.pods()))


def test_a_list_in_protobuf_that_expires_between_pages_is_read_again_from_the_start(cluster: Sandbox) -> None:
    with reading(cluster.url) as reader:
        expected = digest(reader.read())
    with in_protobuf(cluster.url) as url, reading(url, page_size=5) as reader:
        reader._api.client.lists_whole = False
        cluster.faults.add(Fault("expire-continue", path="/pods", times=2, skip=1))
        found = reader.read()
        hits = cluster.faults.hits

    assert hits == 2
    assert digest(found) == expected


NOT_UTF_8 = b"k8s\x00\x30\x93\x03"  # as a Status of a real server is


def test_a_proxy_that_knows_json_alone_is_asked_for_json(cluster: Sandbox) -> None:
    with reading(cluster.url) as reader:
        expected = digest(reader.read())

    def passing(path: str) -> tuple[int, bytes]:
        with urllib3.PoolManager() as pool:
            found = pool.request("GET", cluster.url + path, retries=False)
            return found.status, found.data

    def refuse(accept: str) -> tuple[int, bytes, str] | None:
        return (406, NOT_UTF_8, MEDIA_TYPE) if MEDIA_TYPE in accept else None

    with answering(passing, refuse) as url, reading(url, page_size=5) as reader:
        assert digest(reader.read()) == expected


def test_a_refusal_in_protobuf_says_what_is_missing() -> None:
    said = b'{"kind": "Status", "message": "pods is forbidden: User \\"planner\\" cannot list"}'

    def refuse(accept: str) -> tuple[int, bytes, str] | None:
        return (403, NOT_UTF_8, MEDIA_TYPE) if MEDIA_TYPE in accept else None

    with (
        answering(lambda _path: (403, said), refuse) as url,
        reading(url) as reader,
        pytest.raises(RightsError, match='list pods: pods is forbidden: User "planner" cannot list'),
    ):
        reader.read([PODS])
