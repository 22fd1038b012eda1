"""Turns the policy of another descheduler into one of ours, and says line by line what it could not keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rebalancer.policy_import.descheduler import current_policy, first_policy, operator_resource
from rebalancer.policy_import.mapping import Import, Imported
from rebalancer.policy_import.policy_in_file import policy_in_file

_KINDS: Mapping[tuple[str, str], Callable[[Import, Mapping[str, Any]], None]] = {
    ("descheduler/v1alpha1", "DeschedulerPolicy"): first_policy,
    ("descheduler/v1alpha2", "DeschedulerPolicy"): current_policy,
    ("operator.openshift.io/v1", "KubeDescheduler"): operator_resource,
}


def import_policy(text: str, source: str) -> Imported:
    """The policy that does what the file asks for, as far as there is one.

    The file is a policy, or holds one: values of the Helm chart, a HelmRelease, a ConfigMap. Raises
    InputError for a file of another kind.
    """
    policy = policy_in_file(text, source)
    value = policy.document.value
    kind = (str(value.get("apiVersion", "")), str(value.get("kind", "")))
    mapping = _KINDS.get(kind)
    if mapping is None:
        kinds = ", ".join(f"{name} of {version}" for version, name in _KINDS)
        what = f"{kind[1]!s:.60} of {kind[0] or 'no apiVersion'!s:.60}"
        raise policy.document.error((), what, hint=f"expected {kinds}")
    work = Import(policy.document)
    mapping(work, value)
    if policy.of_chart and "profiles" not in value and kind[0].endswith("v1alpha2"):
        work.drop((), "these values leave profiles to the chart, and its own profiles evict as well")
    return work.result(source)


__all__ = ["Imported", "import_policy"]
