"""Whether a toleration tolerates a taint.

Source: k8s.io/api v0.34.4 core/v1/toleration.go:38.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalancer.cluster.records import Taint, Toleration


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty effect or key of the toleration stands for any; Exists ignores the value."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerates_any(tolerations: Iterable[Toleration] | None, taint: Taint) -> bool:
    """Whether any of the tolerations tolerates the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations or ())
