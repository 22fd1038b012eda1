"""Nodes: missing and old labels, taints of every effect, odd and zero capacities, images of several sizes."""

from __future__ import annotations

from tests.conformance.generator.draws import (
    APPS,
    BETA_REGION,
    BETA_ZONE,
    GPU,
    HOSTNAME,
    REGION,
    ZONE,
    ZONES,
    Draws,
    Object,
    without_empty,
)

CPUS = ("4", "2", "1", "8", "16", "3920m", "500m", "1500m", "0", "100m", "2.5", "3e0", "7999999u")
MEMORIES = (
    "8Gi",
    "4Gi",
    "2Gi",
    "1Gi",
    "16Gi",
    "7935Mi",
    "1500M",
    "209715200",
    "0",
    "123456789",
    "1.5Gi",
    "2e9",
    "3999999999m",
)
TAINT_KEYS = ("maint", "dedicated", "node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MEBI = 1 << 20


def image_names(draws: Draws) -> list[str]:
    """Names of one image as a node may list it: without tag, with one, from a registry with a port."""
    app = draws.one(APPS)
    return [draws.one((app, f"{app}:latest", f"{app}:v2", f"registry.example:5000/{app}", f"r.io/{app}:v1"))]


def _image(draws: Draws) -> Object:
    names = image_names(draws)
    if draws.chance(0.3):
        names.append(f"{names[0].split(':')[0]}@sha256:{'ab' * 32}")
    size = draws.one(
        (23 * MEBI, 23 * MEBI - 1, 100 * MEBI, 1000 * MEBI, 1001 * MEBI, 0, draws.number(1, 4000) * MEBI),
        1, 1, 2, 1, 1, 1, 6,
    )  # fmt: skip
    return {"names": names, "sizeBytes": size}


def node(draws: Draws, index: int, emphasis: frozenset[str]) -> Object:
    """One node; what the emphasis names appears often, everything else now and then."""
    name = f"node-{index:02}"

    def likely(feature: str, usual: float = 0.1) -> bool:
        return draws.chance(0.6 if feature in emphasis else usual)

    labels: Object = {HOSTNAME: name} if draws.chance(0.95) else {}
    if draws.chance(0.85):
        labels[ZONE] = f"zone-{draws.one(ZONES)}"
    if draws.chance(0.6):
        labels[REGION] = draws.one(("r1", "r2"), 4)
    if draws.chance(0.08):
        labels |= {BETA_ZONE: f"zone-{draws.one(ZONES)}", BETA_REGION: "r1"}
    labels |= {"disk": draws.one(("ssd", "hdd"))} if draws.chance(0.7) else {}
    labels |= (
        {"gen": draws.one(("1", "8", "-3", "x", "09", "9223372036854775807"), 3, 3)}
        if draws.chance(0.6)
        else {}
    )
    allocatable: Object = {
        "cpu": draws.one(CPUS, 8, 5, 3, 3, 3, 3),
        "memory": draws.one(MEMORIES, 8, 5, 3, 3, 3, 3),
        "pods": draws.one(("110", "4", "2", "1", "0"), 10, 2, 1, 0.5, 0.2),
    }
    if draws.chance(0.6):
        allocatable["ephemeral-storage"] = draws.one(("100Gi", "10Gi", "1Gi", "0"), 4, 2)
    if draws.chance(0.4):
        allocatable[GPU] = draws.one(("4", "1", "8", "0"), 3, 3, 2, 1)
    if draws.chance(0.1):
        allocatable["hugepages-2Mi"] = draws.one(("64Mi", "0"))
    taints = [
        without_empty(
            {
                "key": draws.one(TAINT_KEYS, 3, 3),
                "value": draws.one((None, "a", "b", ""), 2, 3),
                "effect": draws.one(EFFECTS, 2, 3),
            }
        )
        for _ in range(draws.few(3) if likely("taints", 0.15) else 0)
    ]
    spec = without_empty(
        {"unschedulable": True if likely("taints", 0.05) and draws.chance(0.3) else None, "taints": taints}
    )
    capacity = dict(allocatable)
    if draws.chance(0.3):
        capacity["cpu"] = draws.one(("4", "8", "16"))
    status: Object = {
        "allocatable": allocatable,
        "capacity": capacity,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    if likely("images", 0.25):
        status["images"] = [_image(draws) for _ in range(draws.number(1, 5))]
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
