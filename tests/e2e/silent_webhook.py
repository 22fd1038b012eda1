"""A webhook that is asked about every eviction, and never answers."""

from __future__ import annotations

import base64
import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests import loopback
from tests.e2e.api import path_of
from tests.e2e.processes import wait_until
from tests.e2e.relocation_scene import PODS, Scene
from tests.waiting import HANG_SECONDS

MOST_SECONDS = 30  # that an API server waits for a webhook


class SilentWebhook:
    """Says nothing of an eviction until it hangs up; only rehearsals fail at once."""

    def __init__(self) -> None:
        self.is_rehearsed = threading.Event()
        self._asked = queue.SimpleQueue[str]()
        self._hangs_up = threading.Event()

    def wait_until_asked(self) -> None:
        """Wait until the API server asks about another eviction, which is then in flight."""
        self._asked.get(timeout=HANG_SECONDS)

    def hang_up(self) -> None:
        """Fail what was asked: the API server goes on by the failure policy, and waits no longer."""
        self._hangs_up.set()

    def answer(self, request: loopback.Request) -> loopback.Answer:
        """No review, sooner or later: that is a webhook that fails."""
        review = json.loads(request.body)["request"]
        if review.get("dryRun"):
            self.is_rehearsed.set()
        else:
            self._asked.put(review["name"])
            self._hangs_up.wait(HANG_SECONDS)
        return loopback.Answer(status=500)


@contextmanager
def a_webhook_that_never_answers(
    scene: Scene, *, failure_policy: str, seconds: int = MOST_SECONDS
) -> Iterator[SilentWebhook]:
    """Have every eviction asked about, and the API server wait ``seconds`` for the answer to each."""
    webhook = SilentWebhook()
    # Over TLS as it must be: an API server waits but ten seconds for an address that does not begin that.
    certificate = loopback.a_certificate(scene.folder)
    with loopback.answering(webhook.answer, certificate) as url:
        ca = base64.b64encode(certificate.file.read_bytes()).decode()
        configuration = {
            "name": "evictions.example.com",
            "clientConfig": {"url": f"{url}/", "caBundle": ca},
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
            "webhooks": [configuration],
        }

        def is_asked() -> bool:
            rehearsed_eviction(scene)
            return webhook.is_rehearsed.is_set()

        scene.api.create(manifest)
        try:
            wait_until(is_asked, "the API server asks the webhook")
            yield webhook
        finally:
            webhook.hang_up()
            scene.api.delete(path_of(manifest))


def rehearsed_eviction(scene: Scene) -> str:
    """What is wrong with an eviction that changes nothing, as the API server says; empty where nothing is."""
    name = next(iter(scene.pods.values()))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    try:
        scene.api.request("POST", f"{PODS}/{name}/eviction?dryRun=All", body)
    except Exception as error:  # noqa: BLE001 - any failure may be the webhook's
        return str(error)
    return ""
