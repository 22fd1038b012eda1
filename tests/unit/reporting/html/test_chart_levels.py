"""The levels that a policy sets, as lines across the chart of nodes."""

from __future__ import annotations

from msgspec.structs import replace

from rebalancer.planning.plan import Level, NodeReport
from rebalancer.reporting.html.chart import WIDTH, Chart, chart
from tests.unit.reporting.builders import a_node


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
    assert not any(bar.name for bar in drawn([a_node(f"n{number}") for number in range(13)]).bars)
    long = drawn([a_node(f"ip-10-0-0-{number}.eu-central-1.compute.internal") for number in range(12)])
    assert [bar.name for bar in long.bars][:2] == ["ip-10-0-0-0", "ip-10-0-0-1"], "without what all end in"
    pools = drawn([a_node(f"gke-production-web-pool-1-{number}-x7k2") for number in range(2)])
    assert [bar.name for bar in pools.bars] == ["…eb-pool-1-0-x7k2", "…eb-pool-1-1-x7k2"]


def test_of_many_nodes_all_are_shown_where_there_is_no_plan_and_those_it_concerns_where_there_is() -> None:
    nodes = [a_node(f"n{number}", number / 10, hot=number > 900) for number in range(1000)]

    assert drawn(nodes).shown == "1,000 nodes"
    assert len(drawn(nodes).bars) <= 240
    assert drawn([*nodes, a_node("n", 50, after=40)]).shown == "100 nodes that are hot or receive pods"
