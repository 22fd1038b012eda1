from __future__ import annotations

from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from rebalancer.planning.plan import Figure, ListedNode, NodeReport
from rebalancer.reporting.render import to_json
from rebalancer.reporting.tables.nodes import (
    figure_words,
    node_listing,
    nodes_table,
    origin_words,
    sorted_nodes,
)
from rebalancer.reporting.tables.text import Style
from tests.unit.reporting.builders import a_node, a_plan

UNKNOWN = NodeReport(name="node-0009", load={}, because=("its figure is 9 minutes old",))
LONG = "ip-10-0-12-34.eu-west-1.compute.internal"


def test_hot_nodes_come_first_and_unknown_ones_are_named(snapshot: SnapshotAssertion) -> None:
    nodes = (
        UNKNOWN,
        a_node("node-0003", 12.0, hot=False, because=""),
        a_node(LONG, 95.0),
        a_node("node-0002", 84.0),
    )

    listing = node_listing(a_plan(), tuple(sorted_nodes(nodes, "heat")))
    assert nodes_table(listing).plain == snapshot


def test_many_nodes_are_summarised_unless_all_are_wanted() -> None:
    nodes = tuple(a_node(f"node-{number:04d}", 50.0, hot=False, because="") for number in range(100))
    listing = node_listing(a_plan(), nodes)

    assert "80 more nodes (--all)" in nodes_table(listing).plain
    assert "node-0099" in nodes_table(listing, Style(everything=True)).plain


def test_the_listing_carries_the_digest_of_its_inputs() -> None:
    assert '"inputs":"sha256:0123456789abcdef"' in to_json(node_listing(a_plan(), ()))


def test_a_wide_listing_shows_amounts_and_the_labels_that_are_asked_for() -> None:
    node = a_node("node-0001", 50.0, hot=False, because="")
    gib = float(1 << 30)
    listed = ListedNode(
        **{name: getattr(node, name) for name in NodeReport.__struct_fields__},
        allocatable={"cpu": 4.0, "memory": 16 * gib, "pods": 110.0},
        requests={"cpu": 2.5, "memory": 3 * gib, "pods": 7.0},
        limits={"cpu": 8.0, "memory": 0.0},
        labels={"topology.kubernetes.io/zone": "a"},
    )
    listing = node_listing(a_plan(), (listed, node))
    shown = nodes_table(listing, Style(wide=True, width=200), labels=("topology.kubernetes.io/zone",)).plain
    row = next(line for line in shown.splitlines() if "node-0001" in line)
    assert "2/2.5/8 of 4" in row
    assert "/3.0Gi/0.0Gi of 16.0Gi" in row
    assert "7 of 110" in row
    assert {"PODS", "ZONE"} < set(next(line for line in shown.splitlines() if "CORES" in line).split())


def test_requests_that_stand_for_a_load_are_not_called_measured() -> None:
    figures = {"cpu": Figure("requests", 0.0), "memory": Figure("metrics-server", 0.0)}
    node = replace(a_node("node-0001", 50.0, hot=False, because=""), figures=figures)

    assert origin_words((node,)) == [
        "figures of 1 node from metrics-server, just measured",
        "figures of 1 node from requests, not measured",
    ]
    assert figure_words(figures) == "cpu from requests, not measured; memory from metrics-server, 0s old"


def test_the_summary_fits_the_narrowest_terminal() -> None:
    nodes = (a_node("node-0001", 95.0), a_node("node-0002", 5.0, hot=False, because=""))
    shown = nodes_table(node_listing(a_plan(), nodes), Style(width=40)).plain

    assert max(map(len, shown.splitlines())) <= 40
    assert "mean  50  p95  95  max  95\n    █········█  nodes from 0 to 100 %\n" in shown
