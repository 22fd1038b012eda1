"""A webhook that is asked about every eviction, and never answers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.e2e.api import path_of
from tests.e2e.processes import wait_until
from tests.e2e.relocation_scene import PODS, Scene
from tests.waiting import HANG_SECONDS


@contextmanager
def a_webhook_that_never_answers(
    scene: Scene, *, failure_policy: str, seconds: int
) -> Iterator[Callable[[], None]]:
    """Have every eviction asked about at an address that takes connections and says nothing.

    Yields what waits until it is asked about another one.
    """
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        webhook = {
            "name": "evictions.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{listener.getsockname()[1]}/"},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods/eviction"],
                }
            ],
            "failurePolicy": failure_policy,
            "timeoutSeconds": seconds,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        manifest = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "evictions"},
            "webhooks": [webhook],
        }
        scene.api.create(manifest)
        try:
            wait_for_webhook(scene)
            listener.settimeout(0.0)
            with suppress(BlockingIOError):  # those that were rehearsed
                while True:
                    connections.append(listener.accept()[0])

            def wait_until_asked() -> None:
                listener.settimeout(HANG_SECONDS)
                connections.append(listener.accept()[0])

            yield wait_until_asked
        finally:
            for connection in connections:
                connection.close()
            scene.api.delete(path_of(manifest))


def wait_for_webhook(scene: Scene) -> None:
    """Wait until a rehearsed eviction is slowed down or failed: then the API server asks the webhook."""
    name = next(iter(scene.pods.values()))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}

    def asked() -> bool:
        began = time.monotonic()
        try:
            scene.api.request("POST", f"{PODS}/{name}/eviction?dryRun=All", body)
        except Exception as error:  # noqa: BLE001 - any failure it caused will do
            return "webhook" in str(error) or "evacuation" in str(error)
        return time.monotonic() - began >= 1.0

    wait_until(asked, "the API server asks the webhook")
