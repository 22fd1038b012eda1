"""How old a plan is when it is carried out: while a user reads it and answers, the cluster goes on.

answered within 30 s      carried out as it is
answered within 180 s     its first wave is checked again, as every later wave is
answered later            refused; the lease was held all that time, and other runs waited for it
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rebalancer.errors import SafetyError
from rebalancer.pipeline.run_settings import MAX_CONFIRMATION_SECONDS

MAX_FRESH_SECONDS = 30.0


class PlanAge:
    """The time since a plan was made, by a clock that only moves forward."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._made_at = clock()

    @property
    def seconds(self) -> float:
        """Since the plan was made."""
        return self._clock() - self._made_at

    @property
    def fresh(self) -> bool:
        """Whether its moves may be made without reading the cluster again."""
        return self.seconds <= MAX_FRESH_SECONDS

    def ensure_usable(self) -> None:
        """Raise SafetyError for a plan that is too old even to be checked again."""
        if self.seconds > MAX_CONFIRMATION_SECONDS:
            raise SafetyError(
                f"the plan was {self.seconds:.0f} s old when it was confirmed; nothing was evicted",
                hint=f"answer within {MAX_CONFIRMATION_SECONDS:.0f} s, or evict without a question by --yes",
            )
