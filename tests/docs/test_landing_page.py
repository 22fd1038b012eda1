"""The landing that docs/landing.md works out by hand is the one that the program computes."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "landing.md").read_text()
COMMAND = "explain pod/shop/api-7d9f-03 --from examples/hot-cluster --policy examples/policy.yaml -o json"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|\n").split("|")]


def test_the_table_of_the_page_is_that_of_the_program() -> None:
    command = [sys.executable, "-m", "rebalancer", *COMMAND.split()]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    table = PAGE.split("<!-- landing: begin -->")[1].split("<!-- landing: end -->")[0].strip().splitlines()
    titles = cells(table[0])
    shown = [dict(zip(titles, cells(line), strict=True)) for line in table[2:]]

    assert shown == [
        {
            "node": node["node"],
            **{name: str(node["scores"][name]) for name in titles[1:-2]},
            "total": str(node["total"]),
            "chance": f"{100 * node['probability']:.0f} %",
        }
        for node in found["table"]["nodes"]
    ]
    left_out = {name for node in found["table"]["nodes"] for name in node["scores"]} - set(titles)
    assert all(node["scores"][name] == 0 for node in found["table"]["nodes"] for name in left_out)
    assert f"{found['staying']['forgone']['cpu']:.1f} points" in PAGE
