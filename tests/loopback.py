"""HTTP servers on loopback that answer as a test wants."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """What a server was asked."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """What it answers."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Certificate:
    """A certificate of an authority of its own, valid for 127.0.0.1, as PEM files."""

    file: Path
    key: Path


def a_certificate(folder: Path) -> Certificate:
    """A new certificate; needs openssl."""
    made = Certificate(folder / "server.crt", folder / "server.key")
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(made.key), "-out", str(made.file)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject, *files]
    subprocess.run(command, check=True, capture_output=True)
    return made


@contextlib.contextmanager
def answering(answer: Callable[[Request], Answer], certificate: Certificate | None = None) -> Iterator[str]:
    """Answer every request in a thread of its own, over TLS with a certificate; yields the URL."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = answer(Request(self.command, self.path, dict(self.headers), body))
            with contextlib.suppress(OSError):  # the client may be gone
                self.send_response(found.status)
                for name, value in found.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(found.body)))
                self.end_headers()
                self.wfile.write(found.body)

        do_POST = do_PUT = do_GET  # noqa: N815 - named by the base class

    with serving(Handler, certificate) as url:
        yield url


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler], certificate: Certificate | None = None) -> Iterator[str]:
    """Let a handler of its own serve every connection in a thread; yields the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.file, certificate.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that logs nothing."""

    def log_message(self, *_arguments: object) -> None:
        """Tests are quiet."""
