"""The commands of the lab, a distribution of its own: imported when they are used, and missed in one line."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from rebalancer.errors import InputError

LAB = "rebalancer_lab"


def study(module: str) -> ModuleType:
    """A module of the lab; InputError where that is not installed."""
    try:
        return import_module(f"{LAB}.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != LAB:
            raise
        raise InputError(
            "the studies of a cluster's past are not part of this installation",
            hint="install rebalancer[lab]",
        ) from None
