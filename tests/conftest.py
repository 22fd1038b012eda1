"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A timed assertion is a defect: how long an example takes depends on what else the machine does.
settings.register_profile("rebalancer", deadline=None)
settings.load_profile("rebalancer")
