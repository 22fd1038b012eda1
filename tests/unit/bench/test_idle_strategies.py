"""What strategies cost where they have nothing to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import idle_strategies
from bench.cluster import write_cluster
from rebalancer.cluster.dumps.reader import DumpReader
from rebalancer.cluster.snapshot import build_snapshot


def test_each_case_is_measured_by_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--nodes", "6", "--pods", "60", "--repeat", "1"]
    monkeypatch.setattr(sys, "argv", ["idle_strategies", *size, "--only", "misplaced", "failed"])
    idle_strategies.main()

    _, *rows = (line.split(" | ") for line in capsys.readouterr().out.splitlines())
    assert [(row[0], row[-1]) for row in rows] == [("misplaced", "0, 0"), ("failed", "0, 0")]


def test_pods_of_an_even_cluster_share_no_node_with_another_of_their_workload(tmp_path: Path) -> None:
    write_cluster(tmp_path, 12, 100, even=True)
    pods = build_snapshot(DumpReader(tmp_path).read()).pods

    places = [(pods.class_of(row).owner.uid, pods.node[row]) for row in range(len(pods))]
    assert len(places) > 20
    assert len(set(places)) == len(places)
