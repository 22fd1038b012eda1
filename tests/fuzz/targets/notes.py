"""What runs leave for later: the state and the journal."""

from __future__ import annotations

from collections.abc import Mapping

from rebalancer.execution.journal import in_flight, read_journal
from rebalancer.state.run_state import PastMove, RunState, decode, encode
from tests.fuzz.clusters import folder
from tests.fuzz.structure import json_structure, line_structure
from tests.fuzz.target import Target


def decode_state(content: bytes) -> None:
    """A state is written as it was read."""
    state = decode(content, "state.json")
    assert decode(encode(state), "written") == state


def decode_journal(content: bytes) -> None:
    """Read a journal, and which evictions have no end in it."""
    path = folder() / "journal.jsonl"
    path.write_bytes(content)
    in_flight(read_journal(path))


def _states() -> Mapping[str, bytes]:
    move = PastMove(
        namespace="shop", name="web-0", uid="u", workload="ReplicaSet/web", from_node="n0", evicted_at=5.0
    )
    return {"state.json": encode(RunState(moves=(move,), updated_at=6.0)), "empty.json": encode(RunState())}


def _journals() -> Mapping[str, bytes]:
    lines = (
        b'{"time":"2026-11-20T12:00:00Z","run":"r","event":"run-started","moves":1}',
        b'{"time":"2026-11-20T12:00:01Z","run":"r","event":"evicting","pod":"shop/web-0","uid":"u"}',
        b'{"time":"2026-11-20T12:00:02Z","run":"r","event":"evicted","pod":"shop/web-0","uid":"u"}',
    )
    return {"journal.jsonl": b"\n".join(lines) + b"\n"}


TARGETS = (
    Target("state", decode_state, _states, json_structure()),
    Target("journal", decode_journal, _journals, line_structure),
)
