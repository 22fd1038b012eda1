"""An API server's lists of pods in protobuf, through the reader of live clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from rebalancer.cluster.dumps.listing import ListingBuilder, Recording
from rebalancer.cluster.kinds import PODS
from rebalancer.cluster.live.client import RawApi
from rebalancer.cluster.live.lists import read_list
from rebalancer.cluster.records import Pod
from rebalancer.cluster.wire.protobuf import MEDIA_TYPE, PodListSplitter
from rebalancer.errors import UnreachableError
from rebalancer.http import Answer
from tests.fuzz.clusters import joined
from tests.fuzz.target import Target
from tests.integration.cli.dumps import a_rich_cluster
from tests.protobuf_encoder import encode_list


@dataclass(frozen=True)
class OneAnswer:
    """An API server that gives the same answer to everything."""

    body: bytes
    content_type: str
    host: str = "http://fuzz"

    def within(self, _seconds: float) -> OneAnswer:
        """The same server, which takes no time."""
        return self

    def ask(self, *_arguments: Any, **_options: Any) -> Answer:
        """The answer."""
        return Answer(self.body, headers={"Content-Type": self.content_type})


def decode(content: bytes) -> None:
    """Read one answer to a LIST of pods."""
    api = cast("RawApi", OneAnswer(content, MEDIA_TYPE))
    joined(Recording("fuzz", {"pods": read_list(api, PODS, "list pods", PODS.path)}))


def split(content: bytes) -> None:
    """Read one answer piece by piece; what is not a list is refused."""
    splitter, builder = PodListSplitter(), ListingBuilder(PODS)
    try:
        for start in range(0, len(content), 1000):
            builder.add_protobuf(splitter.pods(content[start : start + 1000]))
        splitter.finish()
    except ValueError as error:
        raise UnreachableError(str(error)) from error
    joined(Recording("fuzz", {"pods": builder.listing()}))


def seeds() -> Mapping[str, bytes]:
    """A list of pods, one of none."""
    pods = [msgspec.convert(item, Pod) for item in a_rich_cluster()["pods"]]
    return {"pods.pb": encode_list(pods), "none.pb": encode_list([])}


TARGETS = (Target("protobuf", decode, seeds), Target("protobuf-list", split, seeds))
