"""Which inputs of a pod's verdict were not read: the landing of such a pod cannot be predicted."""

from __future__ import annotations

from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.cluster.kinds import Kind
from rebalancer.profiles.types import ExtensionPoint, Profile
from rebalancer.scheduling.framework.inputs import Enabled, ObjectsRead
from rebalancer.scheduling.framework.plugin import Plugin
from rebalancer.scheduling.plugins.registry import MODELLED

_DECIDING = (ExtensionPoint.FILTER, ExtensionPoint.SCORE)


class UnreadInputs:
    """What the verdicts of one profile need and lack; how it enables its plugins is looked up once."""

    def __init__(self, profile: Profile, objects: ObjectsRead) -> None:
        self._objects = objects
        self._plugins: list[tuple[type[Plugin], Enabled]] = []
        for name in sorted(profile.plugin_names & MODELLED.keys()):
            points = frozenset(point for point in _DECIDING if name in profile.enabled(point))
            self._plugins.append((MODELLED[name], Enabled(profile.argument(name), points)))

    def of(self, pod: PodClass) -> tuple[str, ...]:
        """The kinds, by plural, that the verdict on a pod of this class needs and that were not read; sorted.

        Also what is never read, such as the claims of generic ephemeral volumes: they are named after a pod
        that does not exist yet.
        """
        kinds: set[Kind] = set()
        missing = {
            f"the claim of its ephemeral volume {volume.name}"
            for volume in pod.spec.volumes or ()
            if volume.ephemeral is not None
        }
        for plugin, enabled in self._plugins:
            missing.update(plugin.never_read(pod))
            if enabled.points:
                kinds.update(plugin.needs(pod, enabled, self._objects))
        return tuple(sorted(missing | {kind.plural for kind in kinds if not self._objects.has(kind)}))
