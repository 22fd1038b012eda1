"""Requests that make one pod leave its node: how often they are repeated, and what they came to.

An eviction and the restart of a Deployment differ in what they ask the API server and in how they read its
answers. They share the rest: each is repeated while no verdict is certain, another attempt may help, and the
patience lasts; nothing is requested when a brake or the lease forbids it; and both are finished after the run
was asked to stop, because a request whose answer nobody reads leaves a pod in an unknown state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from rebalancer.cluster.live import RawApi
from rebalancer.cluster.live.answers import Answer
from rebalancer.deadlines import ANSWER_SECONDS, Deadline
from rebalancer.execution.eviction.verdicts import EvictionAnswer, Patience, Verdict
from rebalancer.planning.plan import Move
from rebalancer.retries import Again, Retries, http_date

READ_SECONDS = 30.0
DENIED = "denied the request"  # how the API server words the verdict of a webhook, whatever its status
_FIRST_WAIT_SECONDS = 0.5
_MAX_WAIT_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one request came to. Without a verdict another may follow; at the end ``otherwise`` counts."""

    verdict: Verdict | None
    because: str
    otherwise: Verdict = Verdict.REFUSED
    retry_after: float | None = None
    rights_missing: bool = False
    rejected: bool = False


@dataclass(frozen=True, slots=True)
class Requester:
    """What every request of a run needs, and how long each is repeated."""

    api: RawApi
    clock: Callable[[], float]
    patience: Patience = field(default_factory=Patience)
    permitted: Callable[[], str] = lambda: ""  # why nothing may be requested now; empty when it may
    interrupted: Callable[[], bool] = lambda: False
    dry_run: bool = False

    @property
    def deadline(self) -> Deadline:
        """Until when the answer to a request is awaited."""
        return self.api.retries.run.finishing(ANSWER_SECONDS)

    @property
    def options(self) -> dict[str, str]:
        """Options of every request that would change something."""
        return {"dry_run": "All"} if self.dry_run else {}

    @property
    def retries(self) -> Retries:
        """How often and how long one request is repeated."""
        return replace(
            self.api.retries,
            attempts=self.patience.attempts,
            deadline_seconds=self.patience.seconds,
            first_wait_seconds=_FIRST_WAIT_SECONDS,
            max_wait_seconds=_MAX_WAIT_SECONDS,
            max_retry_after_seconds=float("inf"),  # a longer one ends the attempts by the deadline
        )


class Attempts(ABC):
    """The requests made for one move, and what the earlier ones left open."""

    def __init__(self, requester: Requester, move: Move) -> None:
        self.requester = requester
        self.move = move
        self.count = 0
        self.not_before = requester.clock()  # no replacement is older, by our clock or the server's
        self.restarted_at = ""
        self.perhaps_sent = False  # a request may have been carried out

    @abstractmethod
    def next(self) -> Attempt:
        """Send one request, unless that is forbidden, and find out what it did."""

    def settle(self, what: str) -> EvictionAnswer:
        """Repeat the request while that is safe and may help; ``what`` names it in logs."""
        attempt = self.requester.retries.until(what, self.next, self._again)
        return EvictionAnswer(
            verdict=attempt.verdict or attempt.otherwise,
            because=attempt.because,
            at=self.requester.clock(),
            not_before=self.not_before,
            attempts=self.count,
            rights_missing=attempt.rights_missing,
            rejected=attempt.rejected,
            restarted_at=self.restarted_at,
        )

    def forbidden(self) -> Attempt | None:
        """What the move came to when nothing may be requested now; None when it may."""
        because = self.requester.permitted()
        return Attempt(self.not_sent, because) if because else None

    @property
    def not_sent(self) -> Verdict:
        """The verdict when no further request is sent: an earlier one may have been carried out."""
        return Verdict.UNKNOWN if self.perhaps_sent else Verdict.SKIPPED

    def accepted(self, verdict: Verdict, because: str, answer: Answer) -> Attempt:
        """The API server did what was asked; its clock may be behind ours."""
        server = http_date(answer.date)
        if server is not None:
            self.not_before = min(self.not_before, server)
        return Attempt(verdict, because)

    def _again(self, attempt: Attempt) -> Again | None:
        if attempt.verdict is not None or self.requester.interrupted():
            return None
        return Again(attempt.because, attempt.retry_after)


def rejected(verdict: Verdict, status: int, message: str) -> Attempt:
    """An answer by which no such request is accepted, for any pod, unless a webhook denied this one."""
    because = f"the API server rejected the request with HTTP {status}: {message}"
    return Attempt(verdict, because, rejected=DENIED not in message)
