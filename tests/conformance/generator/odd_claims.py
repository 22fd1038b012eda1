"""Claims and volumes that are not plain: promised, reserved, lost, going; drivers that publish capacity."""

from __future__ import annotations

from tests.conformance.generator.draws import ZONE, ZONES, Draws, Object

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MODES = (["ReadWriteOnce"], ["ReadOnlyMany"], ["ReadWriteMany"], ["ReadWriteOnce", "ReadOnlyMany"])


def distort(draws: Draws, claims: list[Object], volumes: list[Object], names: list[str]) -> None:
    """Change some of them in place."""
    for claim in claims:
        _distort_claim(draws, claim, volumes, names)
    for volume in volumes:
        _distort_volume(draws, volume, claims)


def _distort_claim(draws: Draws, claim: Object, volumes: list[Object], names: list[str]) -> None:
    metadata, spec = claim["metadata"], claim["spec"]
    free = [item["metadata"]["name"] for item in volumes if "claimRef" not in item["spec"]]
    unbound = "annotations" not in metadata
    if draws.chance(0.3):
        spec["accessModes"] = draws.one(MODES)
    if draws.chance(0.15):
        spec["volumeMode"] = "Block"
    if draws.chance(0.1):
        metadata.setdefault("annotations", {})[CLASS_ANNOTATION] = draws.one(
            ("waiting", "provisioned", "gone")
        )
    if draws.chance(0.05):
        del spec["storageClassName"]
    if draws.chance(0.04):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if draws.chance(0.03):
        claim["status"]["phase"] = "Lost"
    if unbound and draws.chance(0.15):
        metadata.setdefault("annotations", {})[SELECTED_NODE] = draws.one((*names, "gone"))
    if unbound and free and draws.chance(0.15):
        spec["volumeName"] = draws.one(free)
    if unbound and draws.chance(0.15):
        spec["selector"] = draws.one(
            (
                {"matchLabels": {ZONE: f"zone-{draws.one(ZONES)}"}},
                {"matchExpressions": [{"key": ZONE, "operator": draws.one(("Exists", "DoesNotExist"))}]},
            )
        )


def _distort_volume(draws: Draws, volume: Object, claims: list[Object]) -> None:
    spec = volume["spec"]
    if draws.chance(0.3):
        spec["accessModes"] = draws.one(MODES)
    if draws.chance(0.15):
        spec["volumeMode"] = "Block"
    if draws.chance(0.05):
        volume["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if "claimRef" in spec:
        return
    if draws.chance(0.15):
        volume["status"]["phase"] = draws.one(("Released", "Failed", "Pending"))
    if draws.chance(0.3):
        claim = draws.one(claims)["metadata"]
        spec["claimRef"] = {
            "kind": "PersistentVolumeClaim",
            "namespace": draws.one(("default", "other"), 4),
            "name": claim["name"],
        }
        if draws.chance(0.4):
            spec["claimRef"]["uid"] = draws.one((claim["uid"], "uid-of-another"))


def drivers(draws: Draws, names: tuple[str, ...]) -> list[Object]:
    """Some publish how much they have left, or keep pods away from nodes where they do not run."""
    return [
        {
            "metadata": {"name": name},
            "spec": {
                "storageCapacity": draws.chance(0.7),
                "preventPodSchedulingIfMissing": draws.chance(0.3),
            },
        }
        for name in names
        if draws.chance(0.7)
    ]


def capacities(draws: Draws, classes: tuple[str, ...]) -> list[Object]:
    """What is left, by class and zone, some of it nowhere or unknown.

    A scheduler of 1.37 panics where only the largest volume is known, so that is not drawn.
    """
    made = []
    for index in range(draws.number(0, 5)):
        item: Object = {
            "metadata": {"name": f"capacity-{index}", "namespace": "kube-system"},
            "storageClassName": draws.one(classes),
        }
        if draws.chance(0.9):
            item["nodeTopology"] = draws.one(({"matchLabels": {ZONE: f"zone-{draws.one(ZONES)}"}}, {}), 5)
        if draws.chance(0.9):
            item["capacity"] = draws.one(("100Gi", "2Gi", "4Gi", "0"))
        if "capacity" in item and draws.chance(0.3):
            item["maximumVolumeSize"] = draws.one(("100Gi", "1Gi", "4Gi"))
        made.append(item)
    return made
