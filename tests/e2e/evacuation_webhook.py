"""A webhook that answers evictions as KubeVirt does: no, and the pod is moved in another way now."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

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
    key, certificate = folder / "webhook.key", folder / "webhook.crt"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject, *files]
    subprocess.run(command, check=True, capture_output=True)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(evacuations.answer(review)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield _configuration(server.server_address[1], certificate)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _configuration(port: int, certificate: Path) -> Object:
    client = {
        "url": f"https://127.0.0.1:{port}/",
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
        "timeoutSeconds": 10,
        "sideEffects": "NoneOnDryRun",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "evictions"},
        "webhooks": [webhook],
    }
