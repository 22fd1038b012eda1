"""What the volume plugins say of cases the recorded decisions do not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from rebalancer.load.scheduler_view import EMPTY_VIEW
from rebalancer.scheduling.framework.cycle import Scheduler
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer.scheduling.registry import load_configuration, make_scheduler
from rebalancer.scheduling.state.cluster_state import ClusterState
from rebalancer.scheduling.versions.release import REFERENCE, Release
from tests.builders import a_node, a_pod, a_snapshot
from tests.rows import rows

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
LAZY = {"metadata": {"name": "lazy"}, "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer"}


def _claim(name: str = "c", annotations: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations or {}}
    request = {"resources": {"requests": {"storage": "10Gi"}}}
    return {"metadata": metadata, "spec": {**request, "storageClassName": "lazy", **spec}}


def _volume(name: str, capacity: str = "10Gi", **spec: Any) -> dict[str, Any]:
    content = {"capacity": {"storage": capacity}, "storageClassName": "lazy", **spec}
    return {"metadata": {"name": name}, "spec": content, "status": {"phase": "Available"}}


def _two_nodes(
    pods: Iterable[Mapping[str, Any]], release: str = REFERENCE, **kinds: Any
) -> tuple[Scheduler, ClusterState, int]:
    """A scheduler of two nodes, and the class of the pod named ``p``."""
    snapshot = a_snapshot(
        nodes=[a_node("n-1", labels={"rack": "a"}), a_node("n-2", labels={"rack": "b"})],
        pods=pods,
        **kinds,
    )
    configuration = load_configuration(V1, "test")
    inputs = PluginInputs.of(snapshot, EMPTY_VIEW)
    scheduler = make_scheduler(configuration, configuration.profiles[0], inputs)
    state = ClusterState.of(snapshot, Release.of(release))
    return scheduler, state, state.pod_class[snapshot.pods.row["default", "p"]]


def _rejections(pods: Iterable[Mapping[str, Any]], release: str = REFERENCE, **kinds: Any) -> dict[str, str]:
    """Why each of two nodes rejects the pod named ``p``."""
    scheduler, state, pod_class = _two_nodes(pods, release, **kinds)
    found = scheduler.rejections(state, pod_class)
    return {state.nodes.names[row]: reason for row, reason in found.items()}


def _capacity(rack: str, amount: str, **more: Any) -> dict[str, Any]:
    """What a driver says it has left on the nodes of a rack."""
    return {
        "metadata": {"name": f"{rack}-{amount}".lower()},
        "storageClassName": "lazy",
        "nodeTopology": {"matchLabels": {"rack": rack}},
        "capacity": amount,
        **more,
    }


PUBLISHES = {"metadata": {"name": "d"}, "spec": {"storageCapacity": True}}


def _scored(release: str, *capacities: dict[str, Any], **kinds: Any) -> tuple[list[int], dict[str, float]]:
    """The scores of VolumeBinding by node, none where it does not score, and the chances."""
    scheduler, state, pod_class = _two_nodes(
        [a_pod("p", volumes=CLAIM)],
        release,
        persistentvolumeclaims=[_claim()],
        storageclasses=[LAZY],
        csidrivers=[PUBLISHES],
        csistoragecapacities=capacities,
        **kinds,
    )
    placed = scheduler.place(state, pod_class)
    names = [state.nodes.names[row] for row in placed.feasible]
    scores = placed.scores["VolumeBinding"].tolist() if "VolumeBinding" in placed.scores else []
    return scores, dict(zip(names, placed.chance.tolist(), strict=True))


def test_a_claim_goes_where_it_takes_the_smaller_share_of_what_is_left_since_1_37() -> None:
    """10Gi of 20Gi are half, of 100Gi a tenth: 50 and 90 of 100 points."""
    little, much = _capacity("a", "20Gi"), _capacity("b", "100Gi")
    assert _scored("1.37", little, much) == ([50, 90], {"n-1": 0.0, "n-2": 1.0})
    assert _scored("1.36", little, much)[0] == []


def test_a_free_volume_that_is_found_scores_before_any_capacity() -> None:
    """The volume of 12Gi is found on both nodes; the capacities are not asked for."""
    found = _scored("1.37", _capacity("a", "20Gi"), persistentvolumes=[_volume("v", "12Gi")])
    assert found[0] == [17, 17]


def test_a_capacity_that_says_only_its_largest_volume_stops_a_scheduler_that_scores_by_it() -> None:
    unknown = _capacity("a", "100Gi", maximumVolumeSize="50Gi")
    del unknown["capacity"]
    assert sum(_scored("1.37", unknown, _capacity("b", "50Gi"))[1].values()) == 0.0
    assert sum(_scored("1.36", unknown, _capacity("b", "50Gi"))[1].values()) == pytest.approx(1.0)


def test_of_several_capacities_that_suffice_any_may_be_scored() -> None:
    """The first node may score 50 or 90, the second 80: each may be chosen."""
    capacities = [_capacity("a", "20Gi"), _capacity("a", "100Gi"), _capacity("b", "50Gi")]
    assert all(0.0 < chance < 1.0 for chance in _scored("1.37", *capacities)[1].values())


@pytest.mark.parametrize(
    ("release", "asked", "rejected"), [("1.37", True, True), ("1.37", False, False), ("1.36", True, False)]
)
def test_a_driver_may_keep_pods_away_from_nodes_without_it_since_1_37(
    release: str, asked: bool, rejected: bool
) -> None:
    volume = {"metadata": {"name": "mine"}, "spec": {"csi": {"driver": "d", "volumeHandle": "mine"}}}
    found = _rejections(
        [a_pod("p", volumes=CLAIM)],
        release,
        persistentvolumeclaims=[_claim(annotations=BOUND, volumeName="mine")],
        persistentvolumes=[volume],
        csinodes=[{"metadata": {"name": "n-2"}, "spec": {"drivers": [{"name": "d"}]}}],
        csidrivers=[{"metadata": {"name": "d"}, "spec": {"preventPodSchedulingIfMissing": asked}}],
    )
    wanted = {"n-1": "NodeVolumeLimits: d CSI driver is not installed on the node"}
    assert found == (wanted if rejected else {})


def test_a_driver_that_publishes_capacity_needs_enough_of_it_in_reach_of_the_node() -> None:
    capacities = [
        _capacity(rack, "100Gi", maximumVolumeSize=largest) for rack, largest in (("a", "20Gi"), ("b", "5Gi"))
    ]
    found = _rejections(
        [a_pod("p", volumes=CLAIM)],
        persistentvolumeclaims=[_claim()],
        storageclasses=[LAZY],
        csidrivers=[PUBLISHES],
        csistoragecapacities=capacities,
    )
    assert found == {"n-2": "VolumeBinding: node(s) did not have enough free storage"}


def test_a_claim_promised_to_a_node_goes_nowhere_else() -> None:
    claim = _claim(annotations={"volume.kubernetes.io/selected-node": "n-2"})
    found = _rejections([a_pod("p", volumes=CLAIM)], persistentvolumeclaims=[claim], storageclasses=[LAZY])
    assert found == {"n-1": "VolumeBinding: node(s) didn't find available persistent volumes to bind"}


def test_two_claims_do_not_share_a_free_volume() -> None:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("c", "other")]
    found = _rejections(
        [a_pod("p", volumes=volumes)],
        persistentvolumeclaims=[_claim(), _claim("other")],
        storageclasses=[{**LAZY, "provisioner": "kubernetes.io/no-provisioner"}],
        persistentvolumes=[_volume("only")],
    )
    assert set(found) == {"n-1", "n-2"}


def test_a_volume_reserved_for_the_claim_is_taken_rather_than_a_smaller_one() -> None:
    rack = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["b"]}]}
    reserved = _volume(
        "reserved",
        "50Gi",
        claimRef={"namespace": "default", "name": "c", "uid": "uid-c"},
        nodeAffinity={"required": {"nodeSelectorTerms": [rack]}},
    )
    found = _rejections(
        [a_pod("p", volumes=CLAIM)],
        persistentvolumeclaims=[_claim()],
        storageclasses=[{**LAZY, "provisioner": "kubernetes.io/no-provisioner"}],
        persistentvolumes=[reserved, _volume("small")],
    )
    assert set(found) == {"n-1"}


def test_a_volume_left_attached_takes_room_of_its_driver() -> None:
    volumes = [
        {"metadata": {"name": name}, "spec": {"csi": {"driver": "d", "volumeHandle": name}}}
        for name in ("mine", "left")
    ]
    limits = [
        {"metadata": {"name": name}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": 1}}]}}
        for name in ("n-1", "n-2")
    ]
    left = {"attacher": "d", "nodeName": "n-1", "source": {"persistentVolumeName": "left"}}
    found = _rejections(
        [a_pod("p", volumes=CLAIM)],
        persistentvolumeclaims=[_claim(annotations=BOUND, volumeName="mine")],
        persistentvolumes=volumes,
        csinodes=limits,
        volumeattachments=[{"metadata": {"name": "a"}, "spec": left}],
    )
    assert found == {"n-1": "NodeVolumeLimits: node(s) exceed max volume count"}


def test_a_volume_that_is_attached_already_counts_beside_the_pod_that_wants_it() -> None:
    mine = {"metadata": {"name": "mine"}, "spec": {"csi": {"driver": "d", "volumeHandle": "mine"}}}
    limits = [
        {"metadata": {"name": name}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": 1}}]}}
        for name in ("n-1", "n-2")
    ]
    attached = {"attacher": "d", "nodeName": "n-1", "source": {"persistentVolumeName": "mine"}}
    found = _rejections(
        [a_pod("p", volumes=CLAIM)],
        persistentvolumeclaims=[_claim(annotations=BOUND, volumeName="mine")],
        persistentvolumes=[mine],
        csinodes=limits,
        volumeattachments=[{"metadata": {"name": "a"}, "spec": attached}],
    )
    assert found == {"n-1": "NodeVolumeLimits: node(s) exceed max volume count"}


def test_the_ephemeral_volume_of_a_pod_on_a_node_takes_room_of_its_driver() -> None:
    volumes = [
        {"metadata": {"name": name}, "spec": {"csi": {"driver": "d", "volumeHandle": name}}}
        for name in ("mine", "scratch")
    ]
    limits = [
        {"metadata": {"name": name}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": 1}}]}}
        for name in ("n-1", "n-2")
    ]
    found = _rejections(
        [
            a_pod("p", volumes=CLAIM),
            a_pod("other", node="n-1", volumes=[{"name": "scratch", "ephemeral": {}}]),
        ],
        persistentvolumeclaims=[
            _claim(annotations=BOUND, volumeName="mine"),
            _claim("other-scratch", annotations=BOUND, volumeName="scratch"),
        ],
        persistentvolumes=volumes,
        csinodes=limits,
    )
    assert found == {"n-1": "NodeVolumeLimits: node(s) exceed max volume count"}


@rows(
    "disk, driver, counts",
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, "ebs.csi.aws.com", True),
        ({"awsElasticBlockStore": {"volumeID": "aws://eu-1a/no-volume"}}, "ebs.csi.aws.com", False),
        ({"gcePersistentDisk": {"pdName": "d"}}, "pd.csi.storage.gke.io", True),
        ({"azureDisk": {"diskName": "a", "diskURI": "/d/a", "kind": "Managed"}}, "disk.csi.azure.com", True),
        ({"azureDisk": {"diskName": "a", "diskURI": "/d/a", "kind": "Shared"}}, "disk.csi.azure.com", False),
        ({"cinder": {"volumeID": "c"}}, "cinder.csi.openstack.org", True),
        ({"portworxVolume": {"volumeID": "c"}}, "pxd.portworx.com", True),
    ],
)
def test_a_disk_of_an_in_tree_kind_takes_room_of_the_driver_that_took_it_over(
    disk: dict[str, Any], driver: str, counts: bool
) -> None:
    limits = [
        {"metadata": {"name": "n-1"}, "spec": {"drivers": [{"name": driver, "allocatable": {"count": 0}}]}}
    ]
    found = _rejections([a_pod("p", volumes=[{"name": "disk", **disk}])], csinodes=limits)
    assert ("n-1" in found) == counts
    assert "n-2" not in found


def test_a_disk_is_written_by_one_pod_of_a_node_and_read_by_many() -> None:
    def disk(read_only: bool) -> list[dict[str, Any]]:
        return [{"name": "d", "gcePersistentDisk": {"pdName": "disk", "readOnly": read_only}}]

    conflict = {"n-1": "VolumeRestrictions: node(s) had no available disk"}
    for incoming, there, expected in (
        (True, True, {}),
        (True, False, conflict),
        (False, True, conflict),
        (False, False, conflict),
    ):
        pods = [a_pod("p", volumes=disk(incoming)), a_pod("q", node="n-1", volumes=disk(there))]
        assert _rejections(pods) == expected


def test_a_one_pod_claim_in_use_rejects_every_node_until_its_pod_is_gone() -> None:
    claim = _claim(annotations=BOUND, volumeName="mine", accessModes=["ReadWriteOncePod"])
    pods = [a_pod("p", volumes=CLAIM), a_pod("q", node="n-1", volumes=CLAIM)]
    found = _rejections(pods, persistentvolumeclaims=[claim], persistentvolumes=[_volume("mine")])
    assert set(found) == {"n-1", "n-2"}
    assert all("ReadWriteOncePod" in reason for reason in found.values())


def _on(volume: dict[str, Any], *racks: str) -> dict[str, Any]:
    """The volume, reached from the nodes of these racks alone."""
    rack = {"matchExpressions": [{"key": "rack", "operator": "In", "values": list(racks)}]}
    volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [rack]}}
    return volume


def _landings_after(*volumes: dict[str, Any]) -> dict[str, float]:
    """Where pod q lands, by node, after pod p of node n-1 took one of these volumes."""
    snapshot = a_snapshot(
        nodes=[a_node(f"n-{number}", labels={"rack": rack}) for number, rack in enumerate("abcd", 1)],
        pods=[
            a_pod("p", volumes=CLAIM),
            a_pod("q", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "other"}}]),
        ],
        persistentvolumeclaims=[_claim(), _claim("other")],
        storageclasses=[{**LAZY, "provisioner": "kubernetes.io/no-provisioner"}],
        persistentvolumes=volumes,
    )
    configuration = load_configuration(V1, "test")
    inputs = PluginInputs.of(snapshot, EMPTY_VIEW)
    scheduler = make_scheduler(configuration, configuration.profiles[0], inputs)
    state = ClusterState.of(snapshot)
    first, second = (snapshot.pods.row["default", name] for name in ("p", "q"))
    state.bind(first, state.nodes.names.index("n-1"))
    placed = scheduler.place(state, state.pod_class[second], second)
    names = [state.nodes.names[row] for row in placed.feasible]
    chances = zip(names, placed.chance.tolist(), strict=True)
    return {name: chance for name, chance in chances if chance}


def test_which_of_two_volumes_of_equal_size_was_taken_is_unknown_where_they_reach_other_nodes() -> None:
    """One reaches n-1 and n-2, the other n-1 and n-3: what is left may lead to any of these."""
    landings = _landings_after(_on(_volume("v-1"), "a", "b"), _on(_volume("v-2"), "a", "c"))
    assert landings == pytest.approx({"n-1": 1 / 3, "n-2": 1 / 3, "n-3": 1 / 3})


def test_which_of_two_volumes_was_taken_is_known_where_one_is_smaller_or_they_are_alike() -> None:
    smaller = _landings_after(_on(_volume("v-1", "11Gi"), "a", "b"), _on(_volume("v-2"), "a", "c"))
    assert set(smaller) == {"n-2"}
    alike = _landings_after(*(_on(_volume(name), "a", "b") for name in ("v-1", "v-2")))
    assert set(alike) == {"n-2"}
    none_left = _landings_after(_on(_volume("v-1"), "a", "b"), _on(_volume("v-2", "1Gi"), "a", "b"))
    assert none_left == {}


def test_a_pod_whose_own_claims_compete_for_volumes_may_land_wherever_they_may_suffice() -> None:
    """The claim without a selector may take the only volume that the other one accepts."""
    chosen = _volume("b-chosen")
    chosen["metadata"]["labels"] = {"disk": "fast"}
    scheduler, state, pod_class = _two_nodes(
        [
            a_pod(
                "p",
                volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("c", "d")],
            )
        ],
        persistentvolumeclaims=[_claim(), _claim("d", selector={"matchLabels": {"disk": "fast"}})],
        storageclasses=[{**LAZY, "provisioner": "kubernetes.io/no-provisioner"}],
        persistentvolumes=[_volume("c-any"), chosen],
    )
    assert scheduler.place(state, pod_class).chance.tolist() == [0.5, 0.5]


def test_three_claims_do_not_share_two_volumes_that_suit_all_of_them() -> None:
    names = ("c", "d", "e")
    found = _rejections(
        [
            a_pod(
                "p", volumes=[{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
            )
        ],
        persistentvolumeclaims=[_claim(name) for name in names],
        storageclasses=[{**LAZY, "provisioner": "kubernetes.io/no-provisioner"}],
        persistentvolumes=[_on(_volume("v-1"), "a", "b"), _volume("v-2")],
    )
    assert set(found) == {"n-1", "n-2"}
