"""Turns the policy of another descheduler into one of ours, and says line by line what it could not keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rebalancer.documents.reading import parse
from rebalancer.policy_import.descheduler import current_policy, first_policy, operator_resource
from rebalancer.policy_import.mapping import Import, Imported

_KINDS: Mapping[tuple[str, str], Callable[[Import, Mapping[str, Any]], None]] = {
    ("descheduler/v1alpha1", "DeschedulerPolicy"): first_policy,
    ("descheduler/v1alpha2", "DeschedulerPolicy"): current_policy,
    ("operator.openshift.io/v1", "KubeDescheduler"): operator_resource,
}
_OF_THE_CHART = (
    "give the policy itself, as the chart installs it: "
    "kubectl get configmap -n kube-system descheduler -o jsonpath='{.data.policy\\.yaml}'"
)


def import_policy(text: str, source: str) -> Imported:
    """The policy that does what the file asks for, as far as there is one.

    Raises InputError for a file of another kind.
    """
    document = parse(text, source)
    value = document.value
    known = ", ".join(f"{kind} of {version}" for version, kind in _KINDS)
    if not isinstance(value, Mapping):
        raise document.error((), "this is not a mapping", hint=f"expected {known}")
    kind = (str(value.get("apiVersion", "")), str(value.get("kind", "")))
    mapping = _KINDS.get(kind)
    if mapping is None:
        chart = kind[1] == "ConfigMap" or "deschedulerPolicy" in value
        raise document.error(
            (),
            f"{kind[1] or 'no kind'!s:.60} of {kind[0] or 'no apiVersion'!s:.60}",
            hint=_OF_THE_CHART if chart else f"expected {known}",
        )
    work = Import(document)
    mapping(work, value)
    return work.result(source)


__all__ = ["Imported", "import_policy"]
