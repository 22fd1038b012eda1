"""What an extender is given: its file of scores, and requests of a scheduler."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import cast

from prometheus_client import CollectorRegistry, Counter, Histogram

from rebalancer.load.scheduler_view import SchedulerView
from rebalancer.scheduling.extenders import ExtenderScore
from rebalancer.scheduling.framework.plugin import PluginInputs
from rebalancer_extender.answers import Answers, InForce, LiveScore, RequestError
from rebalancer_extender.serving import read_file
from rebalancer_extender.watched_state import Counted, WatchedState
from tests.fuzz.clusters import sound_snapshot
from tests.fuzz.structure import json_structure, yaml_structure
from tests.fuzz.target import Target
from tests.integration.cli.dumps import a_rich_cluster

_LONGEST = 1000  # characters of an answer that refuses
EXAMPLES = Path(__file__).parents[3] / "examples" / "extender"


class Unwatched:
    """The sound cluster, which nobody watches."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.counted = Counted(sound_snapshot())

    def up_to_date(self) -> Counted:
        """The cluster."""
        return self.counted

    def await_bound(self, _key: tuple[str, str], _seconds: float) -> bool:
        """Nothing is waited for."""
        return True


@cache
def answers() -> Answers:
    """Those of an extender that counts pods."""
    registry = CollectorRegistry()
    watched = Unwatched()
    neutral = Counter("neutral", "Neutral.", ("score",), registry=registry)
    waits = Histogram("waits", "Waits.", registry=registry)
    found = Answers(cast("WatchedState", watched), neutral, waits, lambda: 0.0)
    file = read_file((EXAMPLES / "pods-per-node" / "scores.yaml").read_text(), "scores.yaml")
    inputs = PluginInputs.of(watched.counted.snapshot, SchedulerView())
    live = []
    for score in file.scores:
        make = file.configuration.plugins[f"extender/{score.name}"].make
        assert make is not None
        live.append(LiveScore(cast("ExtenderScore", make(score.arguments, inputs)), score.weight, 0.0, True))
    found.in_force = InForce(tuple(live), 60.0, 0.0)
    return found


def decode_scores(content: bytes) -> None:
    """Read a file of scores."""
    read_file(content.decode("utf-8", "replace"), "scores.yaml")


def decode_request(content: bytes) -> None:
    """Answer a request by both verbs; the answers are JSON, or short."""
    for answer in (answers().prioritize, answers().filter):
        try:
            json.loads(answer(content))
        except RequestError as error:
            if len(str(error)) > _LONGEST:
                raise


def _scores() -> Mapping[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(EXAMPLES.glob("*/scores.yaml"))}


def _requests() -> Mapping[str, bytes]:
    nodes = [*sound_snapshot().nodes.names, "unknown"]
    return {
        str(number): json.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes}).encode()
        for number, pod in enumerate(a_rich_cluster()["pods"])
    }


TARGETS = (
    Target("scores", decode_scores, _scores, yaml_structure),
    Target("extender-request", decode_request, _requests, json_structure(), largest=8 << 20),
)
