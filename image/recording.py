"""A recorded hot cluster and its policy, in the folder named: what ``image/build.py --check`` plans for."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from rebalancer.cluster.kinds import KINDS
from rebalancer_demo.hot_cluster import hot_cluster

CREATED = 1_795_176_000.0
NODE_METRICS = {"apiVersion": "metrics.k8s.io/v1beta1", "timestamp": "2026-11-20T12:00:00Z", "window": "15s"}
POLICY = """\
apiVersion: rebalancer/v1alpha1
kind: RebalancePolicy
hotNodes: {forRuns: 1}
evictable: {minAge: 0s}
planning: {maxAfter: {cpu: 100, memory: 100}}
"""

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "dump").mkdir(parents=True)
    measured = [
        {
            **NODE_METRICS,
            "kind": "NodeMetrics",
            "metadata": {"name": f"node-{number}"},
            "usage": {"cpu": "3600m" if number == 2 else "500m", "memory": "1Gi"},
        }
        for number in range(1, 7)
    ]
    text = msgspec.json.encode([*hot_cluster(CREATED), *measured])
    items = msgspec.json.decode(text.replace(b'"trimaran"', b'"default-scheduler"'))
    for kind in KINDS:
        found = [item for item in items if item["kind"] == kind.name]
        listed = {"apiVersion": "v1", "kind": "List", "items": found}
        (folder / "dump" / f"{kind.plural}.json").write_bytes(msgspec.json.encode(listed))
    (folder / "policy.yaml").write_text(POLICY)
