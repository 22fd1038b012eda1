"""Two servers of tests are never given one port, however many tests start them at the same time."""

from __future__ import annotations

import socket
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests import ports
from tests.forked import PROCESSES

_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def _ports(count: int) -> list[int]:
    return [ports.free_port() for _ in range(count)]


def test_processes_that_ask_at_the_same_time_get_different_ports() -> None:
    with ProcessPoolExecutor(4, PROCESSES) as processes:
        given = [port for of_process in processes.map(_ports, [50] * 4) for port in of_process]

    assert len(set(given)) == len(given) == 200


def test_no_outgoing_connection_is_given_such_a_port() -> None:
    first_outgoing = int(_OUTGOING.read_text().split()[0])

    assert ports.free_port() < first_outgoing


def test_a_port_that_somebody_listens_on_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        taken = listener.getsockname()[1]
        monkeypatch.setattr(ports, "_COUNTER", tmp_path / "counter")
        monkeypatch.setattr(ports, "_FIRST", taken)
        monkeypatch.setattr(ports, "_LAST", taken + 100)

        assert taken < ports.free_port() <= taken + 100
