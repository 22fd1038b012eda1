"""A case as an older minor knows it: in the version of the configuration that its scheduler reads.

What a minor does not have is left out. Fields of pods that it does not know are left to its decoder, as the
model leaves them out by its rules.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.conformance.generator import in_tree_disks
from tests.conformance.generator.draws import Object

_GROUP = "kubescheduler.config.k8s.io"
_V1_SINCE = 25
_V1BETA2_SINCE = 22
_MULTI_POINT_SINCE = 23
_SCHEDULER_PLUGINS_SINCE = 31  # of those oracles that have them
_BALANCED_ARGUMENTS_SINCE = 22
_QUEUE_SORT_WITH_DEFAULTS_SINCE = 22  # until then profiles must write the same, whatever it comes to
_INCLUSION_POLICIES_SINCE = 25  # as fields of the configuration
_MIN_DOMAINS_SINCE = 24
_IGNORE_PREFERRED_SINCE = 27
# Gates CSIMigrationAWS, CSIMigrationGCE, CSIMigrationAzureDisk and CSIMigrationOpenStack: since when all are
# on, and since when a kubelet that says nothing of it is taken to have handed its disks over.
_MIGRATION_SINCE = 23
_MIGRATION_EVERYWHERE_SINCE = 27
_OWN_SCORES = {
    "LeastAllocated": "NodeResourcesLeastAllocated",
    "MostAllocated": "NodeResourcesMostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}
_NEEDS_SCHEDULER_PLUGINS = frozenset({"trimaran", "peaks"})


def families_of(minor: int, families: Sequence[str]) -> tuple[str, ...]:
    """Those whose plugins the oracle of a minor has."""
    if minor >= _SCHEDULER_PLUGINS_SINCE:
        return tuple(families)
    return tuple(name for name in families if name not in _NEEDS_SCHEDULER_PLUGINS)


def as_known_to(minor: int, case: Object) -> Object:
    """The case with a configuration of a version that the minor reads, and without what it does not have."""
    changed = case
    if minor < _SCHEDULER_PLUGINS_SINCE:
        changed = changed | {"config": _configuration(minor, case)}
    if minor < _MIGRATION_EVERYWHERE_SINCE:
        changed = changed | {"objects": _without_migration(minor, case["objects"])}
    return changed


def _without_migration(minor: int, objects: Object) -> Object:
    """Nodes that say nothing of the drivers which took disks of the in-tree kinds over."""
    changed: Object = json.loads(json.dumps(objects))
    taken_over = frozenset(in_tree_disks.DRIVERS.values())
    for item in changed.get("csiNodes", ()):
        drivers = item["spec"].get("drivers") or ()
        item["spec"]["drivers"] = [driver for driver in drivers if driver["name"] not in taken_over]
        if minor < _MIGRATION_SINCE:
            item["metadata"].get("annotations", {}).pop(in_tree_disks.MIGRATED, None)
    return changed


def _configuration(minor: int, case: Object) -> str:
    document: Object = json.loads(case["config"])
    number = int(case["id"].rpartition("-")[2])
    version = _version(minor, number)
    document["apiVersion"] = f"{_GROUP}/{version}"
    for profile in document.get("profiles", ()):
        _leave_out(minor, profile)
        if version == "v1beta1":
            _score_by_plugins_of_their_own(profile)
    return json.dumps(document)


def _version(minor: int, number: int) -> str:
    """The newest version that a minor reads, or of two the one for this case."""
    if minor >= _V1_SINCE:
        return ("v1", "v1beta3")[number % 4 == 3]
    if minor >= _MULTI_POINT_SINCE:
        return "v1beta3"
    if minor >= _V1BETA2_SINCE:
        return ("v1beta1", "v1beta2")[number % 2]
    return "v1beta1"


def _leave_out(minor: int, profile: Object) -> None:
    """What the scheduler of a minor would refuse to start with."""
    plugins = profile.get("plugins", {})
    if minor < _QUEUE_SORT_WITH_DEFAULTS_SINCE:
        plugins.pop("queueSort", None)
    if minor < _MULTI_POINT_SINCE:
        plugins.pop("multiPoint", None)
    scores = plugins.get("score", {})
    if "enabled" in scores:
        scores["enabled"] = [item for item in scores["enabled"] if item["name"] != "NodeResourcesAllocatable"]
    left_out = {"NodeResourcesAllocatable"}
    if minor < _BALANCED_ARGUMENTS_SINCE:
        left_out.add("NodeResourcesBalancedAllocation")
    configured = [item for item in profile.get("pluginConfig", ()) if item["name"] not in left_out]
    for item in configured:
        arguments = item["args"]
        if item["name"] == "InterPodAffinity" and minor < _IGNORE_PREFERRED_SINCE:
            arguments.pop("ignorePreferredTermsOfExistingPods", None)
        for constraint in arguments.get("defaultConstraints", ()):
            if minor < _MIN_DOMAINS_SINCE:
                constraint.pop("minDomains", None)
            if minor < _INCLUSION_POLICIES_SINCE:
                constraint.pop("nodeAffinityPolicy", None)
                constraint.pop("nodeTaintsPolicy", None)
    if "pluginConfig" in profile:
        profile["pluginConfig"] = configured


def _score_by_plugins_of_their_own(profile: Object) -> None:
    """v1beta1 has a plugin for each strategy of NodeResourcesFit, and one of them on by default."""
    scores = profile.get("plugins", {}).get("score", {})
    for item in (*scores.get("enabled", ()), *scores.get("disabled", ())):
        if item["name"] == "NodeResourcesFit":
            item["name"] = _OWN_SCORES["LeastAllocated"]
    for item in profile.get("pluginConfig", ()):
        strategy = item["args"].pop("scoringStrategy", None) if item["name"] == "NodeResourcesFit" else None
        if strategy is None:
            continue
        name = _OWN_SCORES[strategy["type"]]
        arguments = {"resources": strategy["resources"]}
        arguments |= strategy.get("requestedToCapacityRatio", {})
        profile["pluginConfig"] = [*profile["pluginConfig"], {"name": name, "args": arguments}]
        if name != _OWN_SCORES["LeastAllocated"]:
            _score_by(profile, name)


def _score_by(profile: Object, name: str) -> None:
    """Another of these plugins in the place of the default one, where that scores."""
    scores = profile.setdefault("plugins", {}).setdefault("score", {})
    default = _OWN_SCORES["LeastAllocated"]
    enabled = scores.setdefault("enabled", [])
    named = [item for item in enabled if item["name"] == default]
    disabled = {item["name"] for item in scores.setdefault("disabled", [])}
    if named:
        named[0]["name"] = name
    elif not disabled & {default, "*"}:
        enabled.append({"name": name, "weight": 1})
        scores["disabled"].append({"name": default})
