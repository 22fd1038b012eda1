"""Moments of a timeline: the files in it, mutated and packed again."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import msgspec
import zstandard

from rebalancer.load.raw_figures import RawFigures
from rebalancer.observe.timeline import Timeline, contents_of
from rebalancer.planning.inputs import Observation
from tests.fuzz.clusters import folder, sound_snapshot
from tests.fuzz.structure import json_structure
from tests.fuzz.target import Target


def mutate(content: bytes, max_bytes: int, random: Random) -> bytes | None:
    """Changes one file of a moment by its structure."""
    try:
        found: dict[str, bytes] = msgspec.msgpack.decode(content)
        name = random.choice(sorted(found))
        changed = json_structure()(found[name], max_bytes, random)
        return changed and msgspec.msgpack.encode({**found, name: changed})
    except (AttributeError, IndexError, TypeError, ValueError):
        return None


def decode(content: bytes) -> None:
    """Observe the only moment of a timeline."""
    place = folder() / "timeline"
    place.mkdir(exist_ok=True)
    (place / "20261120T120000.000Z.full.zst").write_bytes(zstandard.compress(content))
    timeline = Timeline.open(place)
    timeline.observation(timeline.moment_at(None))


def seeds() -> Mapping[str, bytes]:
    """A sound one."""
    sound = contents_of(Observation(snapshot=sound_snapshot(), figures=RawFigures(), now=1e9), None)
    return {"sound": msgspec.msgpack.encode(sound)}


TARGETS = (Target("timeline", decode, seeds, mutate, largest=64 << 20),)
