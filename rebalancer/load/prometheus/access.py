"""Who answers questions to Prometheus: the servers themselves, or what a snapshot recorded of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalancer.load.prometheus.answers import AnswerBook
from rebalancer.load.prometheus.questions import Ask, Connection
from rebalancer.policy.load_sources import Prometheus

if TYPE_CHECKING:
    from rebalancer.cluster.live import RawApi


@dataclass(slots=True)
class PrometheusAccess:
    """Answers, each kept in ``book``: a plan is a function of them, and a snapshot holds them."""

    connect: Callable[[Connection], Ask]
    book: AnswerBook
    _asks: dict[Connection, Ask] = field(default_factory=dict)

    def asking(self, connection: Connection) -> Ask:
        """Who answers for one Prometheus; RebalancerError when its credentials cannot be read."""
        if connection not in self._asks:
            self._asks[connection] = self.connect(connection)
        return self._asks[connection]


def live_access(api: RawApi | None, now: float, asked_at: float, *, inside: bool) -> PrometheusAccess:
    """Asks the servers; ``inside`` means that cluster addresses resolve here."""
    from rebalancer.load.prometheus.http import LivePrometheus  # noqa: PLC0415 - imports urllib3

    book = AnswerBook(asked_at)
    return PrometheusAccess(
        lambda connection: book.keeping(
            connection.address, LivePrometheus(connection, api, now, inside=inside)
        ),
        book,
    )


def recorded_access(recorded: AnswerBook, where: str) -> PrometheusAccess:
    """Answers from what was recorded, with no I/O at all."""
    book = AnswerBook(recorded.time)
    return PrometheusAccess(
        lambda connection: book.keeping(connection.address, recorded.asking(connection.address, where)),
        book,
    )


def connection_of(settings: Prometheus) -> Connection:
    """Where the policy says a Prometheus is, and how it logs in."""
    basic = settings.basic_auth
    return Connection(
        address=settings.address.rstrip("/"),
        bearer_token_file=settings.bearer_token_file,
        username=basic.username if basic else "",
        password_file=basic.password_file if basic else None,
        ca_file=settings.ca_file,
        insecure_skip_verify=settings.insecure_skip_verify,
        timeout_seconds=settings.timeout,
    )
