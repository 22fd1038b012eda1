"""A hang-up that comes while the program starts ends what may end, and no service."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest

from rebalancer.__main__ import _outlive_hangups

SERVICES = (
    "serve",
    "serve --act",
    "--log-format=json serve",
    "--log-format json -v serve --listen :8080",
    "extender --listen :8888",
)
OTHERS = (
    "",
    "plan",
    "run --yes",
    "plan --policy serve",
    "--version",
    "--log-format text run",
    "-v journal show",
)


@pytest.fixture(autouse=True)
def handlers_as_they_were() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("words", SERVICES + OTHERS)
def test_only_a_service_that_starts_outlives_a_hang_up(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To it, it means: read the policy, which is still to come."""
    monkeypatch.setattr(sys, "argv", ["rebalancer", *words.split()])
    _outlive_hangups()
    expected = signal.SIG_IGN if words in SERVICES else signal.SIG_DFL
    assert signal.getsignal(signal.SIGHUP) is expected
