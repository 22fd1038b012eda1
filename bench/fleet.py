"""Recordings of many clusters, some of them broken, for what one table of a fleet takes.

    python -m bench.fleet /tmp/fleet --clusters 200 --broken 2
    /usr/bin/time -v rebalancer plan --from '/tmp/fleet/*' -o json > fleet.json

Clusters have 50 to 500 nodes and a dozen pods a node, by ``bench.cluster``. A broken one lacks its
nodes, or has a file that is cut off. The same arguments give the same bytes.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from bench.cluster import write_cluster

LEAST_NODES, MOST_NODES = 50, 500


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--clusters", type=click.IntRange(1, 2000), default=200, show_default=True)
@click.option("--broken", type=click.IntRange(0), default=2, show_default=True)
@click.option("--pods", default=12, show_default=True, help="A node, on average.")
@click.option("--seed", default=1, show_default=True)
def main(folder: Path, clusters: int, broken: int, pods: int, seed: int) -> None:
    """Write them."""
    random = np.random.default_rng(seed)
    total = np.zeros(2, np.int64)
    for number in range(clusters):
        nodes = int(random.integers(LEAST_NODES, MOST_NODES, endpoint=True))
        cluster = folder / f"cluster-{number:03}"
        write_cluster(cluster, nodes, pods * nodes, seed + number)
        total += (nodes, pods * nodes)
        if number >= clusters - broken:
            nodes_file = cluster / "nodes.json.zst"
            if number % 2:
                nodes_file.unlink()
            else:
                nodes_file.write_bytes(nodes_file.read_bytes()[:1000])
    click.echo(f"{clusters} clusters, {broken} of them broken: {total[0]:,} nodes, {total[1]:,} pods")


if __name__ == "__main__":
    main()
