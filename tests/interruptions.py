"""Does something again and again, interrupted at another place each time.

A handler of a signal runs where a Python function begins, and where a compiled one has returned. Compiled
code that called the function has to look whether it failed; if it does not, the process ends by a fault.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import CodeType, FrameType

import msgspec

from rebalancer.cluster.dumps.listing import ListingBuilder
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.kinds import PODS, REPLICA_SETS, Kind
from rebalancer.cluster.records import Pod
from rebalancer.cluster.wire.protobuf import MEDIA_TYPE, PodListSplitter
from rebalancer.cluster.wire.watch_events import EventSplitter
from rebalancer.policy.policy_file import load_policy
from tests.builders import a_pod
from tests.churn import Churn, json_line, protobuf_frame
from tests.protobuf_encoder import encode_list

_NO_HANG_SECONDS = 60.0
Place = tuple[CodeType, CodeType | None, int]
_ROOT = Path(__file__).parents[1]
_OF_A_LATER_API = b"\xc2\x0c\x01x"  # field 200


def _pods_in_protobuf() -> Callable[[], object]:
    pods = [msgspec.convert(a_pod(f"web-{number}", node="n1", cpu="100m"), Pod) for number in range(2)]
    body = encode_list(pods)

    def read() -> object:
        splitter, builder = PodListSplitter(), ListingBuilder(PODS)
        found = splitter.pods(body)
        assert not isinstance(found[1], bytes)
        found[1].spec.MergeFromString(_OF_A_LATER_API)
        builder.add_protobuf(found)
        splitter.finish()
        return builder.listing()

    return read


def _list_in_json(kind: Kind) -> Callable[[], object]:
    items = ", ".join(msgspec.json.encode(item).decode() for item in Churn(1, kind, names=8).objects.values())
    body = f'{{"kind": "{kind.name}List", "metadata": {{}}, "items": [{items}]}}'.encode()

    def read() -> object:
        builder = ListingBuilder(kind)
        builder.add_list(body)
        return builder.listing()

    return read


def _watch(content_type: str) -> Callable[[], object]:
    churn, encode = Churn(1, names=8), protobuf_frame if content_type == MEDIA_TYPE else json_line
    body = b"".join(encode(*churn.change()) for _ in range(8))
    return lambda: list(EventSplitter(content_type).events(body))


READINGS: dict[str, Callable[[], Callable[[], object]]] = {
    "pods in protobuf": _pods_in_protobuf,
    "pods in JSON": lambda: _list_in_json(PODS),
    "workloads in JSON": lambda: _list_in_json(REPLICA_SETS),
    "a watch in protobuf": lambda: _watch(MEDIA_TYPE),
    "a watch in JSON": lambda: _watch("application/json"),
    "a dump": lambda: lambda: DumpReader(_ROOT / "examples" / "hot-cluster").read(),
    "a policy": lambda: lambda: load_policy(_ROOT / "policies" / "default.yaml"),
}


def interrupted_everywhere(read: Callable[[], object]) -> int:
    """Interrupt a reading where each function begins that a line calls, once; how many places those were."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    return _at_each_place(read, interrupt, ("call",), (KeyboardInterrupt,))


def signalled_everywhere(work: Callable[[], object], number: signal.Signals) -> int:
    """Send a signal where each function begins or a compiled one has returned, once; returns how many.

    It is sent only where there is a handler for it.
    """

    def send() -> bool:
        if not callable(signal.getsignal(number)):
            return False
        signal.raise_signal(number)
        return True

    return _at_each_place(work, send, ("call", "c_return"))


def _check_that_other_threads_can_log() -> None:
    """A lock of ``logging`` that an interruption left taken would hold every one of them up for ever."""
    handlers = logging.getLogger("rebalancer").handlers

    def log() -> None:
        logging.getLogger("rebalancer.signals")
        for handler in handlers:
            with handler.lock or nullcontext():
                pass

    thread = threading.Thread(target=log, daemon=True)
    thread.start()
    thread.join(_NO_HANG_SECONDS)
    assert not thread.is_alive(), "an interruption left a lock of logging taken"


def _at_each_place(
    work: Callable[[], object],
    interrupt: Callable[[], bool | None],
    events: tuple[str, ...],
    ended_by: tuple[type[BaseException], ...] = (),
) -> int:
    """Interrupt work at a further place each time, unless ``interrupt`` returns False there."""
    done: set[Place] = set()
    while True:
        before = len(done)

        def profile(frame: FrameType, event: str, _argument: object) -> None:
            if event not in events:
                return
            caller = frame.f_back if event == "call" else frame
            place = (frame.f_code, caller and caller.f_code, caller.f_lasti if caller else 0)
            if place in done:
                return
            done.add(place)
            sys.setprofile(None)
            if interrupt() is False:
                done.remove(place)
                sys.setprofile(profile)

        sys.setprofile(profile)
        try:
            work()
        except ended_by:
            pass
        finally:
            sys.setprofile(None)
        _check_that_other_threads_can_log()
        if len(done) == before:
            return before
