"""Ports of loopback for servers that tests start, of which no two tests get the same one."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path

# Below those that Linux gives to outgoing connections: a port of these may be taken by a client before the
# server that it was looked up for listens.
_FIRST = 10_000
_LAST = 32_000
_COUNTER = Path(tempfile.gettempdir()) / f"rebalancer-test-port-{os.getuid()}"


def free_port() -> int:
    """A port that nobody listens on, and that no other process of tests is given for the next thousands."""
    with _COUNTER.open("a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        before = counter.read()
        port = int(before) if before.isdigit() else _LAST
        while True:
            port = port + 1 if _FIRST <= port < _LAST else _FIRST
            if _is_free(port):
                break
        counter.seek(0)
        counter.truncate()
        counter.write(str(port))
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
