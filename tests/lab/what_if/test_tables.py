"""No name is cut: every pod and every node of an answer can be told from every other, at every width."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from rebalancer.planning.plan import Plan
from rebalancer.reporting.tables.text import Style, common_ending
from rebalancer_lab.what_if.changed_cluster import ChangedNode, Fate, PodFate, WhatIf
from rebalancer_lab.what_if.fit import Fit, FittingPod, NodeRoom
from rebalancer_lab.what_if.tables import fit_table, what_if_table
from tests.rows import rows
from tests.unit.reporting.builders import NOW
from tests.unit.reporting.tables.names import NODES, a_plan_of
from tests.unit.reporting.tables.test_text_names import OF_PLAN, Table, named


def what_if(plan: Plan, style: Style) -> Text:
    fates = [
        PodFate(move.pod.full_name, move.pod.workload, move.from_node, Fate.LANDS, move.landings)
        for move in plan.moves
    ]
    nodes = [
        ChangedNode(node.name, "", (node.hot, False), node.load, node.after.load if node.after else {})
        for node in plan.nodes
    ]
    changed = WhatIf(
        **OF_PLAN, changes=("drain it",), pods=tuple(fates), nodes=tuple(nodes), hot=(2, 0),
        hot_after_plan=(1, 0), changed_moves=(), pending=(0, 0), moves=(3, 0), comparison=None,
        emptied=None, notes=(),
    )  # fmt: skip
    return what_if_table(changed, style)


def fit(plan: Plan, style: Style) -> Text:
    landings = tuple(FittingPod(at, node.name, 1.0, 0, {}) for at, node in enumerate(plan.nodes))
    found = Fit(
        "production", "sha256:0", NOW, "Pod shop/web", "default-scheduler", {}, 0, 4, fits=4, at_most=10,
        landings=landings, by_node=tuple(NodeRoom(node.name, 1) for node in plan.nodes),
    )  # fmt: skip
    return fit_table(found, style)


TABLES: Mapping[str, Table] = {"what-if": what_if, "fit": fit}


@rows("cloud", NODES)
@rows("table", TABLES)
def test_every_node_is_named_in_whole(table: str, cloud: str) -> None:
    for width in (60, 80, 120, 300):
        shown = TABLES[table](a_plan_of(NODES[cloud]), Style(width=width, bounded=True)).plain

        ending = common_ending(NODES[cloud])
        assert all(named(shown, name.removesuffix(ending)) for name in NODES[cloud]), shown
        if cloud in ("ours", "EKS", "GKE", "AKS"):
            assert max(map(len, shown.splitlines())) <= width, shown
