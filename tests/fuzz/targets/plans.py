"""A whole plan of a cluster whose objects are mutated: what a decoder admits, every later stage must bear."""

from __future__ import annotations

from collections.abc import Mapping

from rebalancer.observe.plan_options import PlanOptions
from rebalancer.reporting.html.embedded import embedded, read_plan
from rebalancer.reporting.render import to_json
from rebalancer.run.plan import make_plan
from tests.fuzz.clusters import as_kubectl_prints, folder, mixed_items
from tests.fuzz.structure import json_structure
from tests.fuzz.target import Target


def decode(content: bytes) -> None:
    """Plan for the cluster, and write the plan as JSON."""
    path = folder() / "cluster.json"
    path.write_bytes(content)
    to_json(make_plan(PlanOptions(source=path)))


def decode_written(content: bytes) -> None:
    """Read a plan that was written, from its JSON and from a page that holds it."""
    page = f'<script type="application/zlib" id="plan">{embedded(content)}</script>'.encode()
    for written in (page, content):
        to_json(read_plan(written, "plan"))


def written() -> Mapping[str, bytes]:
    """The plan of the sound cluster."""
    path = folder() / "sound.json"
    path.write_bytes(as_kubectl_prints(mixed_items()))
    return {"plan.json": to_json(make_plan(PlanOptions(source=path))).encode()}


def seeds() -> Mapping[str, bytes]:
    """The sound cluster."""
    return {"cluster.json": as_kubectl_prints(mixed_items())}


TARGETS = (
    Target("plan", decode, seeds, json_structure(indent=4), largest=64 << 20),
    Target("written-plan", decode_written, written, json_structure(), largest=64 << 20),
)
