"""Claims, volumes, classes and CSI limits, and pods that use them."""

from __future__ import annotations

from tests.conformance.generator import in_tree_disks, odd_claims
from tests.conformance.generator.draws import BETA_ZONE, HOSTNAME, ZONE, ZONES, Draws, Object, without_empty

DRIVER = "csi.example.com"
CLASSES = ("immediate", "waiting", "provisioned", "in-tree")
COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}


def storage_classes(draws: Draws) -> list[Object]:
    """One of each binding mode, and one that provisions."""
    topology = [{"matchLabelExpressions": [{"key": ZONE, "values": [f"zone-{draws.one(ZONES)}"]}]}]
    none = "kubernetes.io/no-provisioner"
    later = "WaitForFirstConsumer"
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
        {
            "metadata": {"name": "in-tree"},
            "provisioner": draws.one(in_tree_disks.PLUGINS),
            "volumeBindingMode": later,
        },
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
            metadata = without_empty({"name": name, "annotations": in_tree_disks.handed_over(draws)})
            made.append({"metadata": metadata, "spec": {"drivers": [driver, *in_tree_disks.limits(draws)]}})
    return made


def attachments(draws: Draws, names: list[str], volumes: list[Object]) -> list[Object]:
    """Volumes attached to nodes, whether a pod uses them or not; now and then of nothing, or by nobody."""
    made = []
    for index in range(draws.few(5)):
        volume = draws.one(volumes)["metadata"]["name"] if volumes and draws.chance(0.9) else "gone"
        spec = {
            "attacher": draws.one((DRIVER, "other.example.com"), 9),
            "nodeName": draws.one(names),
            "source": {"persistentVolumeName": volume},
        }
        made.append({"metadata": {"name": f"attachment-{index}"}, "spec": spec, "status": {"attached": True}})
    return made


def add_ephemeral(draws: Draws, pod: Object, claims: list[Object], volumes: list[Object]) -> None:
    """A generic ephemeral volume of a pod on a node, with the claim that was made for it."""
    metadata = pod["metadata"]
    metadata["namespace"] = "default"
    name = f"{metadata['name']}-scratch"
    request = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    template = {"spec": request | {"storageClassName": "provisioned"}}
    pod["spec"].setdefault("volumes", []).append(
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    )
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    claim = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "annotations": COMPLETED,
            "ownerReferences": [owner | {"controller": True}],
        },
        "spec": template["spec"] | {"volumeMode": "Filesystem", "volumeName": f"volume-of-{name}"},
        "status": {"phase": "Bound"},
    }
    claims.append(claim)
    volumes.append(_volume(draws, f"volume-of-{name}", name, True, "provisioned"))
    volumes[-1]["spec"]["claimRef"]["uid"] = f"uid-{name}"


def _volume(draws: Draws, name: str, claim: str, bound: bool, storage_class: str) -> Object:
    labels = {ZONE: draws.one(("zone-a", "zone-b", "zone-a__zone-b"))} if draws.chance(0.3) else {}
    expression = {"key": ZONE, "operator": "In", "values": [f"zone-{draws.one(ZONES)}"]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    source: Object = {"csi": {"driver": DRIVER, "volumeHandle": name}}
    if draws.chance(0.35):
        source = in_tree_disks.volume_source(draws)
        labels = in_tree_disks.zone_labels(draws)
        if draws.chance(0.3):
            expression["key"] = BETA_ZONE
    spec = without_empty(
        {
            "capacity": {"storage": draws.one(("1Gi", "5Gi", "20Gi"))},
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": storage_class,
            **source,
            "nodeAffinity": affinity if draws.chance(0.6) else None,
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": claim}
            if bound
            else None,
        }
    )
    status = {"phase": "Bound" if bound else "Available"}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def _local_volume(draws: Draws, name: str, node: str) -> Object:
    """A disk of one node, free for a claim of the class that has no provisioner."""
    expression = {"key": HOSTNAME, "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": draws.one(("1Gi", "5Gi", "20Gi"))},
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "persistentVolumeReclaimPolicy": draws.one(("Retain", "Delete")),
        "storageClassName": "waiting",
        "local": {"path": f"/mnt/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}


def claims_and_volumes(draws: Draws, names: list[str]) -> tuple[list[Object], list[Object]]:
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
    volumes += [_volume(draws, f"free-{index}", "", False, "waiting") for index in range(draws.few(4))]
    volumes += [_local_volume(draws, f"local-{index}", draws.one(names)) for index in range(draws.few(3))]
    return claims, volumes


def use_volumes(draws: Draws, pod: Object, claims: list[Object]) -> None:
    """Mount claims, or disks of the kinds of old, into a pod of the default namespace."""
    pod["metadata"]["namespace"] = "default"
    volumes = pod["spec"].setdefault("volumes", [])
    for index, claim in enumerate(draws.some(claims, 2, 1)):
        name = "missing" if draws.chance(0.04) else claim["metadata"]["name"]
        volumes.append({"name": f"v{index}", "persistentVolumeClaim": {"claimName": name}})
    if draws.chance(0.3):
        read_only = draws.chance(0.5)
        volumes.append(
            {"name": "old"}
            | draws.one(
                (
                    in_tree_disks.disk(draws, read_only),
                    in_tree_disks.disk(draws, read_only),
                    {"iscsi": {"targetPortal": "p", "iqn": "q1", "lun": 0, "readOnly": read_only}},
                    {"rbd": {"monitors": ["m1", "m2"], "image": "i", "pool": "p", "readOnly": read_only}},
                )
            )
        )


def label_by_drivers(draws: Draws, node: Object) -> None:
    """Zones as drivers label a node with them, and limits as old kubelets wrote them into its allocatable."""
    node["metadata"]["labels"] |= in_tree_disks.driver_labels(draws)
    if draws.chance(0.1):
        node["status"]["allocatable"][f"attachable-volumes-csi-{DRIVER}"] = draws.one(("1", "0", "3"))


def storage(
    draws: Draws, nodes: list[Object], pods: list[Object], pending: list[Object], *, odd: bool
) -> Object:
    """The storage objects of a case by plural; mounts them into its pods, and marks its nodes."""
    names = [item["metadata"]["name"] for item in nodes]
    claims, existing = claims_and_volumes(draws, names)
    made: Object = {
        "persistentVolumeClaims": claims,
        "persistentVolumes": existing,
        "storageClasses": storage_classes(draws),
        "csiNodes": csi_nodes(draws, names),
        "volumeAttachments": attachments(draws, names, existing),
    }
    for item in (*pods, *pending):
        if draws.chance(0.6):
            use_volumes(draws, item, claims)
    for item in pods:
        if draws.chance(0.08):
            add_ephemeral(draws, item, claims, existing)
    for item in nodes:
        label_by_drivers(draws, item)
    if odd:
        odd_claims.distort(draws, claims, existing, names)
        made["csiDrivers"] = odd_claims.drivers(draws, (DRIVER,))
        made["csiStorageCapacities"] = odd_claims.capacities(draws, CLASSES)
    return made
