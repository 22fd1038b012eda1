"""Whether the cluster's schedulers are known to decide as computed, and when that is too little to act on."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rebalancer.policy.schema import Safety

MIN_DECISIONS = 100  # fewer prove nothing
MAX_AGE_SECONDS = 30 * 86_400.0  # a scheduler is upgraded, its configuration changed
_HOW = "measure it with: rebalancer agreement, or let rebalancer serve run"

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Time = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class MeasuredAgreement(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Decisions of the cluster's schedulers that were compared, and how many landed as computed."""

    decisions: _Count
    landed: _Count
    until: _Time  # Unix seconds, when the last was compared

    @property
    def share(self) -> float:
        """Of the decisions; 0 where there are none, or where the figures cannot be."""
        return self.landed / self.decisions if 0 < self.decisions >= self.landed else 0.0

    def sentence(self) -> str:
        """The figure in words."""
        return (
            f"of {self.decisions:,} decisions of the scheduler {self.landed:,} landed as computed "
            f"({self.share:.2%})"
        )

    def is_known(self, now: float) -> bool:
        """Whether there are enough decisions, and they are recent enough, to say something."""
        return self.decisions >= MIN_DECISIONS and abs(now - self.until) <= MAX_AGE_SECONDS


def the_one_to_keep(before: MeasuredAgreement | None, new: MeasuredAgreement) -> MeasuredAgreement:
    """What was measured last, unless it says nothing yet and what was known before does."""
    return (
        before if before is not None and before.is_known(new.until) and not new.is_known(new.until) else new
    )


def why_refused(safety: Safety, measured: MeasuredAgreement | None, now: float) -> str:
    """Why a run may not act on what is known of the schedulers' decisions; empty where it may."""
    least = safety.min_agreement
    if least is None:
        return ""
    needed = f"safety.minAgreement is {least:.2%}"
    if measured is None:
        return f"whether the scheduler decides as computed is not known, and {needed}; {_HOW}"
    if not measured.is_known(now):
        doubt = f"fewer than {MIN_DECISIONS}" if measured.decisions < MIN_DECISIONS else "too long ago"
        return f"{measured.sentence()}, which is {doubt}, and {needed}; {_HOW}"
    return (
        f"{measured.sentence()}, and {needed}; rebalancer agreement shows why"
        if measured.share < least
        else ""
    )
