"""The policy of kubernetes-sigs/descheduler, in its current version and the first, and OpenShift's.

Versions: v1alpha2 has profiles with a configuration for each plugin; v1alpha1 had a map of strategies with
parameters. Both are read as plugins with arguments and rules of eviction, which ``rules`` maps.

Each profile of OpenShift's KubeDescheduler is a list of plugins, which its operator writes into a policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from rebalancer.documents.reading import Path
from rebalancer.policy_import.mapping import Import, KeyFate
from rebalancer.policy_import.plugins import NO_SETTING, Arguments, Plugin, PrometheusProvider
from rebalancer.policy_import.rules import EVICTOR, map_rules, only_nodes

_LIMITS = {
    "maxNoOfPodsToEvictPerNode": "limits.perNode",
    "maxNoOfPodsToEvictPerNamespace": "limits.perNamespace",
    "maxNoOfPodsToEvictTotal": "limits.perRun",
}
_EVICTOR_OF_V1ALPHA1 = (
    "evictLocalStoragePods",
    "evictSystemCriticalPods",
    "ignorePvcPods",
    "evictFailedBarePods",
)
_EVICTING = ("deschedule", "balance")  # extension points of a profile
_IDLE = ("presort", "sort")
_FILTERING = ("filter", "preevictionfilter", "preEvictionFilter", "evict")
_EVICTOR_OF_PARAMS = ("thresholdPriority", "thresholdPriorityClassName", "nodeFit", "nodeSelector")
_BY_PLUGIN = (
    "nodeResourceUtilizationThresholds",
    "podsHavingTooManyRestarts",
    "podLifeTime",
    "removeDuplicates",
    "failedPods",
)


def current_policy(work: Import, value: Mapping[str, Any]) -> None:
    """Map a policy of v1alpha2."""
    _head(work, value)
    plugins: list[Plugin] = []
    evictors: list[Arguments] = []
    for index, profile in enumerate(work.items(("profiles",), value.get("profiles"))):
        at: Path = ("profiles", index)
        enabled, evictor = _profile(work, work.mapping(at, profile), at)
        plugins += enabled
        evictors.append(evictor)
    map_rules(work, plugins, evictors, ("profiles",), prometheus=_prometheus(work, value))
    for key in ("metricsProviders", "metricsCollector"):
        if key in value and not work.has_seen((key,)):
            work.note((key,), KeyFate.IDLE, "no plugin of this file reads metrics from it")
    ignored(work, (), value, _IN_ITS_PLACE)


_IN_ITS_PLACE = {
    "metadata": "its policies have no metadata",
    "strategies": (
        "it is of v1alpha1. In v1alpha2 each strategy is a plugin of a profile, and what stands here evicts "
        "nothing. Of a descheduler before 0.29, state the version: descheduler/v1alpha1"
    ),
    "namespaces": (
        "it belongs into the args of each plugin, and spares no namespace here. The setting of rebalancer is "
        "evictable.namespaces"
    ),
    "podProtections": (
        "it belongs into the args of DefaultEvictor, and protects no pod here. The setting of rebalancer is "
        "evictable.protect"
    ),
    "labelSelector": (
        "it belongs into the args of each plugin. The setting of rebalancer is evictable.podSelector"
    ),
    "evictLocalStoragePods": "it belongs into the args of DefaultEvictor",
    **dict.fromkeys(
        ("evictDaemonSetPods", "ignorePodsWithoutPDB", "minPodAge", "minReplicas"),
        "it belongs into the args of DefaultEvictor",
    ),
    "evictSystemCriticalPods": "it belongs into the args of DefaultEvictor",
    "evictFailedBarePods": "it belongs into the args of DefaultEvictor",
    "ignorePvcPods": "it belongs into the args of DefaultEvictor",
    "nodeFit": "it belongs into the args of DefaultEvictor",
    "priorityThreshold": "it belongs into the args of DefaultEvictor",
    "thresholdPriority": "it belongs into the args of DefaultEvictor, as priorityThreshold.value",
    "plugins": "it belongs into a profile",
    "pluginConfig": "it belongs into a profile",
}
"""Of keys that descheduler's decoder passes over: what the writer probably meant.

Source: kubernetes-sigs/descheduler v0.34 pkg/descheduler/scheme, whose codecs are not strict;
pkg/api/v1alpha2.
"""


def ignored(
    work: Import,
    path: Path,
    values: Mapping[str, Any],
    in_its_place: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Say of the keys of a mapping that nobody looked at that descheduler ignores them."""
    for key, value in values.items():
        here = (*path, key)
        if work.has_seen(here):
            continue
        if value in (None, [], {}) or key == "metadata":
            work.note(
                here,
                KeyFate.IDLE,
                in_its_place.get(key, "") or "it has no such key, and nothing stands there",
            )
        else:
            work.note(here, KeyFate.IGNORED, in_its_place.get(key, "it has no such key here"))


def _prometheus(work: Import, value: Mapping[str, Any]) -> PrometheusProvider | None:
    """The Prometheus that a policy names for its plugins; None where it names none."""
    for index, unchecked in enumerate(work.items(("metricsProviders",), value.get("metricsProviders"))):
        at: Path = ("metricsProviders", index)
        provider = work.mapping(at, unchecked)
        if provider.get("source") == "Prometheus":
            server = work.mapping((*at, "prometheus"), provider.get("prometheus"))
            return PrometheusProvider(server, (*at, "prometheus"))
    return None


def _head(work: Import, value: Mapping[str, Any]) -> None:
    """Map the keys at the top of a policy."""
    work.seen |= {("apiVersion",), ("kind",), ("profiles",)}
    for theirs, ours in _LIMITS.items():
        work.tighten((), value, theirs, ours)
    if isinstance(value.get("nodeSelector"), str):
        only_nodes(work, value["nodeSelector"], ("nodeSelector",))
    if "gracePeriodSeconds" in value:
        work.drop(("gracePeriodSeconds",), "a pod's own terminationGracePeriodSeconds holds")
    if "evictionFailureEventNotification" in value:
        why = "always: outcomes are in the report, the journal and the metrics"
        work.note(("evictionFailureEventNotification",), KeyFate.CHANGED, why)


def _profile(work: Import, profile: Mapping[str, Any], at: Path) -> tuple[list[Plugin], Arguments]:
    """The plugins that a profile enables, in its order, and its rules of eviction."""
    work.seen |= {(*at, "name"), (*at, "plugins"), (*at, "pluginConfig")}
    enabled = _enabled(work, profile.get("plugins"), (*at, "plugins"))
    configured: dict[str, tuple[Path, Arguments]] = {}
    for index, unchecked in enumerate(work.items((*at, "pluginConfig"), profile.get("pluginConfig"))):
        here: Path = (*at, "pluginConfig", index)
        entry = work.mapping(here, unchecked)
        name = str(entry.get("name", ""))
        arguments = Arguments(work.mapping((*here, "args"), entry.get("args")), (*here, "args"))
        work.seen |= {(*here, "name"), (*here, "args")}
        ignored(work, here, entry, dict.fromkeys(entry, "an entry has a name and args: it belongs into args"))
        configured[name] = (*here, "name"), arguments
        if name != EVICTOR and name not in enabled:
            work.note((*here, "name"), KeyFate.IDLE, "the profile does not enable this plugin")
            work.seen.add((*here, "args"))
    plugins = []
    for name, path in enabled.items():
        where, arguments = configured.get(name, (path, Arguments({}, path)))
        plugins.append(Plugin(name, where, arguments))
    ignored(work, at, profile)
    return plugins, configured.get(EVICTOR, (at, Arguments({}, at)))[1]


def _enabled(work: Import, plugins: Any, at: Path) -> dict[str, Path]:
    """The plugins of the extension points that evict, in their order, and where each is named."""
    paths: dict[str, Path] = {}
    points = work.mapping(at, plugins)
    for point in (*_EVICTING, *(name for name in points if name not in _EVICTING)):
        entry = work.mapping((*at, point), points.get(point))
        here = (*at, point)
        for index, name in enumerate(work.items((*here, "enabled"), entry.get("enabled"))):
            path: Path = (*here, "enabled", index)
            if point in _EVICTING:
                paths.setdefault(str(name), path)
            elif point in _IDLE:
                work.note(path, KeyFate.IDLE, "descheduler orders nothing by this")
            elif name == EVICTOR and point in _FILTERING:
                work.note(path, KeyFate.MAPPED, "evictable")
            else:
                work.drop(path, NO_SETTING)
        for index, _ in enumerate(work.items((*here, "disabled"), entry.get("disabled"))):
            work.note((*here, "disabled", index), KeyFate.IDLE, "descheduler turns nothing off by this")
    return paths


def first_policy(work: Import, value: Mapping[str, Any]) -> None:
    """Map a policy of v1alpha1."""
    _head(work, value)
    work.seen.add(("strategies",))
    plugins: list[Plugin] = []
    evictor = {key: value[key] for key in value if key in _EVICTOR_OF_V1ALPHA1}
    top: dict[str, Path] = {key: (key,) for key in evictor}
    evictors: list[Arguments] = []
    for name, unchecked in work.mapping(("strategies",), value.get("strategies")).items():
        at: Path = ("strategies", name)
        entry = work.mapping(at, unchecked)
        if entry.get("enabled") is not True:
            work.note(at, KeyFate.IDLE, "it is not enabled")
            continue
        inner: Path = (*at, "params")
        parameters = work.mapping(inner, entry.get("params"))
        work.seen.add(inner)
        places = {key: (*inner, key) for key in parameters}
        flat: dict[str, Any] = dict(parameters)
        for group in _BY_PLUGIN:
            nested = flat.pop(group, None)
            if isinstance(nested, Mapping):
                flat |= nested
                places |= {key: (*inner, group, key) for key in nested}
        common = {key: flat.pop(key) for key in _EVICTOR_OF_PARAMS if key in flat}
        evictors.append(Arguments({**evictor, **common}, inner, top))
        plugins.append(Plugin(str(name), at, Arguments(flat, inner, places)))
    map_rules(work, plugins, evictors or [Arguments(evictor, (), top)], ("strategies",))
    ignored(work, (), value, {"profiles": "it is of v1alpha2: what stands here evicts nothing"})


_RESOURCES = ("cpu", "memory", "pods")
_UTILIZATION = {"Low": (10, 30), "Medium": (20, 50), "": (20, 50), "High": (40, 70)}
_SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
_DUPLICATES = "RemoveDuplicates"
_LOAD = "LowNodeUtilization"
_RESTARTS: tuple[str, Mapping[str, Any]] = (
    "RemovePodsHavingTooManyRestarts",
    {"podRestartThreshold": 100, "includingInitContainers": True},
)
_SPARED = ("kube-system", "hypershift", "openshift-*")
_REQUIRED = ["requiredDuringSchedulingIgnoredDuringExecution"]
_PROFILES: Mapping[str, tuple[tuple[str, Mapping[str, Any]], ...]] = {
    "AffinityAndTaints": (
        ("RemovePodsViolatingInterPodAntiAffinity", {}),
        ("RemovePodsViolatingNodeTaints", {}),
        ("RemovePodsViolatingNodeAffinity", {"nodeAffinityType": _REQUIRED}),
    ),
    "TopologyAndDuplicates": ((_SPREAD, {"constraints": ["DoNotSchedule"]}), (_DUPLICATES, {})),
    "SoftTopologyAndDuplicates": (
        (_SPREAD, {"constraints": ["DoNotSchedule", "ScheduleAnyway"]}),
        (_DUPLICATES, {}),
    ),
    "LifecycleAndUtilization": (("PodLifeTime", {"maxPodLifeTimeSeconds": 86_400}), _RESTARTS, (_LOAD, {})),
    "LongLifecycle": (_RESTARTS, (_LOAD, {})),
    "DevPreviewLongLifecycle": (_RESTARTS, (_LOAD, {})),
    "CompactAndScale": (("HighNodeUtilization", {"thresholds": dict.fromkeys(_RESOURCES, 20)}),),
}
"""Source: openshift/cluster-kube-descheduler-operator, pkg/operator/profiles."""
_EVICTOR = {
    "EvictPodsWithPVC": ("ignorePvcPods", False),
    "EvictPodsWithLocalStorage": ("evictLocalStoragePods", True),
}
_OTHERS = dict.fromkeys(
    ("KubeVirtRelieveAndMigrate", "DevKubeVirtRelieveAndMigrate"),
    "it migrates virtual machines that run; keep the operator for it",
)


def operator_resource(work: Import, value: Mapping[str, Any]) -> None:
    """Map the spec of a KubeDescheduler."""
    work.seen |= {("apiVersion",), ("kind",), ("metadata",), ("status",), ("spec",)}
    spec = value.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    custom = spec.get("profileCustomizations")
    custom = custom if isinstance(custom, Mapping) else {}
    at: Path = ("spec", "profileCustomizations")
    listed: Path = ("spec", "profiles")
    work.seen |= {at, listed}
    profiles = spec.get("profiles")
    names = [str(name) for name in profiles] if isinstance(profiles, list) else []
    evictor = {"ignorePvcPods": True}
    places = {"ignorePvcPods": listed}
    plugins: list[Plugin] = []
    for index, name in enumerate(names):
        path: Path = (*listed, index)
        if name in _EVICTOR:
            key, evictor_value = _EVICTOR[name]
            evictor[key] = evictor_value
            places[key] = path
        elif name in _PROFILES:
            plugins += _plugins(name, path, custom, at)
            work.note(path, KeyFate.MAPPED, ", ".join(plugin for plugin, _ in _PROFILES[name]))
        else:
            work.drop(path, _OTHERS.get(name, "no strategy of ours has this aim"))
    priority = {
        key: custom[key] for key in ("thresholdPriority", "thresholdPriorityClassName") if key in custom
    }
    rules = Arguments({**evictor, **priority}, at, places)
    map_rules(work, plugins, [rules], listed, _SPARED)
    if plugins:
        why = "the operator spares these whatever its profiles say"
        work.add(listed, "evictable.namespaces.exclude", _SPARED, why)
    _others(work, spec, custom, at)
    for key in ("logLevel", "operatorLogLevel", "managementState"):
        if key in spec and spec[key] not in ("Unmanaged", "Removed"):
            work.note(("spec", key), KeyFate.IDLE, "it is about the operator, and evicts nothing else")
    work.drop_unseen(("spec",), spec, "the operator's own setting")
    work.drop_unseen(at, custom, NO_SETTING)


def _plugins(name: str, path: Path, custom: Mapping[str, Any], at: Path) -> Iterator[Plugin]:
    """The plugins of a profile, with what the customizations make of their arguments."""
    for plugin, arguments in _PROFILES[name]:
        values = dict(arguments)
        places = {}
        if plugin == "PodLifeTime" and isinstance(custom.get("podLifetime"), str):
            values = {"maxPodLifeTimeSeconds": custom["podLifetime"]}
            places["maxPodLifeTimeSeconds"] = (*at, "podLifetime")
        if plugin == _LOAD:
            values, places = _load(custom, at)
        if isinstance(spaces := custom.get("namespaces"), Mapping):
            named = (("included", "include"), ("excluded", "exclude"))
            chosen = {ours: spaces[theirs] for theirs, ours in named if isinstance(spaces.get(theirs), list)}
            if chosen:
                values["namespaces"] = chosen
                places["namespaces"] = (*at, "namespaces")
        yield Plugin(plugin, (*path, plugin), Arguments(values, (*path, plugin), places))


def _load(custom: Mapping[str, Any], at: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """The arguments of LowNodeUtilization, in whose profiles the operator ignores devDeviationThresholds."""
    chosen = str(custom.get("devLowNodeUtilizationThresholds") or "")
    low, high = _UTILIZATION.get(chosen, _UTILIZATION[""])
    key = "devLowNodeUtilizationThresholds"
    resources = ("MetricResource",) if custom.get("devActualUtilizationProfile") else _RESOURCES
    values: dict[str, Any] = {
        "thresholds": dict.fromkeys(resources, low),
        "targetThresholds": dict.fromkeys(resources, high),
    }
    places: dict[str, Path] = dict.fromkeys(values, (*at, key)) if key in custom else {}
    if custom.get("devActualUtilizationProfile"):
        values["metricsUtilization"] = {"source": "Prometheus"}
        places["metricsUtilization"] = (*at, "devActualUtilizationProfile")
    return values, places


def _others(work: Import, spec: Mapping[str, Any], custom: Mapping[str, Any], at: Path) -> None:
    """What is not about plugins."""
    seconds = spec.get("deschedulingIntervalSeconds")
    if isinstance(seconds, int) and not isinstance(seconds, bool):
        why = "set the schedule of the CronJob to the same"
        work.set(("spec", "deschedulingIntervalSeconds"), "hotNodes.runInterval", f"{seconds}s", why)
    if "mode" in spec:
        why = "Predictive is `rebalancer plan`, Automatic is `rebalancer run`"
        work.note(("spec", "mode"), KeyFate.CHANGED, why)
    if isinstance(limits := spec.get("evictionLimits"), Mapping):
        for theirs, ours in (("total", "limits.perRun"), ("node", "limits.perNode")):
            work.tighten(("spec", "evictionLimits"), limits, theirs, ours)
    if "devDeviationThresholds" in custom:
        why = "the operator reads it for the profile KubeVirtRelieveAndMigrate alone"
        work.note((*at, "devDeviationThresholds"), KeyFate.IDLE, why)
    for key in ("devLowNodeUtilizationThresholds", "podLifetime"):
        if key in custom and not work.has_seen((*at, key)):
            work.note((*at, key), KeyFate.IDLE, "no profile of this file has a plugin that it customizes")
