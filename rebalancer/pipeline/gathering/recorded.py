"""What a recording holds beside the cluster: the clock, the state of earlier runs, Prometheus' answers."""

from __future__ import annotations

import numpy as np

from rebalancer.cluster import records, times
from rebalancer.cluster.dumps.listing import Recording
from rebalancer.cluster.kinds import NODE_METRICS, POD_METRICS
from rebalancer.cluster.snapshot import Snapshot
from rebalancer.errors import InputError
from rebalancer.load.prometheus.responses import DOCUMENT as PROMETHEUS
from rebalancer.load.prometheus.responses import RecordedResponses, decode_book
from rebalancer.pipeline.scheduler.configuration import ConfigurationText
from rebalancer.state import RunState
from rebalancer.state.run_state import decode as decode_state

_CONFIGURATION, _STATE = "scheduler-config.yaml", "state.json"


def recorded_moment(snapshot: Snapshot) -> float:
    """When a cluster was recorded: the newest of its metrics, else the newest time of its nodes and pods."""
    recording = snapshot.recording
    moments: list[float] = []
    for kind in (NODE_METRICS, POD_METRICS):
        for item in recording.records(kind):
            if isinstance(item, (records.NodeMetrics, records.PodMetrics)):
                try:
                    moments.append(times.parse(item.timestamp))
                except ValueError:
                    continue
    if PROMETHEUS in recording.documents:
        moments.append(recorded_answers(recording).time)
    if not moments:
        known = np.concatenate([snapshot.pods.created, snapshot.pods.started, snapshot.nodes.ready_since])
        moments = known[~np.isnan(known)].tolist()
    return max(moments, default=0.0)


def recorded_answers(recording: Recording) -> RecordedResponses:
    """What Prometheus answered when the cluster was recorded; an empty book when it was not asked."""
    content = recording.documents.get(PROMETHEUS)
    return (
        decode_book(content, f"{recording.source}/{PROMETHEUS}")
        if content is not None
        else RecordedResponses()
    )


def recorded_state(recording: Recording) -> RunState | None:
    """The state of earlier runs that was recorded with the cluster."""
    content = recording.documents.get(_STATE)
    return decode_state(content, f"{recording.source}/{_STATE}") if content is not None else None


def recorded_configuration(recording: Recording) -> ConfigurationText | None:
    """The scheduler's configuration that was recorded with the cluster."""
    content = recording.documents.get(_CONFIGURATION)
    if content is None:
        return None
    where = f"{recording.source}/{_CONFIGURATION}"
    try:
        return ConfigurationText(content.decode(), where)
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8: {error.reason}", where=where) from error
