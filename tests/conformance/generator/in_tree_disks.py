"""Disks of the in-tree kinds that CSI drivers took over: volumes, disks in pods, and what nodes say of it."""

from __future__ import annotations

from tests.conformance.generator.draws import BETA_ZONE, ZONE, Draws, Object, without_empty

MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
DRIVERS = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "azureDisk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
}
PLUGINS = (
    "kubernetes.io/aws-ebs",
    "kubernetes.io/gce-pd",
    "kubernetes.io/azure-disk",
    "kubernetes.io/cinder",
)
ZONE_KEYS = (
    "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone",
    "topology.cinder.csi.openstack.org/zone",
)


def disk(draws: Draws, read_only: bool) -> Object:
    """The source of a volume; few names, so that pods share disks."""
    return draws.one(
        (
            {"gcePersistentDisk": {"pdName": draws.one(("d1", "d2")), "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": draws.one(("v1", "vol-2")), "readOnly": read_only}},
            {"azureDisk": {"diskName": "a", "diskURI": draws.one(("/disks/a1", "/disks/a2"))}},
            {"cinder": {"volumeID": draws.one(("c1", "c2"))}},
        )
    )


def volume_source(draws: Draws) -> Object:
    """The source of a persistent volume, some of them named as cloud providers did."""
    if draws.chance(0.2):
        return {"awsElasticBlockStore": {"volumeID": "aws://zone-a/vol-2"}}
    return disk(draws, read_only=False)


def zone_labels(draws: Draws) -> Object:
    """Labels of a persistent volume: one zone or two, in the words of today or of old."""
    if draws.chance(0.4):
        return {}
    return {draws.one((ZONE, BETA_ZONE), 3): draws.one(("eu-1-a", "zone-a", "eu-1-a__eu-1-b"), 2, 3)}


def driver_labels(draws: Draws) -> Object:
    """What the drivers' node plugins label a node with."""
    return {key: draws.one(("zone-a", "zone-b", "eu-1-a")) for key in draws.some(ZONE_KEYS, 3)}


def limits(draws: Draws) -> list[Object]:
    """Entries of a CSINode for these drivers."""
    return [
        without_empty(
            {
                "name": driver,
                "nodeID": "n",
                "allocatable": {"count": draws.one((1, 0, 2, 3), 3)} if draws.chance(0.8) else None,
            }
        )
        for driver in draws.some(tuple(DRIVERS.values()), 4)
    ]


def handed_over(draws: Draws) -> Object:
    """Annotations of a CSINode: the plugins that its kubelet has handed over."""
    return {MIGRATED: ",".join(draws.some(PLUGINS, 4))} if draws.chance(0.7) else {}
