"""Plans whose nodes and pods have the names that clouds give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from rebalancer.planning.plan import Landing, Move, NodeReport, Plan, PodReference
from tests.unit.reporting.builders import a_kept, a_move, a_node, a_plan

# By who gives them: the names of nodes, two of which differ in one character.
NODES: Mapping[str, Sequence[str]] = {
    "ours": ("node-1", "node-2", "node-3", "node-12"),
    "EKS": tuple(f"ip-10-0-12-{number}.eu-west-1.compute.internal" for number in (22, 23, 122, 222)),
    "EKS of two regions": (
        "ip-10-0-12-22.ec2.internal",
        "ip-10-0-12-22.eu-west-1.compute.internal",
        "ip-10-0-12-23.eu-west-1.compute.internal",
        "ip-172-31-255-123.eu-west-1.compute.internal",
    ),
    "GKE": tuple(f"gke-production-web-pool-1-3f2a1b4c-{end}" for end in ("x7k2", "x7k3", "a7k2", "0b1c")),
    "AKS": tuple(f"aks-nodepool1-12345678-vmss00000{end}" for end in "012a"),
    "addresses": ("10.0.12.1", "10.0.13.1", "10.0.14.1", "10.1.12.1"),
    "very long": tuple(f"{'worker-of-the-blue-team-' * 4}{number}.example.com" for number in range(4)),
}
PODS = (
    "checkout-api-7c9d6f5b8f-x2x4z",
    "checkout-api-7c9d6f5b8f-x2x5z",
    "checkout-api-7c9d6f5b8e-x2x4z",
    "storefront-recommendations-worker-64bfd8c9d7-qqqqq",
)


def a_plan_of(nodes: Sequence[str]) -> Plan:
    """A plan that moves three pods off two of four nodes; a fourth pod stays."""
    hot, hotter, first, second = nodes

    def move(pod: str, source: str, to: Sequence[str], wave: int) -> Move:
        landings = tuple(Landing(node=node, probability=1 / len(to)) for node in to)
        because = f"{source} is at 91 % cpu (cool at 65 %); its replacement will be placed on {to[0]}"
        reference = PodReference(namespace="shop", name=pod, uid=pod, workload="Deployment/checkout-api")
        return replace(a_move(wave=wave), pod=reference, from_node=source, landings=landings, because=because)

    def node(name: str, cpu: float, after: float, *, is_hot: bool) -> NodeReport:
        return a_node(name, cpu, after=after, hot=is_hot)

    return a_plan(
        nodes=(
            node(hot, 91.0, 60.0, is_hot=True),
            node(hotter, 95.0, 70.0, is_hot=True),
            node(first, 20.0, 40.0, is_hot=False),
            node(second, 10.0, 30.0, is_hot=False),
        ),
        moves=(
            move(PODS[0], hot, (first,), 1),
            move(PODS[1], hotter, (first, second), 1),
            move(PODS[2], hotter, (second,), 2),
        ),
        kept=(replace(a_kept(PODS[3]), node=hot),),
        unsolved={hotter: f"falls to 70 % cpu; {hotter} holds only pods that stay"},
        warnings=(f"the node {hot} has a figure that is older than the others: it is counted as unknown",),
    )
