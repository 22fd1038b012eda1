"""A real API server under churn: what watches keep is what a fresh reading brings, change after change."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from rebalancer.cluster.dumps.listing import ListingBuilder, Recording
from rebalancer.cluster.dumps.writer import digest
from rebalancer.cluster.kinds import NODES as NODES_KIND
from rebalancer.cluster.kinds import PODS, Kind
from rebalancer.cluster.live import RawApi, open_api
from rebalancer.cluster.live.lists import ListBegins, ListSource
from rebalancer.cluster.live.login import connect
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.cluster.live.watching import LiveCluster
from rebalancer.http import Answer
from tests.conftest import SUMMARY
from tests.e2e import clusters
from tests.e2e.controlplane import ControlPlane

pytestmark = pytest.mark.safety  # what is planned with is what the cluster has

ROUNDS = int(os.environ.get("REBALANCER_CHURN_ROUNDS", "8"))
CHANGES = 100  # a round
NAMES = 300
# Of the churn that never pauses; ten minutes on a thousand nodes: REBALANCER_CHURN_SECONDS=600, _NODES=1000.
SECONDS = float(os.environ.get("REBALANCER_CHURN_SECONDS", "8"))
NODES = int(os.environ.get("REBALANCER_CHURN_NODES", "20"))
WRITERS = 4
CHANGES_A_SECOND = 25  # of each writer
EVERY_SECONDS = 1.0
LEAST_READINGS = 4  # however long each of them takes: by the second one there are pods enough to be watched
BOOKMARK_SECONDS = 30.0  # less than the minute after which a server sends a bookmark by itself


class Churn:
    """Creates, changes and deletes pods as fast as the API server lets it."""

    def __init__(self, kubeconfig: Path, seed: int, nodes: int = 3, writer: int = 0) -> None:
        self._core = client.CoreV1Api(connect(kubeconfig))
        self._random = random.Random(seed)
        self._pods: set[str] = set()
        self._nodes = nodes
        self._prefix = f"web-{writer}" if writer else "web"
        if writer:
            return
        for namespace in ("shop", "games"):
            self._core.create_namespace({"metadata": {"name": namespace}}, _preload_content=False)
        for number in range(nodes):
            self._core.create_node(clusters.node(f"n{number}"), _preload_content=False)

    def change(self) -> None:
        chance = self._random
        number = chance.randrange(NAMES)
        namespace, name = ("shop", "games")[number % 2], f"{self._prefix}-{number}"
        if name not in self._pods:
            self._core.create_namespaced_pod(namespace, self._pod(name), _preload_content=False)
            self._pods.add(name)
        elif chance.random() < 0.3:
            self._core.delete_namespaced_pod(name, namespace, grace_period_seconds=0, _preload_content=False)
            self._pods.remove(name)
        else:
            labels = {"revision": str(chance.randrange(4))}
            self._core.patch_namespaced_pod(
                name, namespace, {"metadata": {"labels": labels}}, _preload_content=False
            )
            phase = chance.choice(["Running", "Running", "Running", "Succeeded"])
            ready = [{"type": "Ready", "status": chance.choice(["True", "False"])}]
            self._core.patch_namespaced_pod_status(
                name,
                namespace,
                {"status": {"phase": phase, "conditions": ready}},
                _preload_content=False,
            )

    def _pod(self, name: str) -> dict[str, Any]:
        container = {
            "name": "main",
            "image": "app:v1",
            "resources": {"requests": {"cpu": self._random.choice(["100m", "1"])}},
        }
        spec = {
            "containers": [container],
            "nodeName": f"n{self._random.randrange(self._nodes)}",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
        }
        return {"metadata": {"name": name, "labels": {"app": name[-1]}}, "spec": spec}


def test_what_watches_keep_is_what_a_fresh_reading_brings(
    control_plane: ControlPlane, record_property: Any
) -> None:
    control_plane.start(
        controllers=False,
        scheduler=False,
        kwok=False,
        api_server_flags=["--disable-admission-plugins=ServiceAccount"],
    )
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    kubeconfig = control_plane.kubeconfig()
    api, churn = open_api(kubeconfig), Churn(kubeconfig, seed)
    seconds: list[float] = []
    with LiveCluster(api, watch_above=-1, large=NAMES // 10) as cluster:
        for _ in range(ROUNDS):
            for _ in range(CHANGES):
                churn.change()
            began = time.monotonic()
            kept = cluster.current()
            seconds.append(time.monotonic() - began)
            assert digest(kept) == digest(LiveReader(api, time.time).read())
        assert PODS in cluster.feeds
        events = sum(feed.events for feed in cluster.feeds.values())
    assert events >= (ROUNDS - 1) * CHANGES
    record_property(
        SUMMARY,
        f"watches on a real API server: {ROUNDS} comparisons with a fresh reading, all digests equal; "
        f"{events} events; "
        f"to be current took {sorted(seconds[1:])[len(seconds[1:]) // 2]:.2f} s in the median",
    )


class Churning:
    """Changes pods on threads of its own, so many times a second, until it is left."""

    def __init__(self, *churns: Churn) -> None:
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(churn,), daemon=True) for churn in churns]
        self.changes = 0
        self.failure: BaseException | None = None

    def __enter__(self) -> Churning:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _work(self, churn: Churn) -> None:
        began, changes = time.monotonic(), 0
        try:
            while not self._over.wait(max(0.0, began + changes / CHANGES_A_SECOND - time.monotonic())):
                churn.change()
                changes += 1
                self.changes += 1
        except BaseException as error:  # noqa: BLE001 - raised by the test
            self.failure = error


def listed_at(api: RawApi, kind: Kind, version: str) -> str:
    """The digest of a kind as it was at exactly this version, as etcd has it."""

    def fetch(paging: Mapping[str, object]) -> Answer:
        exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
        return api.list_page(kind, {**paging, **({} if "continue" in paging else exact)})

    builder = ListingBuilder(kind)
    for page in ListSource(kind, f"list {kind.plural}", api.host, fetch).pages():
        if isinstance(page, ListBegins):
            builder = ListingBuilder(kind)
        else:
            page.add_to(builder)
    return digest(Recording("etcd", {kind.plural: builder.listing()}))


def test_under_churn_that_never_pauses_what_watches_keep_is_the_cluster_at_their_version(
    control_plane: ControlPlane, record_property: Any
) -> None:
    control_plane.start(
        controllers=False, scheduler=False, api_server_flags=["--disable-admission-plugins=ServiceAccount"]
    )
    seed = random.SystemRandom().randrange(1 << 32)
    record_property("seed", seed)
    kubeconfig = control_plane.kubeconfig()
    api = open_api(kubeconfig)
    churns = [Churn(kubeconfig, seed + writer, NODES, writer) for writer in range(WRITERS)]
    compared = Counter[str]()
    seconds: list[float] = []
    unwatched = 0  # changes before pods were watched
    with LiveCluster(api, watch_above=10) as cluster, Churning(*churns) as churning:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until or len(seconds) < LEAST_READINGS:
            began, changes = time.monotonic(), churning.changes
            kept = cluster.current()
            if not unwatched and PODS in cluster.feeds:
                unwatched = churning.changes
            seconds.append(time.monotonic() - began)
            for kind in (NODES_KIND, PODS):
                listing = kept.listings[kind.plural]
                ours = digest(Recording("watched", {kind.plural: listing}))
                assert ours == listed_at(api, kind, listing.resource_version), f"{kind.plural}, seed {seed}"
                compared[kind.plural] += 1
            time.sleep(max(0.0, began + EVERY_SECONDS - time.monotonic()))
        assert churning.failure is None
        assert PODS in cluster.feeds
        events = sum(feed.events for feed in cluster.feeds.values())
    assert events >= (changes - unwatched) / 2
    record_property(
        SUMMARY,
        f"churn without a pause on {NODES} nodes for {SECONDS:.0f} s: {churning.changes} changes, "
        f"{compared.total()} comparisons with etcd at the same version, all digests equal; "
        f"{events} events; "
        f"to be current took {sorted(seconds)[len(seconds) // 2]:.2f} s in the median",
    )


def test_a_watch_is_in_protobuf_and_says_soon_how_far_it_has_come(control_plane: ControlPlane) -> None:
    control_plane.start(controllers=False, scheduler=False, kwok=False)
    kubeconfig = control_plane.kubeconfig()
    api = open_api(kubeconfig)
    with LiveCluster(api, watch_above=-1, large=-1, max_wait_seconds=BOOKMARK_SECONDS) as cluster:
        cluster.current()
        feed = cluster.feeds[PODS]
        client.CoreV1Api(connect(kubeconfig)).create_namespace(
            {"metadata": {"name": "elsewhere"}}, _preload_content=False
        )
        cluster.current()
        assert cluster.feeds[PODS] is feed, "it was not begun again"
        assert feed.events, "a bookmark, as no pod has changed"
        assert feed.protobuf
