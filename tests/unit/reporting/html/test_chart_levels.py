"""The levels that a policy sets, as lines across the chart of nodes."""

from __future__ import annotations

import itertools

from msgspec.structs import replace

from rebalancer.planning.plan import Level, NodeReport
from rebalancer.reporting.html.chart import HEIGHT, WIDTH, Chart, chart
from rebalancer.reporting.html.pages import node_charts
from tests.unit.reporting.builders import a_node
from tests.unit.reporting.tables.names import NODES


def limited(name: str, cpu: float, hot_above: float, cool_to: float) -> NodeReport:
    level = Level(hot_above=hot_above, cool_to=cool_to)
    return replace(a_node(name, cpu, after=cpu), levels={"cpu": level})


def drawn(nodes: list[NodeReport]) -> Chart:
    found = chart(nodes, "cpu")
    assert found is not None
    return found


def test_one_level_for_all_nodes_is_one_line_with_its_figure_in_the_legend() -> None:
    found = drawn([limited("a", 90, 80, 65), limited("b", 50, 80, 65)])

    assert [(line.kind, line.x, line.end) for line in found.levels] == [
        ("hot", 0.0, WIDTH),
        ("cool", 0.0, WIDTH),
    ]
    assert found.legend == (("hot", "hot above 80 %"), ("cool", "cool to 65 %"))


def test_nodes_with_levels_of_their_own_have_lines_of_their_own() -> None:
    found = drawn([limited("a", 90, 85, 70), limited("b", 80, 60, 50), a_node("c", 40)])

    hot = [line for line in found.levels if line.kind == "hot"]
    assert [(line.x, line.end) for line in hot] == [(0.0, WIDTH / 3), (WIDTH / 3, 2 * WIDTH / 3)]
    assert hot[0].y > hot[1].y, "the bars of the first node may be higher before it is hot"
    assert found.legend[0] == ("hot", "hot above 60 or 85 %")


def test_many_different_levels_are_a_range_in_the_legend() -> None:
    found = drawn([limited(f"n{number}", 90 - number, 60 + number, 50) for number in range(5)])

    assert found.legend == (("hot", "hot above 60 to 64 %"), ("cool", "cool to 50 %"))


def test_a_level_above_the_chart_is_named_and_not_drawn_at_its_edge() -> None:
    found = drawn([limited("a", 90, 150, 80)])

    assert [line.kind for line in found.levels] == ["cool"]
    assert found.legend[0] == ("hot", "hot above 150 %")


def test_few_nodes_are_named_below_their_bars_and_many_are_not() -> None:
    assert [bar.name for bar in drawn([a_node("node-1"), a_node("node-2", 50)]).bars] == ["node-1", "node-2"]
    many = drawn([a_node(f"n{number}") for number in range(13)])
    assert [bar.name for bar in many.bars if bar.name] == ["n0"]
    long = drawn([a_node(f"ip-10-0-0-{number}.eu-central-1.compute.internal") for number in range(12)])
    assert [bar.name for bar in long.bars][:2] == ["ip-10-0-0-0", "ip-10-0-0-1"], "without what all end in"
    pools = drawn([a_node(f"gke-production-web-pool-1-{number}-x7k2") for number in range(2)])
    assert [bar.name for bar in pools.bars] == ["0-x7k2", "1-x7k2"], "without what all begin with"
    regions = drawn([a_node("ip-10-0-1-2.ec2.internal"), a_node("ip-10-0-1-3.eu-west-1.compute.internal")])
    assert [bar.name for bar in regions.bars] == ["ip-10-0-1-2", "ip-10-0-1-3"], "each is one node"
    alike = drawn([a_node(name) for name in NODES["EKS of two regions"]])
    assert [bar.name for bar in alike.bars][:2] == ["ip-10-0-12-22.ec…", "ip-10-0-12-22.eu…"]
    far = drawn([a_node(f"gke-{'x' * 30}-a-{number}") for number in (1, 2)])
    assert [bar.name for bar in far.bars] == [f"…{'x' * 12}-a-{number}" for number in (1, 2)]


def test_of_many_nodes_the_hottest_and_those_that_lose_pods_are_named_where_each_can_be_read() -> None:
    nodes = [a_node(f"n{number:02}", 99 - number, after=99 - number) for number in range(90)]
    for at in (2, 3, 4, 89):
        nodes[at] = a_node(f"n{at:02}", 99 - at, after=1.0)
    named = [bar for bar in drawn(nodes).bars if bar.name]

    assert [bar.name for bar in named] == ["n00", "n02", "n03", "n04", "n89"]
    ends = [bar.name_x for bar in named]
    assert all(after - before >= 12 for before, after in itertools.pairwise(ends))
    assert max(ends) <= WIDTH


def test_the_charts_of_a_report_show_the_nodes_in_one_order() -> None:
    nodes = [
        a_node("a", 90.0, after=80.0),
        replace(a_node("b", 50.0, after=50.0), load={"cpu": 50, "memory": 80}),
    ]
    cpu, memory = node_charts(nodes)

    assert [bar.name for bar in cpu.bars] == [bar.name for bar in memory.bars] == ["a", "b"]
    assert cpu.shown == "2 nodes, hottest first"
    assert memory.shown == "2 nodes, in the order of cpu"


def test_the_axis_goes_up_to_the_highest_bar() -> None:
    assert drawn([a_node("a", 107.0, after=60.0)]).lines[-1] == (HEIGHT, 125)
    assert drawn([a_node("a", 60.0, after=40.0)]).lines[-1] == (HEIGHT, 100)
    assert drawn([a_node("a", 410.0, after=40.0)]).lines[-1] == (HEIGHT, 500)


def test_of_many_nodes_all_are_shown_where_there_is_no_plan_and_those_it_concerns_where_there_is() -> None:
    nodes = [a_node(f"n{number}", number / 10, hot=number > 900) for number in range(1000)]

    assert drawn(nodes).shown == "1,000 nodes, hottest first"
    assert len(drawn(nodes).bars) <= 240
    concerned = drawn([*nodes, a_node("n", 50, after=40)]).shown
    assert concerned == "100 nodes that are hot or receive pods, hottest first"
