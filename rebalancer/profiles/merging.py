"""Defaults and configured plugin sets, merged and expanded as kube-scheduler does.

Source: kubernetes v1.34.4 pkg/scheduler/apis/config/v1/default_plugins.go:85.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rebalancer.documents import Path
from rebalancer.profiles.decoding import WrittenConfiguration, WrittenPlugins, WrittenPluginSet
from rebalancer.profiles.defaults import VersionDefaults
from rebalancer.profiles.types import ExtensionPoint

MULTI_POINT = "multiPoint"
ALL = "*"


@dataclass(frozen=True, slots=True)
class Entry:
    """A plugin enabled somewhere: its weight (0: none given) and where that was written (None: a default)."""

    name: str
    weight: int = 0
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class MergedSet:
    """What is enabled at a point after merging, in order, and the names that are disabled."""

    enabled: tuple[Entry, ...] = ()
    disabled: frozenset[str] = frozenset()


class PluginTwiceError(Exception):
    """The same plugin is enabled twice at a point."""

    def __init__(self, entry: Entry, point: str) -> None:
        super().__init__(f"plugin {entry.name} is enabled twice at {point}")
        self.entry = entry


@dataclass(frozen=True, slots=True)
class Expanded:
    """The plugins of a profile at each extension point, in final order, and the weights of scores."""

    plugins: Mapping[ExtensionPoint, tuple[Entry, ...]]
    weights: Mapping[str, int] = field(default_factory=dict)


def merge(defaults: VersionDefaults, written: WrittenPlugins, base: Path) -> dict[str, MergedSet]:
    """Every plugin set of a profile with the defaults of its version, by key of the text."""
    keys = (MULTI_POINT, *ExtensionPoint) if defaults.has_multi_point else tuple(ExtensionPoint)
    merged = {}
    for key in keys:
        point = str(key)
        default = tuple(Entry(name, weight) for name, weight in defaults.points.get(point, ()))
        merged[point] = _merge_set(
            default, written.at(point), (*base, point, "enabled"), in_place=defaults.replaces_in_place
        )
    return merged


def _merge_set(
    default: tuple[Entry, ...], written: WrittenPluginSet, base: Path, *, in_place: bool
) -> MergedSet:
    """As mergePluginSet does (default_plugins.go:111)."""
    disabled = frozenset(plugin.name for plugin in written.disabled)
    custom = [
        Entry(plugin.name, plugin.weight, (*base, index)) for index, plugin in enumerate(written.enabled)
    ]
    enabled: list[Entry] = []
    if ALL not in disabled:
        for entry in default:
            if entry.name in disabled:
                continue
            replacement = next((own for own in custom if own.name == entry.name), None) if in_place else None
            if replacement is not None:
                custom.remove(replacement)
            enabled.append(replacement or entry)
    return MergedSet((*enabled, *custom), disabled)


def expand(merged: Mapping[str, MergedSet], implements: Callable[[str, ExtensionPoint], bool]) -> Expanded:
    """The final order at each extension point; PluginTwiceError when a plugin is enabled twice at one."""
    multi_point = merged.get(MULTI_POINT, MergedSet())
    _refuse_twice(multi_point.enabled, MULTI_POINT)
    plugins = {}
    for point in ExtensionPoint:
        plugins[point] = _expand_point(point, merged[point.value], multi_point, implements)
    scoring = (*merged[ExtensionPoint.SCORE.value].enabled, *multi_point.enabled)
    given: dict[str, int] = {}
    for entry in scoring:
        given.setdefault(entry.name, entry.weight or 1)
    return Expanded(plugins, {entry.name: given[entry.name] for entry in plugins[ExtensionPoint.SCORE]})


def _expand_point(
    point: ExtensionPoint,
    own: MergedSet,
    multi_point: MergedSet,
    implements: Callable[[str, ExtensionPoint], bool],
) -> tuple[Entry, ...]:
    """Overrides, then MultiPoint's, then the point's other ones (expandMultiPointPlugins)."""
    _refuse_twice(own.enabled, point.value)
    if ALL in own.disabled:
        return own.enabled
    named = {entry.name for entry in own.enabled}
    spread = [
        entry
        for entry in multi_point.enabled
        if implements(entry.name, point) and entry.name not in own.disabled
    ]
    overridden = {entry.name for entry in spread} & named
    return (
        *(entry for entry in own.enabled if entry.name in overridden),
        *(entry for entry in spread if entry.name not in named),
        *(entry for entry in own.enabled if entry.name not in overridden),
    )


def _refuse_twice(entries: tuple[Entry, ...], point: str) -> None:
    seen: set[str] = set()
    for entry in entries:
        if entry.name in seen:
            raise PluginTwiceError(entry, point)
        seen.add(entry.name)


def named_plugins(configuration: WrittenConfiguration) -> frozenset[str]:
    """Every plugin that is enabled, disabled or configured somewhere."""
    found: set[str] = set()
    for profile in configuration.profiles:
        found |= {config.name for config in profile.plugin_config}
        for point in type(profile.plugins).model_fields:
            at: WrittenPluginSet = getattr(profile.plugins, point)
            found |= {plugin.name for plugin in (*at.enabled, *at.disabled)}
    return frozenset(found - {ALL})
