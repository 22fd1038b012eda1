"""A webhook that answers evictions as KubeVirt does: no, and the pod is moved in another way now."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import loopback
from tests.e2e.api import Object

NAME = "virt-launcher-eviction-interceptor.kubevirt.io"


@dataclass
class Evacuations:
    """What the webhook was asked; ``begin`` is called with the name of each pod of a request that counts."""

    begin: Callable[[str], None] = lambda _pod: None
    asked: list[str] = field(default_factory=list)

    def answer(self, review: dict[str, Any]) -> dict[str, Any]:
        """Deny, with the text by which the eviction is known to have started something."""
        request = review["request"]
        pod = request["name"]
        if not request.get("dryRun"):
            self.asked.append(pod)
            self.begin(pod)
        message = f'Eviction triggered evacuation of VMI "{request["namespace"]}/{pod}"'
        status = {"code": 429, "reason": "TooManyRequests", "message": message}
        response = {"uid": request["uid"], "allowed": False, "status": status}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


@contextmanager
def serving(folder: Path, evacuations: Evacuations) -> Iterator[Object]:
    """Serve it on loopback; yields the configuration that makes the API server ask."""
    certificate = loopback.a_certificate(folder)

    def answer(request: loopback.Request) -> loopback.Answer:
        body = json.dumps(evacuations.answer(json.loads(request.body))).encode()
        return loopback.Answer(body, headers={"Content-Type": "application/json"})

    with loopback.answering(answer, certificate) as url:
        yield _configuration(url, certificate.file)


def _configuration(url: str, certificate: Path) -> Object:
    client = {
        "url": f"{url}/",
        "caBundle": base64.b64encode(certificate.read_bytes()).decode(),
    }
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/eviction"],
    }
    webhook = {
        "name": NAME,
        "clientConfig": client,
        "rules": [rule],
        "failurePolicy": "Fail",
        "timeoutSeconds": 30,
        "sideEffects": "NoneOnDryRun",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "evictions"},
        "webhooks": [webhook],
    }
