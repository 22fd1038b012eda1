"""What is asked of a Prometheus, and where it is: values that need no network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Question:
    """A query: of one moment, or of a window that ends there."""

    query: str
    window_seconds: float = 0.0  # 0: an instant query
    step_seconds: float = 60.0
    dated: bool = True  # False: of the moment that the server takes for now

    @property
    def key(self) -> str:
        """What its answer is recorded under: all but the moment."""
        return (
            f"range {self.window_seconds:g}s/{self.step_seconds:g}s {self.query}"
            if self.window_seconds
            else f"{'instant' if self.dated else 'undated'} {self.query}"
        )

    def path(self) -> str:
        """Of the HTTP API."""
        return "api/v1/query_range" if self.window_seconds else "api/v1/query"

    def parameters(self, now: float) -> list[tuple[str, str]]:
        """Of the request, for a window that ends now."""
        if not self.window_seconds:
            return [("query", self.query), *([("time", f"{now:.3f}")] if self.dated else [])]
        return [
            ("query", self.query),
            ("start", f"{now - self.window_seconds:.3f}"),
            ("end", f"{now:.3f}"),
            ("step", f"{self.step_seconds:g}"),
        ]


Ask = Callable[[Question], bytes]
"""Answers a question, as ``/api/v1/query`` or ``query_range`` does; raises RebalancerError."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Where a Prometheus is and how we log in."""

    address: str
    bearer_token_file: str | None = None
    token: str = field(default="", repr=False)
    username: str = ""
    password_file: str | None = None
    ca_file: str | None = None
    insecure_skip_verify: bool = False
    timeout_seconds: float = 10.0

    @property
    def has_login(self) -> bool:
        """Whether it needs credentials, which the service proxy cannot carry."""
        return bool(self.bearer_token_file or self.token or self.username)
