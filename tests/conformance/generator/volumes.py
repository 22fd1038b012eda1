"""Claims, volumes, classes and CSI limits, and pods that use them."""

from __future__ import annotations

from tests.conformance.generator.draws import ZONE, ZONES, Draws, Object, without_empty

DRIVER = "csi.example.com"
CLASSES = ("immediate", "waiting", "provisioned")
COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}


def storage_classes(draws: Draws) -> list[Object]:
    """One of each binding mode, and one that provisions."""
    topology = [{"matchLabelExpressions": [{"key": ZONE, "values": [f"zone-{draws.one(ZONES)}"]}]}]
    none = "kubernetes.io/no-provisioner"
    return [
        {"metadata": {"name": "immediate"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"},
        {"metadata": {"name": "waiting"}, "provisioner": none, "volumeBindingMode": "WaitForFirstConsumer"},
        without_empty(
            {
                "metadata": {"name": "provisioned"},
                "provisioner": DRIVER,
                "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": topology if draws.chance(0.5) else None,
            }
        ),
    ]


def csi_nodes(draws: Draws, names: list[str]) -> list[Object]:
    """How many volumes each node can attach; some say nothing."""
    made = []
    for name in names:
        if draws.chance(0.8):
            driver = without_empty(
                {
                    "name": DRIVER,
                    "nodeID": name,
                    "topologyKeys": [ZONE],
                    "allocatable": {"count": draws.one((1, 0, 2, 3), 3)} if draws.chance(0.7) else None,
                }
            )
            made.append({"metadata": {"name": name}, "spec": {"drivers": [driver]}})
    return made


def _volume(draws: Draws, name: str, claim: str, bound: bool, storage_class: str) -> Object:
    labels = {ZONE: draws.one(("zone-a", "zone-b", "zone-a__zone-b"))} if draws.chance(0.3) else {}
    expression = {"key": ZONE, "operator": "In", "values": [f"zone-{draws.one(ZONES)}"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    spec = without_empty(
        {
            "capacity": {"storage": draws.one(("1Gi", "5Gi", "20Gi"))},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": storage_class,
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "nodeAffinity": affinity if draws.chance(0.6) else None,
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": claim}
            if bound
            else None,
        }
    )
    status = {"phase": "Bound" if bound else "Available"}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def claims_and_volumes(draws: Draws) -> tuple[list[Object], list[Object]]:
    """Claims that are bound, waiting or hopeless, and the volumes there are."""
    claims: list[Object] = []
    volumes: list[Object] = []
    for index in range(draws.number(2, 6)):
        name, storage_class = f"claim-{index}", draws.one(CLASSES, 1, 3, 3)
        bound = draws.chance(0.5)
        claims.append(
            {
                "metadata": without_empty(
                    {
                        "name": name,
                        "namespace": "default",
                        "uid": f"uid-{name}",
                        "annotations": COMPLETED if bound else None,
                    }
                ),
                "spec": without_empty(
                    {
                        "accessModes": [draws.one(("ReadWriteOnce", "ReadWriteOncePod"), 5)],
                        "storageClassName": storage_class,
                        "volumeMode": "Filesystem",
                        "resources": {"requests": {"storage": draws.one(("1Gi", "4Gi", "10Gi"))}},
                        "volumeName": f"volume-{index}" if bound else None,
                    }
                ),
                "status": {"phase": "Bound" if bound else "Pending"},
            }
        )
        if bound:
            volumes.append(_volume(draws, f"volume-{index}", name, True, storage_class))
            volumes[-1]["spec"]["claimRef"]["uid"] = f"uid-{name}"
    for index in range(draws.few(4)):
        volumes.append(_volume(draws, f"free-{index}", "", False, "waiting"))
    return claims, volumes


def use_volumes(draws: Draws, pod: Object, claims: list[Object]) -> None:
    """Mount claims, or disks of the kinds of old, into a pod of the default namespace."""
    pod["metadata"]["namespace"] = "default"
    volumes = pod["spec"].setdefault("volumes", [])
    for index, claim in enumerate(draws.some(claims, 2, 1)):
        name = "missing" if draws.chance(0.04) else claim["metadata"]["name"]
        volumes.append({"name": f"v{index}", "persistentVolumeClaim": {"claimName": name}})
    if draws.chance(0.15):
        read_only = draws.chance(0.5)
        volumes.append(
            {"name": "old"}
            | draws.one(
                (
                    {"gcePersistentDisk": {"pdName": "d1", "readOnly": read_only}},
                    {"awsElasticBlockStore": {"volumeID": "v1", "readOnly": read_only}},
                    {"iscsi": {"targetPortal": "p", "iqn": "q1", "lun": 0, "readOnly": read_only}},
                    {"rbd": {"monitors": ["m1", "m2"], "image": "i", "pool": "p", "readOnly": read_only}},
                )
            )
        )
