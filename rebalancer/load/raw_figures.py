"""Answers of load-watchers and Prometheus before a policy or a plugin reads them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rebalancer.errors import InputError, UnreachableError
from rebalancer.load.prometheus.responses import RecordedResponses
from rebalancer.load.scheduler_view import WatcherMetrics, decode_watcher

WATCHER = "watcher.json"  # load-watcher's answer, beside a recorded cluster
ANY_ADDRESS = "*"  # of an answer that somebody put beside a recording: it stands for every load-watcher


class RawFigures(msgspec.Struct, frozen=True, eq=False):
    """The answers of all load sources beside metrics-server, whose figures are part of the snapshot."""

    watchers: Mapping[str, bytes] = {}  # answer to GET /watcher, by address
    missing: Mapping[str, str] = {}  # address of a load-watcher -> why no answer
    prometheus: RecordedResponses = msgspec.field(default_factory=RecordedResponses)

    def watcher(self, address: str, where: str) -> WatcherMetrics:
        """What the load-watcher at an address said; RebalancerError when nothing that can be used.

        ``where`` names the recording in errors.
        """
        content = self.watchers.get(address)
        if content is None and address in self.missing:
            raise UnreachableError(self.missing[address])
        if content is None:
            content = self.watchers.get(ANY_ADDRESS)
        document = f"{where}/{WATCHER}"
        if content is None:
            raise InputError(
                "not recorded", where=document, hint="record the response to load-watcher's GET /watcher"
            )
        try:
            return decode_watcher(content)
        except (ValueError, RecursionError) as error:
            raise InputError(f"is not a load-watcher response: {error}", where=document) from error
