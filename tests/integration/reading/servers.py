"""Servers to read from: the sandbox with a cluster that stands still, and one that answers anything."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import msgspec
import urllib3

from rebalancer import http
from rebalancer.cluster.kinds import PODS
from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.client import KubernetesClient
from rebalancer.cluster.live.login import Login
from rebalancer.cluster.live.reader import LiveReader
from rebalancer.cluster.records import Pod
from rebalancer.cluster.wire.json_items import decode_page
from rebalancer.cluster.wire.protobuf import MEDIA_TYPE
from rebalancer.retries import Retries
from rebalancer_demo import Sandbox
from tests import loopback
from tests.builders import a_node, a_pod
from tests.integration.demo.builders import START, StillClock
from tests.protobuf_encoder import encode_list

Answer = tuple[int, bytes] | tuple[int, bytes, str]
"""Status, body and type; JSON where none is given."""


def cluster_objects(pods: int = 23) -> list[dict[str, Any]]:
    """Three nodes with pods, a budget and metrics of the nodes."""
    versions = {"apiVersion": "v1"}
    nodes = [{**versions, "kind": "Node", **a_node(f"n{number}")} for number in range(3)]
    places = [f"n{number % 3}" for number in range(pods)]
    return [
        *nodes,
        {**versions, "kind": "Namespace", "metadata": {"name": "default"}},
        *(
            {**versions, "kind": "Pod", **a_pod(f"web-{number}", node=place, cpu="100m")}
            for number, place in enumerate(places)
        ),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        },
    ]


def a_sandbox(**options: Any) -> Sandbox:
    """A cluster that stands still."""
    objects = options.pop("objects", None)
    options = {"controllers": False, "clock": StillClock(), **options}
    return Sandbox(cluster_objects() if objects is None else objects, **options)


@contextlib.contextmanager
def api_of(url: str, token: str = "") -> Iterator[RawApi]:
    """Our client, which waits for nothing and leaves nothing open."""
    pool = http.pool()
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        login = Login(url, pool, headers=lambda: headers)
        yield RawApi(KubernetesClient(login), Retries(pause=lambda _seconds: None))
    finally:
        pool.clear()


@contextlib.contextmanager
def reading(url: str, token: str = "", **options: Any) -> Iterator[LiveReader]:
    """A reader of the API server at a URL."""
    with api_of(url, token) as api:
        yield LiveReader(api, lambda: START, **options)


@contextlib.contextmanager
def in_protobuf(url: str) -> Iterator[str]:
    """A server before another one that hands out its pods in protobuf, all else as it is; yields its URL."""
    pool = urllib3.PoolManager()

    def answer(path: str) -> Answer:
        found = pool.request("GET", url + path, retries=False)
        if path.partition("?")[0] != PODS.path or found.status != HTTPStatus.OK:
            return found.status, found.data
        page = decode_page(found.data)
        pods = [msgspec.json.decode(item, type=Pod) for item in page.items]
        return found.status, encode_list(pods, page.resource_version, page.continue_token), MEDIA_TYPE

    with answering(answer) as server:
        yield server
    pool.clear()


@contextlib.contextmanager
def answering(
    answer: Callable[[str], Answer], refuse: Callable[[str], Answer | None] = lambda _: None
) -> Iterator[str]:
    """A server that gives what ``answer(path)`` says, unless ``refuse(accept)`` does; yields its URL."""

    def answered(request: loopback.Request) -> loopback.Answer:
        status, body, *content_type = refuse(request.headers.get("Accept", "")) or answer(request.path)
        kind = content_type[0] if content_type else "application/json"
        return loopback.Answer(body, status, {"Content-Type": kind})

    with loopback.answering(answered) as url:
        yield url
