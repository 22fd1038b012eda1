"""A strategy that is registered for one test, as if it had a line in the registry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rebalancer.planning import strategies
from rebalancer.planning.strategies.strategy import Strategy
from rebalancer.policy.schema import RebalancePolicy
from rebalancer.policy.strategies import every_strategy

__all__ = ["registered"]


@contextmanager
def registered(*added: type[Strategy]) -> Iterator[None]:
    """While the block runs, these strategies are in the registry, behind all others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategies, "STRATEGIES", (*strategies.STRATEGIES, *added))
        _forget()
        try:
            yield
        finally:
            patch.undo()
            _forget()


def _forget() -> None:
    """Make the schema of policies anew."""
    every_strategy.cache_clear()
    RebalancePolicy.model_rebuild(force=True)
