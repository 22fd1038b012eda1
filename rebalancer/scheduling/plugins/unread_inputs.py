"""Which inputs of a pod's verdict were not read: the landing of such a pod cannot be predicted."""

from __future__ import annotations

from rebalancer.cluster.columns.pod_classes import PodClass
from rebalancer.cluster.kinds import Kind
from rebalancer.profiles.types import ExtensionPoint, Profile
from rebalancer.scheduling.framework.inputs import Enabled, ObjectsRead
from rebalancer.scheduling.plugins.registry import MODELLED

_DECIDING = (ExtensionPoint.FILTER, ExtensionPoint.SCORE)


def unread_inputs(profile: Profile, pod: PodClass, objects: ObjectsRead) -> tuple[str, ...]:
    """The kinds, by plural, that the verdict on a pod of this class needs and that were not read; sorted.

    Also what is never read, such as the claims of generic ephemeral volumes: they are named after a pod that
    does not exist yet.
    """
    kinds: set[Kind] = set()
    missing = {
        f"the claim of its ephemeral volume {volume.name}"
        for volume in pod.spec.volumes or ()
        if volume.ephemeral is not None
    }
    for name in profile.plugin_names & MODELLED.keys():
        plugin = MODELLED[name]
        missing.update(plugin.never_read(pod))
        points = frozenset(point for point in _DECIDING if name in profile.enabled(point))
        if points:
            kinds.update(plugin.needs(pod, Enabled(profile.argument(name), points), objects))
    return tuple(sorted(missing | {kind.plural for kind in kinds if not objects.has(kind)}))
